"""A service of our own to measure where no address is given: started by its command line, thrown away afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service import catalogue

NEARFIELD = (sys.executable, "-m", "service.cli")
MODEL = "als-implicit"
STOP_S = 30


def synthetic_ratings() -> Path:
    """The path of a fresh file with the ratings of the synthetic catalogue."""
    path = Path(tempfile.mkdtemp(prefix="nearfield-loadtest-")) / "synthetic.csv"
    catalogue.write(path, catalogue.planted())
    return path


@contextmanager
def running_service(ratings: Path) -> Iterator[str]:
    """Serve `ratings` with a trained model on a free port while the block runs; gives the address."""
    with tempfile.TemporaryDirectory(prefix="nearfield-loadtest-") as data:
        command = [*NEARFIELD, "serve", "--port", "0", "--data", data]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                url = _address(process)
                subprocess.run([*NEARFIELD, "import", str(ratings), "--url", url], check=True)
                _train(url)
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


def _train(url: str) -> None:
    job = _ask(f"{url}/admin/retrain", {"algorithm": MODEL})
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
