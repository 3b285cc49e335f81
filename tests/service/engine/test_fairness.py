"""The next query is of a client with little cost so far, and cheap queries come before expensive ones."""

from typing import NamedTuple

import pytest

from service.base.errors import Overloaded
from service.engine import fairness
from service.engine.fairness import LIGHT, MAX_COST, Client, ClientWork, Portion, cost_of
from service.engine.queries import Estimate, Neighbors, Popular, Recommend, UserRatings

HEAVY = 4 * LIGHT
MOST = 1000  # pieces that may wait
ANN, BOB = Client("a", b"key"), Client("b", b"key")


class PendingQuery(NamedTuple):
    client: Client
    cost: int
    since: float = 0.0
    number: int = 0
    n: int = 1


def lines_of(*pending_queries: PendingQuery) -> ClientWork:
    lines = ClientWork(MOST)
    for pending in pending_queries:
        add(lines, pending)
    return lines


def add(lines: ClientWork, pending: PendingQuery) -> None:
    lines.admit(Portion(pending.client, 1))
    lines.add(pending)


def test_a_light_question_of_another_client_overtakes_heavy_ones() -> None:
    lines = lines_of(*[PendingQuery(ANN, HEAVY, number=n) for n in range(20)])
    lines.take(1)
    light = PendingQuery(BOB, 10)
    add(lines, light)
    assert light in lines.take(2)


def test_a_light_question_overtakes_heavy_ones_of_the_same_client() -> None:
    lines = lines_of(*[PendingQuery(ANN, HEAVY, number=n) for n in range(20)])
    lines.take(1)
    light = PendingQuery(ANN, 10)
    add(lines, light)
    assert light in lines.take(2)


def test_two_clients_get_equal_parts_whatever_their_questions_cost() -> None:
    lines = ClientWork(MOST)
    for n in range(400):
        add(lines, PendingQuery(ANN, HEAVY, number=n))
        add(lines, PendingQuery(BOB, 2 * HEAVY, number=n))
    costs = {ANN: 0, BOB: 0}
    for _ in range(60):
        for pending in lines.take(256):
            costs[pending.client] += pending.cost
    assert 0.9 < costs[ANN] / costs[BOB] < 1.1


def test_queries_of_a_client_keep_their_order() -> None:
    lines = lines_of(*[PendingQuery(ANN, 10, number=n) for n in range(100)])
    assert [pending.number for pending in [*lines.take(30), *lines.take(100)]] == list(range(100))


def test_a_batch_costs_no_more_than_its_bound_unless_one_query_does() -> None:
    lines = lines_of(*[PendingQuery(Client(str(n)), MAX_COST // 2) for n in range(5)], PendingQuery(ANN, 10 * MAX_COST))
    sizes = []
    while lines:
        taken = lines.take(256)
        assert len(taken) == 1 or sum(pending.cost for pending in taken) <= MAX_COST
        sizes.append(len(taken))
    assert sizes == [2, 2, 1, 1]


def test_an_idle_client_gains_no_priority() -> None:
    lines = lines_of(PendingQuery(BOB, HEAVY))
    lines.take(1)
    for n in range(50):
        add(lines, PendingQuery(ANN, HEAVY, number=n))
        lines.take(1)
    for n in range(10):
        add(lines, PendingQuery(ANN, HEAVY, number=n))
        add(lines, PendingQuery(BOB, HEAVY, number=n))
    clients = [pending.client for _ in range(10) for pending in lines.take(1)]
    assert 4 <= clients.count(BOB) <= 6


def test_late_queries_are_removed() -> None:
    lines = lines_of(
        PendingQuery(ANN, 10, 1.0), PendingQuery(ANN, 10, 2.0), PendingQuery(BOB, 10, 1.5), PendingQuery(BOB, 10, 3.0)
    )
    assert {pending.since for pending in lines.expire(1.8)} == {1.0, 1.5}
    assert len(lines) == 2
    assert {pending.since for pending in lines.take(9)} == {2.0, 3.0}
    assert not lines.expire(9.0)


def test_few_clients_are_remembered() -> None:
    lines = ClientWork(MOST)
    for n in range(3 * fairness.MAX_REMEMBERED):
        add(lines, PendingQuery(Client(str(n)), 10))
        lines.take(1)
    assert len(lines._lines) <= fairness.MAX_REMEMBERED


def test_costs_follow_the_work() -> None:
    plain = cost_of(Recommend(user="u"))
    assert plain == 10
    assert cost_of(Recommend(user="u", n=10, offset=900)) == 910
    assert cost_of(Recommend(users=["u"] * 100, n=10)) == 100 * plain
    assert cost_of(Recommend(user="u", offset=10**6)) >= MAX_COST
    assert cost_of(Popular(offset=10**6)) >= MAX_COST
    assert cost_of(Recommend(user="u", candidates=["i"] * 10_000)) > LIGHT
    assert cost_of(Recommend(user="u", explain=True)) > plain
    assert cost_of(Neighbors(kind="user", id="u")) > LIGHT
    assert cost_of(Estimate(user="u", item="i")) == 1
    assert cost_of(UserRatings(user="u")) == 100


def test_requests_that_are_asked_for_together_count_one_by_one() -> None:
    lines = ClientWork(MOST)
    together = [PendingQuery(ANN, 10 * n, n=n) for n in (600, 300, 60)]
    for pending in together:
        lines.admit(Portion(ANN, pending.n))
        lines.add(pending)
    assert len(lines) == 960
    with pytest.raises(Overloaded):
        lines.admit(Portion(ANN, 50))
    lines.admit(Portion(BOB, 50))  # another client still may
    lines.add(PendingQuery(BOB, 10, n=50))
    assert [pending.n for pending in lines.take(400)] == [600]  # at least one piece
    assert sum(pending.n for pending in lines.take(400)) <= 400
    lines.done(ANN, 600)
    lines.admit(Portion(ANN, 50))
