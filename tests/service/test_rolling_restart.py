"""A rolling restart of two replicas, as Kubernetes does it: no request fails, and nothing acknowledged is lost."""

import asyncio
import http.client
import itertools
import json
import select
import threading
import time
from pathlib import Path

import httpx
import pytest

from service.api.app import Application
from service.processes import http_server
from service.processes.acceptor import OpenConnections
from tests.service.local import serving
from tests.service.process import Service
from tests.service.waiting import eventually, soon

PROBE_EVERY_S = 0.1  # of readiness
PAUSE_S = 0.05  # of each client after an answer
N_READERS, N_WRITERS = 2, 1
N_USERS = 7
PRE_STOP_S = 0.3


class Balancer:
    """The replicas that get new connections: those that were ready when last asked and are not told to end."""

    def __init__(self) -> None:
        self._replicas: dict[str, bool] = {}
        self._ending: set[str] = set()
        self._lock = threading.Lock()
        self._turns = itertools.count()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._probe)
        self._thread.start()

    def add(self, url: str) -> None:
        self._replicas[url] = False
        eventually(lambda: self._replicas[url], 60)

    def end(self, url: str) -> None:
        """Give it no new connections; on return none is on its way."""
        with self._lock:
            self._ending.add(url)

    def remove(self, url: str) -> None:
        del self._replicas[url]

    def connected(self) -> http.client.HTTPConnection:
        """A new connection to one of the replicas, one after the other."""
        with self._lock:
            ready = [url for url, is_ready in self._replicas.items() if is_ready and url not in self._ending]
            url = ready[next(self._turns) % len(ready)]
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
            connection.connect()
        return connection

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _probe(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._stopped.wait(PROBE_EVERY_S):
                for url in list(self._replicas):
                    try:
                        is_ready = client.get(f"{url}/health/ready").status_code == 200
                    except httpx.TransportError:
                        is_ready = False
                    if url in self._replicas:
                        self._replicas[url] = is_ready


class Caller(threading.Thread):
    """A client that keeps its connection, and with it its replica, until the replica closes it or says that it will."""

    def __init__(self, balancer: Balancer, name: str, *, writes: bool) -> None:
        super().__init__(name=name)
        self._balancer, self._writes = balancer, writes
        self._stopped = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self.n_answered = self.n_moves = 0
        self.failures: list[str] = []
        self.acknowledged: list[tuple[str, str, str]] = []  # user, item, stream id

    def run(self) -> None:
        while not self._stopped.wait(PAUSE_S):
            try:
                self._ask()
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{self.name}: {error!r} after {self.n_answered} answers")
                self._connection = None
        if self._connection is not None:
            self._connection.close()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _ask(self) -> None:
        user, item = f"u{self.n_answered % N_USERS}", f"i{self.n_answered}"
        connection = self._connected()
        if self._writes:
            body = json.dumps({"user": user, "item": item, "rating": 3.0})
            connection.request("POST", "/ratings", body, {"Content-Type": "application/json"})
        else:
            connection.request("GET", f"/recommend/{user}")
        answer = connection.getresponse()
        content = answer.read()
        if answer.status not in (200, 202):
            self.failures.append(f"{self.name}: {answer.status} {content!r}")
        elif self._writes:
            self.acknowledged.append((user, item, json.loads(content)["stream_id"]))
        self.n_answered += 1

    def _connected(self) -> http.client.HTTPConnection:
        """The kept connection, if it is open, else a new one."""
        kept = self._connection
        if kept is not None and kept.sock is not None and not select.select([kept.sock], [], [], 0)[0]:
            return kept
        if kept is not None:
            self.n_moves += 1
            kept.close()
        self._connection = self._balancer.connected()
        return self._connection


def go_on(callers: list[Caller]) -> None:
    """Return when each has some more answers."""
    wanted = {caller: caller.n_answered + 10 for caller in callers}
    eventually(lambda: all(caller.n_answered >= n for caller, n in wanted.items()))


@pytest.fixture
def replicas(redis_url: str, tmp_path: Path):
    """One with a single front, and one with two."""
    settings = {"redis": redis_url, "backend": "host", "log_level": "warning", "worker": False}
    replicas = [Service(tmp_path / "data", fronts=fronts, **settings) for fronts in (1, 2)]
    yield replicas
    for replica in replicas:
        replica.kill()


def test_a_rolling_restart_fails_no_request_and_loses_no_rating(replicas: list[Service]) -> None:
    """A replica gets no new connections, and a moment later the signal; those that are kept still belong to it."""
    replicas[0].rate(*((f"u{user}", "first", 4.0) for user in range(N_USERS)))
    balancer = Balancer()
    callers = [Caller(balancer, f"reader {n}", writes=False) for n in range(N_READERS)]
    callers += [Caller(balancer, f"writer {n}", writes=True) for n in range(N_WRITERS)]
    try:
        for replica in replicas:
            balancer.add(str(replica.client.base_url))
        for caller in callers:
            caller.start()
        for replica in replicas:
            go_on(callers)
            url = str(replica.client.base_url)
            balancer.end(url)
            time.sleep(PRE_STOP_S)  # Kubernetes' pause before it sends the signal
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
    assert all(caller.n_moves >= 1 for caller in callers), "each was on a replica that stopped"
    acknowledged = [one for caller in callers for one in caller.acknowledged]
    assert len(acknowledged) >= 60
    last = max((stream_id for _, _, stream_id in acknowledged), key=lambda text: tuple(map(int, text.split("-"))))
    for replica in replicas:
        for user in (f"u{n}" for n in range(N_USERS)):
            found = replica.get(f"/users/{user}/ratings", wait_for=last, n=1000).json()["ratings"]
            mine = [item for name, item, _ in acknowledged if name == user]
            assert {one["item"] for one in found} == {"first", *mine}


def test_a_stopping_server_is_not_ready_and_answers_until_its_clients_leave(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "DRAIN_S", 100.0)
    monkeypatch.setattr(http_server, "QUIET_S", 100.0)

    async def scene(app: Application) -> None:
        server = http_server.Server(app, 0, OpenConnections(1), None)
        with http_server.listening(app.state.serving.settings) as listener:
            url = http_server.url_of(listener, None)
            running = asyncio.create_task(server.serve([listener]))
            kept, late = (httpx.AsyncClient(base_url=url, timeout=60) for _ in range(2))
            async with kept, late:
                assert "connection" not in (await kept.get("/recommend/ann")).headers
                server.should_exit = True
                await soon(lambda: app.state.is_stopping)
                rating = {"user": "ann", "item": "kettle", "rating": 5}
                for client in (kept, late):
                    answer = await client.get("/recommend/ann")
                    assert (answer.status_code, answer.headers["connection"]) == (200, "close")
                    answer = await client.post("/ratings", json=rating)
                    assert (answer.status_code, answer.headers["connection"]) == (202, "close")
                    answer = await client.get("/health/ready")
                    assert answer.status_code == 503
                    assert answer.json()["detail"] == "the service is stopping"
                    assert (await client.get("/health/live")).status_code == 200
                assert not running.done()
                monkeypatch.setattr(http_server, "QUIET_S", 0.0)
                await asyncio.wait_for(running, 30)
                with pytest.raises(httpx.ConnectError):
                    await late.get("/health/live")

    with serving(tmp_path / "data", redis=redis_url, backend="host", port=0) as local:
        local._run(scene(local.app))
