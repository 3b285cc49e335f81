"""Starts a private service to measure if no address is given, by its command line, and removes it afterward."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NEARFIELD = (sys.executable, "-m", "service.cli")
STOP_S = 30


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
    with tempfile.TemporaryDirectory(prefix="nearfield-loadtest-") as folder:
        command = [*NEARFIELD, "serve", "--port", "0", "--data", str(data or folder)]
        os.sched_setaffinity(0, own)  # inherited by the child, whose kernels then use these cores
        environment = os.environ | {"NEARFIELD_RETRAIN_SHARE": "0"}  # only the measured trainings run
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            try:
                url = _address(process)
                if data is None:
                    subprocess.run([*NEARFIELD, "import", str(ratings), "--url", url], check=True)
                    _train(url, model)
                os.sched_setaffinity(0, drivers)
                yield url
            finally:
                process.terminate()
                process.wait(STOP_S)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        for word in line.split():
            if word.startswith("http://"):
                return word
    raise SystemExit("loadtest: the service ended before it was ready")


def _train(url: str, model: str) -> None:
    job = _ask(f"{url}/admin/retrain", {"algorithm": model})
    while job["state"] not in ("succeeded", "failed", "cancelled"):
        time.sleep(0.5)
        job = _ask(f"{url}/admin/jobs/{job['id']}")
    if job["state"] != "succeeded":
        raise SystemExit(f"loadtest: the training {job['state']}: {job['error']}")


def _ask(url: str, document: object = None) -> dict[str, Any]:
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    return answer
