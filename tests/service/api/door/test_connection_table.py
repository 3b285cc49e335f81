"""Shares of addresses; closed connections leave no entry."""

import time
from typing import Any

from service.api.door.connection_table import SHARE, ConnectionLimits, ConnectionTable


class Connection:
    n_unsent = 0
    must_close = True  # until it is added

    def __init__(self, table: ConnectionTable) -> None:
        self.table, self.was_asked_to_leave = table, False

    def check(self, now: float) -> None:
        """Nothing is due."""

    def make_room(self) -> None:
        self.was_asked_to_leave = True
        self.table.may_linger(self)


def table(max_connections: int, **limits: Any) -> ConnectionTable:
    return ConnectionTable(ConnectionLimits(max_connections, **limits), lambda a: None if a == "proxy" else a)


def admitted(table: ConnectionTable, address: str, n: int) -> list[Connection]:
    connections = [Connection(table) for _ in range(n)]
    return [connection for connection in connections if table.add(connection, address)]


def test_one_address_has_its_share_and_leaves_the_rest_to_others() -> None:
    full = table(40)
    assert len(admitted(full, "a", 41)) == 40 // SHARE
    assert len(admitted(full, "b", 41)) == 40 // SHARE


def test_a_proxy_may_have_all() -> None:
    assert len(admitted(table(40), "proxy", 41)) == 40


def test_there_is_room_for_one_at_least() -> None:
    assert len(admitted(table(1), "a", 2)) == 1


def test_closed_connections_count_no_longer() -> None:
    full = table(8, health_connections=2)
    for _ in range(3):
        connections = [Connection(full) for _ in range(4)]
        assert [full.add(one, "a") for one in connections] == [True, True, False, False]
        assert full.n_open == 4
        for connection in connections:
            full.discard(connection)
    assert full.n_open == 0
    assert not full._n_of_group


def test_every_connection_closes_after_an_answer_from_the_stop_on() -> None:
    some = table(8)
    early, late = Connection(some), Connection(some)
    some.add(early, "a")
    assert not early.must_close
    some.drain()
    some.add(late, "a")
    assert early.must_close
    assert late.must_close


def test_who_comes_or_leaves_during_a_stop_makes_it_last() -> None:
    idle = table(8)
    idle.drain()
    assert idle.busy_s == float("-inf"), "nobody is there to wait for"
    some = table(8)
    (one,) = admitted(some, "a", 1)
    for act in (some.drain, lambda: some.discard(one), lambda: some.add(Connection(some), "a")):
        before_s = time.monotonic()
        act()
        assert before_s <= some.busy_s <= time.monotonic()


def test_the_number_of_lingering_connections_is_limited() -> None:
    full = table(8, max_lingering=1)
    first, second = Connection(full), Connection(full)
    assert [full.may_linger(first), full.may_linger(second)] == [True, False]
    full.discard(first)
    assert full.may_linger(second)


def test_the_oldest_for_health_makes_room() -> None:
    full = table(1, health_connections=2)
    connections = [Connection(full) for _ in range(5)]
    for connection in connections:
        full.add(connection, "a")
    assert [one.was_asked_to_leave for one in connections] == [False, True, True, False, False]
