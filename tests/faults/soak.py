"""`make soak`: mixed load for a long time, a training every two minutes; what grows, and what fails.

python -m tests.faults.soak --minutes 30
"""

import argparse
import contextlib
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import psutil

from tests.service.process import Service

RETRAIN_EVERY_S, SAMPLE_EVERY_S = 120.0, 5.0
N_USERS, N_ITEMS = 300, 100  # all pairs are rated after some minutes: then nothing grows that should
WARM_SHARE = 0.25  # of the time, before which growth says nothing: kernels are loaded, tables filled
MODELS = ("als", "culsh")


class Soak:
    """A service, a client, and a sample of the service's processes together now and then."""

    def __init__(self, data: Path) -> None:
        self.service = Service(data, backend="host", retrain_share=0, log_level="warning")
        self.answers: Counter[int | str] = Counter()
        self.samples: list[tuple[float, ...]] = []  # seconds, megabytes, files, threads, sockets
        self._random, self._n_trained = random.Random(0), 0

    def request(self) -> None:
        """One request of the mix: a third writes."""
        user, item = f"u{self._random.randrange(N_USERS)}", f"i{self._random.randrange(N_ITEMS)}"
        client, kind = self.service.client, self._random.randrange(9)
        try:
            if kind < 3:
                ratings = [{"user": user, "item": f"i{self._random.randrange(N_ITEMS)}", "rating": 3}] * (1 + kind)
                answer = client.post("/ratings", json=ratings)
            elif kind < 6:
                answer = client.get(f"/recommend/{user}")
            else:
                answer = client.get((f"/estimate/{user}/{item}", f"/users/{user}/ratings", "/popular")[kind - 6])
            self.answers[answer.status_code] += 1
        except httpx.TransportError as error:
            self.answers[type(error).__name__] += 1

    def train(self) -> None:
        """Ask for a training; one that still runs is left alone."""
        name = MODELS[self._n_trained % len(MODELS)]
        self._n_trained += 1
        body = {"algorithm": name, "params": {"n_factors": 16}, "force": True}
        self.answers[f"retrain {self.service.client.post('/admin/retrain', json=body).status_code}"] += 1

    def sample(self, at_s: float) -> None:
        processes = self.service.processes()
        megabytes = sum(one.memory_full_info().pss for one in processes) / 1e6
        n_files, n_threads = sum(one.num_fds() for one in processes), sum(one.num_threads() for one in processes)
        sockets = sum(len(one.net_connections(kind="all")) for one in processes)
        self.samples.append((at_s, megabytes, n_files, n_threads, sockets))

    def report(self) -> str:
        """The table."""
        table = np.array(self.samples)
        warm = table[table[:, 0] >= WARM_SHARE * table[-1, 0]]
        lines = ["| Measure | After the first quarter | End | Slope an hour |", "| --- | --- | --- | --- |"]
        for column, name in enumerate(("memory, MB", "open files", "threads", "sockets"), 1):
            slope = np.polyfit(warm[:, 0], warm[:, column], 1)[0] * 3600
            lines.append(f"| {name} | {warm[0, column]:.0f} | {warm[-1, column]:.0f} | {slope:+.1f} |")
        metrics = self.service.get("/metrics").text.splitlines()
        n_ratings = next(line.split()[1] for line in metrics if line.startswith("nearfield_ratings "))
        lines.append(f"\n{table[-1, 0] / 60:.1f} minutes; answers: {dict(self.answers)}; ratings: {n_ratings}")
        return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder) / "data")
        try:
            started_s = time.monotonic()
            trained_s = sampled_s = started_s - RETRAIN_EVERY_S
            trained_s += 10  # once there are ratings
            while (now := time.monotonic()) < started_s + 60 * minutes:
                soak.request()
                if now >= trained_s + RETRAIN_EVERY_S:
                    trained_s = now
                    soak.train()
                if now >= sampled_s + SAMPLE_EVERY_S:
                    sampled_s = now
                    with contextlib.suppress(psutil.Error):
                        soak.sample(now - started_s)
            print(soak.report())  # noqa: T201 (what it is for)
        finally:
            soak.service.kill()


if __name__ == "__main__":
    main()
