"""Starts, fills and trains a service in its own process, for end-to-end measurements."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.results import say
from service.base.errors import ServiceError
from service.cli import importer
from service.cli.client import Client, Rating
from service.cli.files.ratings_file import RatingsFile
from service.cli.service_process import ServiceProcess

REDIS = ("redis-server", "valkey-server")  # names of the process


class BenchFailed(ServiceError):
    """A measurement is impossible; the message says why."""


@contextmanager
def serving(
    data: Path, cores: set[int] | None = None, env: dict[str, str] | None = None
) -> Iterator[tuple[Client, int]]:
    """Run `nearfield serve` on `data`; yields a client and the pid of the parent once the service is ready."""
    environment = {"NEARFIELD_RETRAIN_SHARE": "0"} | (env or {})  # no automatic retraining during a measurement
    with ServiceProcess(data, environment=environment, cores=cores) as service, Client(service.address()) as client:
        yield client, service.child.pid


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Run this process, the driver, on `cores` until the block ends."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def post(client: Client, users: Sequence[str], items: Sequence[str], values: NDArray[np.float32]) -> None:
    """Post ratings in full requests and wait until the service has seen the last one."""
    triples = zip(users, items, values.tolist(), strict=True)
    receipt = importer.send(client, (Rating(user=user, item=item, rating=rating) for user, item, rating in triples))
    if receipt.stream_id is not None:
        client.wait_for(receipt.stream_id)


def retrain(client: Client, algorithm: str) -> None:
    """Train `algorithm` in the service and wait until its model is live."""
    say(f"training {algorithm}")
    job = client.retrain(algorithm, force=True)
    if not job["promoted"]:
        raise BenchFailed(f"Invalid end of job {job['id']}: expected a promoted model, got {job}")


def prepare(data: Path, file: RatingsFile, algorithms: Sequence[str]) -> None:
    """Fill a data folder through the API: post all ratings, then train each algorithm and set its model live."""
    with serving(data) as (client, _):
        say(f"posting {len(file.values):,} ratings")
        post(client, file.users, file.items, file.values)
        for algorithm in algorithms:
            retrain(client, algorithm)
