"""`Load`: clients that read and write all the time, and know what was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import Counter

import httpx

from tests.service.process import CLIENT_TIMEOUT_S
from tests.service.processes.service import FrontService
from tests.service.waiting import eventually

N_CLIENTS = 4
SOON_S = 60.0  # on a busy machine
PAUSE_S = 0.01  # after a refusal


class Load:
    """Runs inside its context.

    Attributes:
        acknowledged: item of each rating by its stream id; that of a client `n` is of user `u<n>`.
        statuses: of all answers to writes.
        read: statuses of all answers to reads.
        n_lost_connections: requests that ended without an answer.
    """

    def __init__(self, service: FrontService) -> None:
        self._url = str(service.client.base_url)
        self.acknowledged: dict[str, str] = {}
        self.statuses: Counter[int] = Counter()
        self.read: Counter[int] = Counter()
        self.n_lost_connections = 0
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(N_CLIENTS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int) -> None:
        count = 0
        with httpx.Client(base_url=self._url, timeout=CLIENT_TIMEOUT_S) as client:
            while not self._is_over.is_set():
                count += 1
                try:
                    self._ask_once(client, f"u{number}", f"i{number}-{count}")
                except httpx.TransportError:
                    self.n_lost_connections += 1

    def _ask_once(self, client: httpx.Client, user: str, item: str) -> None:
        answer = client.post("/ratings", json={"user": user, "item": item, "rating": 3})
        self.statuses[answer.status_code] += 1
        if answer.status_code == 202:
            self.acknowledged[answer.json()["stream_id"]] = item
        else:
            assert int(answer.headers["retry-after"]) >= 1
            time.sleep(PAUSE_S)
        self.read[client.get(f"/recommend/{user}").status_code] += 1

    def more(self, status: int, n: int = 2 * N_CLIENTS) -> None:
        """Return after `n` further answers to writes with this status."""
        enough = self.statuses[status] + n
        eventually(lambda: self.statuses[status] >= enough, SOON_S)

    def check(self) -> None:
        """No client got anything but what it asked for or a 503, and none gave up."""
        assert set(self.statuses) <= {202, 503}, self.statuses
        assert set(self.read) <= {200, 503}, self.read
        assert not any(thread.is_alive() for thread in self._threads)
