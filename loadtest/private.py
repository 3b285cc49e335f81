"""Starts a private service to measure if no address is given, by its command line, and removes it afterward."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from service.cli.client import Client, JobFailed, RequestFailed
from service.cli.service_process import NotStarted, ServiceProcess


def cores(n_drivers: int) -> tuple[set[int], set[int]]:
    """(cores of the service, cores of the drivers): each driver gets one of the last cores if there are enough."""
    every = sorted(os.sched_getaffinity(0))
    n_drivers = min(n_drivers, len(every) - 1)
    return (set(every[:-n_drivers]), set(every[-n_drivers:])) if n_drivers else (set(every), set(every))


@contextmanager
def running_service(ratings: Path, model: str, data: Path | None = None, n_drivers: int = 1) -> Iterator[str]:
    """Serve `ratings` with a trained `model`, or an existing folder `data`, on a free port while the block runs.

    Yields the address. Redis and trainings share the cores of the service.
    """
    own, drivers = cores(n_drivers)
    environment = {"NEARFIELD_RETRAIN_SHARE": "0"}  # only the measured trainings run
    with (
        tempfile.TemporaryDirectory(prefix="nearfield-loadtest-") as folder,
        ServiceProcess(data or Path(folder), environment=environment, cores=own) as service,
    ):
        try:
            url = service.address()
            if data is None:
                _learn(url, ratings, model)
        except (NotStarted, RequestFailed, JobFailed) as error:
            raise SystemExit(f"loadtest: {error}") from None
        os.sched_setaffinity(0, drivers)
        yield url


def key_of(environment: Mapping[str, str]) -> str | None:
    """The key of requests to a service with this environment; the first of two, while one replaces the other."""
    keys = environment.get("NEARFIELD_ADMIN_KEY") or environment.get("NEARFIELD_API_KEY")
    return keys.split(",")[0].strip() if keys else None


def _learn(url: str, ratings: Path, model: str) -> None:
    """Import the ratings and train the model."""
    subprocess.run([sys.executable, "-m", "service", "import", str(ratings), "--url", url], check=True)
    with Client(url, key_of(os.environ)) as client:
        client.retrain(model)
