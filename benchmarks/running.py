"""A service in a process of its own, as a user would start it: what the end-to-end measurements talk to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from service.cli import importer
from service.errors import ServiceError

READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.02


class BenchFailed(ServiceError):
    """A measurement could not be made; the message says what was expected."""


@contextmanager
def process(command: Sequence[str], cores: set[int] | None = None, env: dict[str, str] | None = None) -> Iterator[int]:
    """Run `command` on `cores` (default: all) until the block ends, then SIGTERM; yields the pid."""
    pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
    environment = os.environ | {"NEARFIELD_RETRAIN_SHARE": "0"} | (env or {})  # no training that is not measured
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, preexec_fn=pin)  # noqa: S603, PLW1509
    try:
        yield child.pid
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(STOP_TIMEOUT_S)


@contextmanager
def serving(
    data: Path, cores: set[int] | None = None, env: dict[str, str] | None = None
) -> Iterator[tuple[httpx.Client, int]]:
    """`nearfield serve` on `data`; yields a client, whose `base_url` says where, and the pid once it is ready."""
    port = free_port()
    command = [sys.executable, "-m", "service.cli", "serve", "--port", str(port), "--data", str(data)]
    with process(command, cores, env) as pid, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
        await_ready(client, "/health/ready")
        yield client, pid


def await_ready(client: httpx.Client, path: str) -> float:
    """Seconds until `path` answers below 500."""
    began = time.perf_counter()
    while time.perf_counter() - began < READY_TIMEOUT_S:
        try:
            if client.get(path).status_code < 500:
                return time.perf_counter() - began
        except httpx.TransportError:
            pass
        time.sleep(POLL_S)
    raise BenchFailed(f"Invalid state of {client.base_url}: expected ready within {READY_TIMEOUT_S:g} s")


def post(client: httpx.Client, users: Sequence[str], items: Sequence[str], values: NDArray[np.float32]) -> None:
    """Post ratings in full requests and wait until the service has seen the last one."""
    triples = zip(users, items, values.tolist(), strict=True)
    ratings = (importer.Rating(user=user, item=item, rating=rating) for user, item, rating in triples)
    receipt = importer.send(client, ratings)
    while client.get("/popular", params={"n": 1, "wait_for": receipt.stream_id}).status_code == 503:
        time.sleep(POLL_S)


def retrain(client: httpx.Client, algorithm: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Train `algorithm` in the service and wait until its model is live; the finished job."""
    answer = client.post("/admin/retrain", json={"algorithm": algorithm, "params": params or {}, "force": True})
    answer.raise_for_status()
    job: dict[str, Any] = answer.json()
    while job["state"] not in ("succeeded", "failed", "cancelled"):
        time.sleep(0.2)
        job = client.get(f"/admin/jobs/{job['id']}").json()
    if job["state"] != "succeeded" or not job["promoted"]:
        raise BenchFailed(f"Invalid end of job {job['id']}: expected a promoted model, got {job}")
    return job


def free_port() -> int:
    """A TCP port on the loopback address that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
