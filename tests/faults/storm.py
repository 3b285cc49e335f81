"""`Storm`: a client that writes while processes are killed, and knows what must be there afterward.

It records every entry of the stream as Redis has it (the tap), so that an undisturbed service can be given the same
ones under the same ids.
"""

import contextlib
import random
import shutil
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import msgspec
import psutil
import redis

from service.storage.streams.redis_server import RedisServer
from tests.faults import results
from tests.service.keys import COMMIT, RATINGS
from tests.service.process import Service
from tests.service.waiting import eventually

N_USERS, N_ITEMS, N_FACTORS = 24, 16, 4
MODELS = ("als", "culsh")
TRAINING = {"als": {"n_factors": N_FACTORS, "n_epochs": 2}, "culsh": {"n_factors": N_FACTORS, "n_epochs": 2}}
TRAINING["culsh"] |= {"n_neighbors": 2, "n_bits": 64}
START_S = 45.0  # seconds; as long as it may take to start again
OPERATIONS = ("post", "post", "post", "post", "overwrite", "delete", "hide", "show", "forget", "retrain", "activate")
Pair = tuple[str, str]


class Storm:
    """One service, its client and the tap."""

    def __init__(self, data: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.data = data
        self.entries: dict[str, dict[bytes, bytes]] = {}  # what the stream had, by id
        self.acknowledged: dict[str, Pair] = {}  # id to what its first rating is about
        self.n_kills = 0
        self._n_written = 0
        self._known: list[Pair] = []
        self.service = Service(data, backend="host", retrain_share=0, log_level="warning")
        self._is_over = threading.Event()
        self._tapping = threading.Thread(target=self._tap_all, daemon=True)
        self._tapping.start()

    def begin(self) -> None:
        """Some ratings, and a live model of each kind."""
        for number in range(0, N_USERS * N_ITEMS, 2):
            self._post([(f"u{number % N_USERS}", f"i{number // N_USERS}")])
        for name in MODELS:
            self.service.train(name, **TRAINING[name])

    # --- writing

    def write(self) -> None:
        """One operation; whatever it is answered, or not answered."""
        operation = self.random.choice(OPERATIONS)
        with contextlib.suppress(httpx.TransportError):
            getattr(self, f"_{operation}")()

    def _post(self, pairs: list[Pair] | None = None) -> None:
        draw = self.random.randrange
        pairs = pairs or [(f"u{draw(N_USERS)}", f"i{draw(N_ITEMS)}") for _ in range(1 + draw(5))]
        body = [{"user": u, "item": i, "rating": draw(1, 6), "timestamp": self._stamp()} for u, i in pairs]
        answer = self.service.client.post("/ratings", json=body)
        self._check(answer)
        if answer.status_code == 202:
            self.acknowledged[answer.json()["stream_id"]] = pairs[0]
            self._known += pairs

    def _stamp(self) -> float:
        """A time that no other rating has: by it one that was stored twice is found."""
        self._n_written += 1
        return float(self._n_written)

    def _overwrite(self) -> None:
        if self._known:
            self._post([self.random.choice(self._known)])

    def _delete(self) -> None:
        if self._known:
            user, item = self.random.choice(self._known)
            self._subject("DELETE", f"/ratings/{user}/{item}")

    def _hide(self) -> None:
        self._subject("PUT", f"/admin/items/i{self.random.randrange(N_ITEMS)}/hidden")

    def _show(self) -> None:
        self._subject("DELETE", f"/admin/items/i{self.random.randrange(N_ITEMS)}/hidden")

    def _forget(self) -> None:
        self._subject("DELETE", f"/admin/users/u{self.random.randrange(N_USERS)}")

    def _retrain(self) -> None:
        name = self.random.choice(MODELS)
        body = {"algorithm": name, "params": TRAINING[name], "force": True}
        self._check(self.service.client.post("/admin/retrain", json=body), 409)

    def _activate(self) -> None:
        models = self.service.get("/admin/models")
        self._check(models, 200)
        if models.status_code == 200 and (versions := models.json()["models"]):
            version = self.random.choice(versions)["version"]
            self._check(self.service.client.post(f"/admin/models/{version}/activate"), 404)

    def _subject(self, method: str, path: str) -> None:
        answer = self.service.client.request(method, path)
        self._check(answer)
        if answer.status_code == 202:
            self.acknowledged[answer.json()["stream_id"]] = ("", "")

    def _check(self, answer: httpx.Response, *others: int) -> None:
        """Whatever fails, a client gets one of the documented answers."""
        assert answer.status_code in (202, 503, *others), answer.text

    # --- faults

    def kill(self, *victims: str) -> None:
        """SIGKILL at once: `service`, `trainer`, `redis`."""
        processes = [process for victim in victims for process in self._processes(victim)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                self.n_kills += 1

    def _processes(self, victim: str) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess, redis.RedisError):
            if victim == "redis":
                return [psutil.Process(RedisServer(self.data).pid)]
            if victim == "service":
                return self.service.processes()
            return [one for one in self.service.family() if "service.jobs.trainer" in one.cmdline()]
        return []

    def trial(self, fault: str, victims: tuple[str, ...], n_operations: int = 12) -> None:
        """Write while `victims` are killed at some moment; then let the service come back."""
        row = results.row(fault)
        before = len(self.acknowledged)
        if "trainer" in victims:
            self._start_training()
        killer = threading.Timer(self.random.uniform(0.0, 0.25), self.kill, victims)
        killer.start()
        for _ in range(n_operations):
            self.write()
        killer.join()
        row.ready_s.append(self.come_back())
        row.n_trials += 1
        row.n_acknowledged += len(self.acknowledged) - before

    def _start_training(self) -> None:
        """Have a trainer to be killed, if no forgetting is in its way for long."""
        with contextlib.suppress(httpx.TransportError):
            self._retrain()
        until_s = time.monotonic() + 3
        while not self._processes("trainer") and time.monotonic() < until_s:
            time.sleep(0.02)

    def trial_at(self, point: str) -> None:
        """Write until a process reaches a fault point, where it kills itself; then let the service come back."""
        row = results.row(f"SIGKILL of a process at its n-th {point.split(':', maxsplit=1)[0]}")
        self.kill("service")
        self.come_back(NEARFIELD_FAULT_AT=point)
        before, n_ended = len(self.acknowledged), self._n_ended()
        for _ in range(60):
            self.write()
            if self._n_ended() > n_ended:
                row.n_trials, self.n_kills = row.n_trials + 1, self.n_kills + 1
                break
            with contextlib.suppress(httpx.TransportError):
                self._retrain() if self.random.random() < 0.2 else self._commit()
        self.kill("service")
        row.ready_s.append(self.come_back())
        row.n_acknowledged += len(self.acknowledged) - before

    def _n_ended(self) -> int:
        """Processes that the parent has reported as killed."""
        return self.service.errors.read_text().count('"cause": "signal SIGKILL"')

    def come_back(self, **environment: str) -> float:
        """Start the service if it is gone, and return the seconds until it is ready."""
        started_s = time.monotonic()
        self.service._environment.pop("NEARFIELD_FAULT_AT", None)
        self.service._environment |= environment
        eventually(self._is_back, 2 * START_S)
        return time.monotonic() - started_s

    def _is_back(self) -> bool:
        """Whether it is ready; starts it if it is gone, which it may be a moment after it was killed."""
        if self.service.process.poll() is not None:
            self.service.client.close()
            try:
                self.service.start(START_S)
            except AssertionError:
                if "NEARFIELD_FAULT_AT" not in self.service._environment:
                    raise
                del self.service._environment["NEARFIELD_FAULT_AT"]  # reached, again and again, before it is ready
                return False
        with contextlib.suppress(httpx.TransportError):
            return self.service.get("/health/ready").status_code == 200
        return False

    def _commit(self) -> None:
        """Have what is in the stream written to the log, as every job does."""
        with contextlib.suppress(redis.RedisError), redis.Redis.from_url(RedisServer(self.data).url) as client:
            client.set(COMMIT, client.xinfo_stream(RATINGS)["last-generated-id"])
        time.sleep(0.05)

    # --- afterward

    def _tap_all(self) -> None:
        """Record each entry within milliseconds: what is in the log may be trimmed by a forgetting soon after."""
        while not self._is_over.is_set():
            with (
                contextlib.suppress(redis.RedisError, FileNotFoundError),
                redis.Redis.from_url(RedisServer(self.data).url) as client,
            ):
                while not self._is_over.is_set():
                    after = max(self.entries, key=key_of, default="0-0")
                    for _, found in client.xread({RATINGS: after}, block=100):
                        self.entries |= {raw.decode(): fields for raw, fields in found}
            time.sleep(0.01)

    def close(self) -> None:
        """End everything."""
        self._is_over.set()
        self._tapping.join()
        self.service.kill()

    def settle(self) -> None:
        """Return once every job has ended and every model has learned everything."""
        jobs = "/admin/jobs"
        eventually(
            lambda: not [job for job in self.service.get(jobs).json()["jobs"] if job["state"] in UNFINISHED], 120
        )
        last = self.service.rate(("settler", "i0", 3.0))
        eventually(lambda: last in self.entries, 60)
        self.acknowledged[last] = ("settler", "i0")
        self.service.settle(last)

    def count_lost(self) -> int:
        """Acknowledged entries that the stream never had."""
        return len(self.acknowledged.keys() - self.entries.keys())

    def count_duplicated(self) -> int:
        """Ratings that were stored more often than they were sent."""
        stamps = Counter(
            rating["timestamp"]
            for fields in self.entries.values()
            if b"ratings" in fields
            for rating in msgspec.json.decode(fields[b"ratings"])
            if rating.get("rating") is not None and rating["user"] != "settler"
        )
        return sum(count - 1 for count in stamps.values())


UNFINISHED = ("queued", "running", "activating")


def key_of(stream_id: str) -> tuple[int, ...]:
    return tuple(map(int, stream_id.split("-")))


def answers_of(service: Service) -> dict[str, object]:
    """Lists with explanations, estimates, neighbors and ratings of everybody, without what differs by the moment."""
    users, items = [f"u{n}" for n in range(N_USERS)], [f"i{n}" for n in range(N_ITEMS)]
    paths = [f"/users/{user}/ratings" for user in users]
    live = live_of(service)
    for name in live:
        paths += [f"/recommend/{user}?model={name}&explain=true&n=50&include_seen=true" for user in users]
        paths += [f"/estimate/{user}/{item}?model={name}" for user in users[::3] for item in items]
        paths += [f"/items/{item}/neighbors?model={name}" for item in items]
    found: dict[str, object] = {"live": live}
    for path in paths:
        answer = service.get(path).json()
        found[path] = {name: value for name, value in answer.items() if name not in MOMENTARY}
    return found


MOMENTARY = ("as_of", "took_ms", "request_id")


def undisturbed(storm: Storm, data: Path) -> dict[str, object]:
    """The answers of a service to which nothing ever happened, with the same entries, ids and snapshots."""
    service = Service(data, backend="host", retrain_share=0, worker=False, log_level="warning")
    try:
        with redis.Redis.from_url(RedisServer(data).url) as client:
            for stream_id in sorted(storm.entries, key=key_of):
                client.xadd(RATINGS, storm.entries[stream_id], id=stream_id)
        last = max(storm.entries, key=key_of)
        eventually(lambda: service.get("/popular", wait_for=last).status_code == 200, 60)
        shutil.copytree(storm.data / "snapshots", data / "snapshots", dirs_exist_ok=True)
        (data / ".live").write_bytes((storm.data / "live.json").read_bytes())
        (data / ".live").rename(data / "live.json")
        eventually(lambda: len(live_of(service)) == len(MODELS))
        service.settle(last)
        return answers_of(service)
    finally:
        service.kill()


def live_of(service: Service) -> list[str]:
    """Names of the models that answer."""
    return sorted(model["algorithm"] for model in service.get("/admin/models").json()["models"] if model["live"])
