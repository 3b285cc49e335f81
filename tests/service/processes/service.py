"""A service with an engine's process and several fronts, and a client for each front."""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil

from tests.service.process import CLIENT_TIMEOUT_S, GONE_S, Service
from tests.service.waiting import eventually

N_FRONTS = 2
FRONTS = tuple(f"front-{number}" for number in range(1, N_FRONTS + 1))


class FrontService(Service):
    """`nearfield serve` with `NEARFIELD_FRONTS`."""

    def __init__(self, data: Path, **settings: object) -> None:
        super().__init__(data, fronts=N_FRONTS, backend="host", retrain_share=0, **settings)

    @contextlib.contextmanager
    def through(self, front: str) -> Iterator[httpx.Client]:
        """A client whose connection belongs to `front`; the others are paused while it connects."""
        others = [psutil.Process(self.pid(name)) for name in FRONTS if name != front]
        with httpx.Client(base_url=self.client.base_url, timeout=CLIENT_TIMEOUT_S) as client:
            for other in others:
                other.suspend()
                eventually(functools.partial(_is_paused, other), 60)
            try:
                assert client.get("/health/live").status_code == 200
            finally:
                for other in others:
                    other.resume()
            yield client

    def log(self) -> str:
        return self.errors.read_text()


def _is_paused(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_STOPPED


def answers(client: httpx.Client, path: str, status: int = 200) -> bool:
    """Whether a request gets this status now."""
    return client.get(path).status_code == status


def gone(family: list[psutil.Process]) -> None:
    """Return when all of `family` have ended; fails, and ends them, if they do not."""
    _, left = psutil.wait_procs(family, GONE_S)
    names = [process.name() for process in left if process.is_running()]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    assert not names


def refused(answer: httpx.Response) -> httpx.Response:
    """The answer, which must be a 503 that says when to try again."""
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    return answer
