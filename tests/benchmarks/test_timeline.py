"""Marks around functions that train: what time belongs to whom, on one rank and on several."""

import math
from functools import partial
from typing import Any

import pytest

import gpu
from benchmarks.timeline import EXCHANGE, EXCHANGES, METHODS, OTHER, SOLVE, Marks, OfRank, Spans, rows_of, watched
from gpu.algorithms import trainer_of
from gpu.base.backend import HOST
from gpu.data.calibration import calibrate
from gpu.ranks.exchange import Exchange
from gpu.ranks.threads import run_threads
from gpu.training import loop
from tests.data import planted


class Steps:
    """A clock that moves on when it is told to."""

    def __init__(self) -> None:
        self.at, self.idles = 0.0, 0

    def now(self) -> float:
        return self.at

    def ms(self, began: float, ended: float) -> float:
        return ended - began

    def idle(self) -> None:
        self.idles += 1

    def take(self, ms: float) -> None:
        self.at += ms


def test_time_belongs_to_the_innermost_function() -> None:
    clock = Steps()
    marks = Marks(clock)
    send = marks.around(EXCHANGE, clock.take)

    def work() -> None:
        clock.take(3)
        send(5)
        clock.take(1)

    solve = marks.around(SOLVE, work)

    def epoch() -> None:
        clock.take(10)
        solve()
        marks.around(EXCHANGE, lambda: send(7))()  # one exchange that is made of another
        clock.take(20)
        send(9)

    solve()  # outside of an epoch nothing is marked
    for _ in range(2):
        spans = marks.epoch(epoch)
        assert spans.kinds == {"": 30, SOLVE: 4, EXCHANGE: 21, OTHER: 0}
        assert spans.exchanges == [5, 7, 9]
    assert clock.idles == 2


def test_who_comes_last_waits_for_nobody() -> None:
    def of_rank(solve: float, exchanges: list[float], wall: float) -> OfRank:
        spans = Spans({"": 1, SOLVE: solve, EXCHANGE: sum(exchanges), OTHER: 0.5}, exchanges)
        alone = Spans({**spans.kinds, SOLVE: solve - 1}, exchanges)
        return OfRank(wall, [spans] * 3, [alone] * 3)

    first, second = rows_of([of_rank(10, [2, 6], 20), of_rank(12, [4, 1], 19)], 16)
    assert first["exchange_ms"] == second["exchange_ms"] == 3
    assert (first["wait_ms"], second["wait_ms"]) == (5, 2)
    assert (first["solve_ms"], first["stores_ms"], first["uneven_ms"]) == (9, 1, 1)
    assert first["gaps_ms"] == 20 - 10 - 8 - 0.5
    assert math.isnan(rows_of([of_rank(10, [], 20)], math.nan)[0]["uneven_ms"])


@pytest.mark.parametrize("algorithm", ["als", "als-implicit", "sgd", "esgd"])
def test_marks_change_no_model_and_add_up_to_an_epoch(algorithm: str) -> None:
    ratings, params = planted(), gpu.params_for(algorithm, {"n_factors": 4, "n_epochs": 2})
    calibration = calibrate(ratings, params)

    def trained(exchange: Exchange, has_marks: bool) -> tuple[dict[str, Any], list[Spans]]:
        marked = watched(HOST, exchange) if has_marks else None
        trainer, spans = trainer_of(ratings, params, marked or HOST, None, calibration, exchange), []
        loop.begin(trainer)
        for epoch in range(2):
            if marked is not None:
                spans.append(marked.marks.epoch(partial(trainer.learn, epoch)))
            else:
                trainer.learn(epoch)
        return trainer.model().arrays, spans

    expected = run_threads(2, lambda ring: trained(ring, False))
    for (arrays, spans), (plain, _) in zip(run_threads(2, lambda ring: trained(ring, True)), expected, strict=True):
        assert all((array == plain[name]).all() for name, array in arrays.items())
        for of_epoch in spans:
            assert of_epoch.kinds[SOLVE] > 0
            assert of_epoch.kinds[EXCHANGE] == pytest.approx(sum(of_epoch.exchanges))
            assert of_epoch.exchanges


def test_a_method_that_is_gone_is_noticed() -> None:
    """Names of methods are strings here."""
    for kind, names in {**METHODS, Exchange: EXCHANGES}.items():
        assert [name for name in names if not hasattr(kind, name)] == []
