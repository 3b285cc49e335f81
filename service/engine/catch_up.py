"""`CatchUp`: lets live models refit trained items, and the users who rated them, when the engine is idle."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from service.base.errors import NotReady
from service.engine.background import SLICE_S, Background, Slices
from service.engine.lists.ranking import Ranking
from service.telemetry.metrics import Metrics

SHARE = 0.1  # of a core, which refits take while changes keep coming
REST_S = 2.0  # seconds of a rest, which a fifth of a second of refits earns


class CatchUp:
    """Keeps one generator in the engine's background while a live model is behind. Engine thread only.

    A new rating of an item that a user has rated before can make all raters of the item due. A stream of such ratings
    would keep a core busy with refits of the same rows, so refits rest from time to time, and what came meanwhile is
    done in one go. Without changes they do not rest.

    Attributes:
        is_behind: whether refits may be waiting.
    """

    def __init__(
        self, background: Background, ranking: Ranking, metrics: Metrics, fail: Callable[[BaseException], None]
    ) -> None:
        """`fail` gets the error of a model that could not catch up: its answers may be wrong from then on."""
        self._background, self._ranking, self._metrics, self._fail = background, ranking, metrics, fail
        self.is_behind = self._is_under_way = self._has_changed = False
        self._earned_s = self._rests_until_s = 0.0  # monotonic; ends of the rest that is earned, and of the rest

    @property
    def is_resting(self) -> bool:
        """Whether it rests now."""
        return time.monotonic() < self._rests_until_s

    def start(self) -> None:
        """Begin unless it is under way. Call it after every change that a model learns."""
        self.is_behind = self._has_changed = True
        self.resume()

    def resume(self) -> None:
        """Go on if a rest is over. Call it often."""
        if self.is_behind and not self._is_under_way and not self.is_resting:
            self._is_under_way, self._has_changed = True, False
            self._background.add(self._slices()).add_done_callback(self._end)

    def _slices(self) -> Slices:
        yield  # events come first
        while self.is_behind and not self.is_resting:
            self.step()
            yield

    def step(self) -> bool:
        """Run one slice; return whether all live models have caught up."""
        began_s = time.monotonic()
        has_caught_up = [model.catch_up(SLICE_S) for model in self._ranking.models()]
        for model in self._ranking.models():
            self._metrics.refits_waiting.labels(model.name).set(model.online.n_waiting)
        self.is_behind = not all(has_caught_up)
        # Work earns rest. Rest if it has earned a whole one, and changes came since it began.
        now_s = time.monotonic()
        most_s = now_s + REST_S
        self._earned_s = min(max(self._earned_s, began_s) + (now_s - began_s) / SHARE, most_s)
        if self._has_changed and self._earned_s == most_s:
            self._rests_until_s = most_s
        return not self.is_behind

    def _end(self, done: Future[Any]) -> None:
        self._is_under_way = False
        error = done.exception()
        if error is not None and not isinstance(error, NotReady):
            self._fail(error)
