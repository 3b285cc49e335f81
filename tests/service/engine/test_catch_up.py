import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.engine.background import Background
from service.engine.catch_up import REST_S, SHARE, CatchUp
from service.telemetry.metrics import Metrics

SLICE_S, STEP_S = 0.003, 0.001  # seconds that a slice of refits takes, and of a step of an idle engine


class Rig:
    """A `CatchUp` of one model, whose slices take time on a clock that only they and idle steps move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.worked_s, self.left_s = 100.0, 0.0, 1e9
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        model = SimpleNamespace(name="als", catch_up=self._refit, online=SimpleNamespace(n_waiting=1))
        ranking = SimpleNamespace(models=lambda: [model])
        self.background = Background(0.1)
        self.catch_up = CatchUp(self.background, cast("Any", ranking), Metrics(), lambda error: pytest.fail(str(error)))

    def _refit(self, budget_s: float) -> bool:
        del budget_s
        self.now_s += SLICE_S
        self.worked_s += SLICE_S
        self.left_s -= SLICE_S
        return self.left_s <= 0

    def run(self, seconds: float, each_step: Callable[[], object] = lambda: None) -> float:
        """Steps of an engine that has nothing else to do; the time that refits took."""
        end_s, before_s = self.now_s + seconds, self.worked_s
        while self.now_s < end_s:
            each_step()
            self.catch_up.resume()
            if self.background:
                self.background.step()
            self.now_s += STEP_S
        return self.worked_s - before_s


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_refits_take_a_share_of_a_core_while_changes_keep_coming(rig: Rig) -> None:
    worked_s = rig.run(60.0, rig.catch_up.start)
    assert worked_s == pytest.approx(SHARE * 60.0, rel=0.1)


def test_refits_without_further_changes_do_not_rest(rig: Rig) -> None:
    rig.catch_up.start()
    assert rig.run(20.0) == pytest.approx(20.0 * SLICE_S / (SLICE_S + STEP_S), rel=0.01)


def test_refits_go_on_after_a_rest_until_the_model_has_caught_up(rig: Rig) -> None:
    rig.left_s = 2.0
    rig.run(1.0, rig.catch_up.start)
    assert rig.catch_up.is_resting
    assert rig.catch_up.is_behind
    rig.run(REST_S + 2.0)
    assert not rig.catch_up.is_behind
    assert rig.run(REST_S) == 0.0


def test_a_few_refits_never_rest(rig: Rig) -> None:
    for _ in range(100):
        rig.left_s = 0.1
        rig.catch_up.start()
        rig.run(1.0)
        assert not rig.catch_up.is_behind
        assert not rig.catch_up.is_resting
