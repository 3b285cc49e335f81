"""Twenty clients write and read over fronts and replicas whose processes are killed: what they see is in order."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from service.storage.events import StreamId
from service.storage.streams.redis_server import RedisServer
from tests.faults import results
from tests.faults.history import Clients, History, Read, Write
from tests.faults.history_checker import broken
from tests.service.process import Service
from tests.service.processes.service import FRONTS, FrontService
from tests.service.waiting import eventually

N_CLIENTS = 20
N_KILLS = results.TRIALS or 5
AT_LEAST = 40  # answers between two kills
VICTIMS = (*FRONTS, "engine", "archiver")


def test_each_client_reads_what_was_written_in_order_while_processes_are_killed(tmp_path: Path) -> None:
    chance, row = Random(results.TRIALS), results.row("SIGKILL of a process of one of two services, by their history")
    server = RedisServer(tmp_path / "elsewhere")
    server.start()
    services: list[Service] = [
        FrontService(tmp_path / "data", redis=server.url, worker=is_first) for is_first in (True, False)
    ]
    try:
        clients = Clients([str(service.client.base_url) for service in services], N_CLIENTS, results.TRIALS)
        try:
            for _ in range(N_KILLS):
                more(clients.history)
                victim = chance.choice(services)
                victim.signal(chance.choice(VICTIMS), signal.SIGKILL)
                more(clients.history)
                eventually(victim.is_ready, 60)
            more(clients.history)
        finally:
            history = clients.stop()
        assert broken(history) == []
        row.n_trials += N_KILLS
        row.n_acknowledged += sum(write.position is not None for write in history.writes)
        results.MEASURED.append(f"* {len(history.reads):,} reads of {N_CLIENTS} clients were judged by their history.")
    finally:
        for service in services:
            service.kill()
        server.stop()


def more(history: History) -> None:
    """Return when the clients have got more answers of both kinds."""
    enough = len(history.reads) + AT_LEAST, len(history.writes) + AT_LEAST
    eventually(lambda: len(history.reads) >= enough[0] and len(history.writes) >= enough[1], 60)


# --- what the checker finds

FIRST, SECOND, THIRD = StreamId(1, 0), StreamId(2, 0), StreamId(3, 0)
WRITES = [
    Write("ann", "a", 1.0, 0.0, 1.0, FIRST),
    Write("ann", "a", 2.0, 2.0, 3.0, SECOND),
    Write("ann", "b", 3.0, 2.5, 3.5, None),
    Write("ann", "a", None, 6.0, 7.0, THIRD),
]
READS = [
    Read("0 of 0", "ann", 1.0, 2.0, FIRST, FIRST, {"a": 1.0}),
    Read("0 of 0", "ann", 3.0, 4.0, FIRST, SECOND, {"a": 2.0, "b": 3.0}),
    Read("0 of 0", "ann", 8.0, 9.0, THIRD, THIRD, {}),
]
BACK = [
    Read("2 of 0", "ann", 3.0, 4.0, FIRST, FIRST, {"a": 2.0}),
    Read("2 of 0", "ann", 5.0, 6.0, FIRST, FIRST, {"a": 1.0}),
]


def test_what_a_service_may_answer_is_no_broken_promise() -> None:
    """A write without an answer may be there or not."""
    assert broken(History(WRITES, READS)) == []


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        (lambda writes, reads: writes.append(writes[0]._replace(item="b")), "two entries have one position"),
        (lambda writes, reads: writes.append(Write("bob", "a", 9.0, 8.0, 9.0, StreamId(2, 5))), "was written below"),
        (lambda writes, reads: reads.append(reads[1]._replace(began_s=9.0)), "which this client has seen"),
        (lambda writes, reads: reads.append(reads[0]._replace(client="1 of 1", wait_for=SECOND)), "is before 2-0"),
        (lambda writes, reads: reads.append(reads[1]._replace(client="1 of 1", ratings={"a": 1.0})), "has 1.0 of a"),
        (lambda writes, reads: reads.append(reads[0]._replace(client="1 of 1", ratings={"a": 2.0})), "has 2.0 of a"),
        (lambda writes, reads: reads.extend(BACK), "has an older rating of a than"),
        (lambda writes, reads: reads.append(reads[0]._replace(client="1 of 1", ratings={})), "has None of a"),
        (lambda writes, reads: reads.append(reads[2]._replace(ratings={"a": 2.0})), "has 2.0 of a"),
        (lambda writes, reads: reads.append(reads[0]._replace(client="1 of 1", ratings={"a": 1.0, "b": 3.0})), "of b"),
    ],
    ids=["one position twice", "ids go back", "as_of goes back", "not waited", "older", "newer", "back", "lost",
         "deleted", "of the future"],
)  # fmt: skip
def test_the_checker_finds(change: Callable[[list[Write], list[Read]], None], promise: str) -> None:
    writes, reads = list(WRITES), list(READS)
    change(writes, reads)
    assert any(promise in line for line in broken(History(writes, reads)))
