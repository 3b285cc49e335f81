"""`CatchUp`: lets live models refit trained items, and the users who rated them, when the engine is idle."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from service.engine.background import SLICE_S, Background, Slices
from service.engine.lists.ranking import Ranking
from service.errors import NotReady
from service.telemetry.metrics import Metrics


class CatchUp:
    """Keeps one generator in the engine's background while a live model is behind. Engine thread only."""

    def __init__(
        self, background: Background, ranking: Ranking, metrics: Metrics, fail: Callable[[BaseException], None]
    ) -> None:
        """`fail` gets the error of a model that could not catch up: its answers may be wrong from then on."""
        self._background, self._ranking, self._metrics, self._fail = background, ranking, metrics, fail
        self._is_under_way = False

    def start(self) -> None:
        """Begin unless it is under way. Call it after every change that a model learns."""
        if not self._is_under_way:
            self._is_under_way = True
            self._background.add(self._slices()).add_done_callback(self._end)

    def _slices(self) -> Slices:
        yield  # events come first
        while not self.step():
            yield

    def step(self) -> bool:
        """Run one slice; return whether all live models have caught up."""
        has_caught_up = [model.catch_up(SLICE_S) for model in self._ranking.models()]
        for model in self._ranking.models():
            self._metrics.refits_waiting.labels(model.name).set(model.online.n_waiting)
        return all(has_caught_up)

    def _end(self, done: Future[Any]) -> None:
        self._is_under_way = False
        error = done.exception()
        if error is not None and not isinstance(error, NotReady):
            self._fail(error)
