"""A rolling restart of two replicas, as Kubernetes does it: no request fails, and nothing acknowledged is lost."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.service.process import Service
from tests.service.waiting import eventually

PROBE_EVERY_S = 0.1  # of readiness
PAUSE_S = 0.05  # of each client after an answer: far below the quiet time after which a replica ends
N_READERS, N_WRITERS = 2, 1
N_USERS = 7
PRE_STOP_S = 0.3


class Balancer:
    """The replicas that get new connections: those that were ready when last asked and are not told to end."""

    def __init__(self) -> None:
        self._replicas: dict[str, bool] = {}
        self._ending: set[str] = set()
        self._turns = itertools.count()
        self._stopped = threading.Event()
        self.n_unready = 0
        self._thread = threading.Thread(target=self._probe)
        self._thread.start()

    def add(self, url: str) -> None:
        self._replicas[url] = False
        eventually(lambda: self._replicas[url], 30)

    def end(self, url: str) -> None:
        """Give it no new connections."""
        self._ending.add(url)

    def remove(self, url: str) -> None:
        del self._replicas[url]

    def pick(self) -> str:
        ready = [url for url, is_ready in self._replicas.items() if is_ready and url not in self._ending]
        return ready[next(self._turns) % len(ready)]

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _probe(self) -> None:
        with httpx.Client() as http:
            while not self._stopped.wait(PROBE_EVERY_S):
                for url in list(self._replicas):
                    try:
                        is_ready = http.get(f"{url}/health/ready").status_code == 200
                    except httpx.TransportError:
                        is_ready = False
                    if url in self._replicas:
                        self.n_unready += self._replicas[url] and not is_ready
                        self._replicas[url] = is_ready


class Caller(threading.Thread):
    """A client that keeps its connection, and with it its replica, until the replica says that it closes."""

    def __init__(self, balancer: Balancer, name: str, *, writes: bool) -> None:
        super().__init__(name=name)
        self._balancer, self._writes = balancer, writes
        self._stopped = threading.Event()
        self.n_answered = self.n_closed = 0
        self.failures: list[str] = []
        self.acknowledged: list[tuple[str, str, str]] = []  # user, item, stream id

    def run(self) -> None:
        with httpx.Client(timeout=10) as http:
            url = self._balancer.pick()
            while not self._stopped.wait(PAUSE_S):
                try:
                    answer = self._write(http, url) if self._writes else http.get(f"{url}/recommend/u{self._turn}")
                except httpx.TransportError as error:
                    self.failures.append(f"{self.name}: {error!r} after {self.n_answered} answers")
                    url = self._balancer.pick()
                    continue
                if answer.status_code not in (200, 202):
                    self.failures.append(f"{self.name}: {answer.status_code} {answer.text}")
                self.n_answered += 1
                if answer.headers.get("connection") == "close":
                    self.n_closed += 1
                    url = self._balancer.pick()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    @property
    def _turn(self) -> int:
        return self.n_answered % N_USERS

    def _write(self, http: httpx.Client, url: str) -> httpx.Response:
        user, item = f"u{self._turn}", f"i{self.n_answered}"
        answer = http.post(f"{url}/ratings", json={"user": user, "item": item, "rating": 3.0})
        if answer.status_code == 202:
            self.acknowledged.append((user, item, answer.json()["stream_id"]))
        return answer


def go_on(callers: list[Caller]) -> None:
    """Return when each has some more answers."""
    wanted = {caller: caller.n_answered + 10 for caller in callers}
    eventually(lambda: all(caller.n_answered >= n for caller, n in wanted.items()))


@pytest.fixture
def replicas(redis_url: str, tmp_path: Path):
    """One that is a single process, and one with two fronts."""
    settings = {"redis": redis_url, "backend": "host", "log_level": "warning", "worker": False}
    replicas = [Service(tmp_path / "data", fronts=fronts, **settings) for fronts in (0, 2)]
    yield replicas
    for replica in replicas:
        replica.kill()


def test_a_rolling_restart_fails_no_request_and_loses_no_rating(replicas: list[Service]) -> None:
    """One replica is signaled while it still gets connections, the other one after a pause without new ones."""
    replicas[0].rate(*((f"u{user}", "first", 4.0) for user in range(N_USERS)))
    balancer = Balancer()
    callers = [Caller(balancer, f"reader {n}", writes=False) for n in range(N_READERS)]
    callers += [Caller(balancer, f"writer {n}", writes=True) for n in range(N_WRITERS)]
    try:
        for replica in replicas:
            balancer.add(str(replica.client.base_url))
        for caller in callers:
            caller.start()
        for replica, pre_stop_s in zip(replicas, (0.0, PRE_STOP_S), strict=True):
            go_on(callers)
            url = str(replica.client.base_url)
            if pre_stop_s:
                balancer.end(url)
                time.sleep(pre_stop_s)  # what Kubernetes waits before it sends the signal
            assert replica.stop() == 0
            balancer.remove(url)
            replica.start()
            balancer.add(str(replica.client.base_url))
    finally:
        for caller in callers:
            if caller.ident:
                caller.stop()
        balancer.stop()
    assert [failure for caller in callers for failure in caller.failures] == []
    assert balancer.n_unready >= 1, "the first one was seen to stop before it was gone"
    assert all(caller.n_closed >= 1 for caller in callers), "each was on a replica that stopped"
    acknowledged = [one for caller in callers for one in caller.acknowledged]
    assert len(acknowledged) >= 60
    last = max((stream_id for _, _, stream_id in acknowledged), key=lambda text: tuple(map(int, text.split("-"))))
    for replica in replicas:
        for user in (f"u{n}" for n in range(N_USERS)):
            found = replica.get(f"/users/{user}/ratings", wait_for=last, n=1000).json()["ratings"]
            mine = [item for name, item, _ in acknowledged if name == user]
            assert {one["item"] for one in found} == {"first", *mine}
