"""`ModelQuality`: the results of the tests of one model before it learns each rating, and those of a baseline.

Memory is bounded: sums, a window of the last results, and a curve with one point for every hundred of them.
"""

from __future__ import annotations

import collections
import math

import numpy as np
from numpy.typing import NDArray

from service.engine.models.live_model import LiveModel
from service.engine.queries.quality_queries import (
    BASELINES,
    REASONS,
    Measure,
    QualityPoint,
    QualityReport,
    QualityResult,
    Span,
)

WINDOW = 1000  # results; the gauges are means of the last ones
HALF_LIFE = 1000  # results; in the decayed means a result counts half after that many later ones
PER_POINT = 100  # results of one point of the curve
N_POINTS = 1000  # points of a curve; the oldest ones go
_DECAY = 0.5 ** (1 / HALF_LIFE)


class ModelQuality:
    """Takes the results of one model. Belongs to the engine thread."""

    def __init__(self, live_model: LiveModel, since: str) -> None:
        """Begin after the entry `since`."""
        self.measure: Measure = "hit_rate" if live_model.model.is_implicit else "rmse"
        self.n = 0
        self.untested = dict.fromkeys(REASONS, 0)
        self._since = since
        # Of the model and of its baseline.
        self._sums, self._decayed, self._point = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
        self._weight, self._n_of_point = 0.0, 0
        self._window = np.zeros((WINDOW, 2))
        self._curve: collections.deque[QualityPoint] = collections.deque(maxlen=N_POINTS)

    def add(self, results: NDArray[np.float64], version: str, as_of: str) -> None:
        """Add results, float64 (n, 2): of the model and the baseline; squared errors, or 1 for a hit and 0 for none."""
        self._window[np.arange(self.n, self.n + len(results)) % WINDOW] = results
        for result in results.tolist():
            self.n += 1
            for n, one in enumerate(result):
                self._sums[n] += one
                self._decayed[n] = self._decayed[n] * _DECAY + one
                self._point[n] += one
            self._weight = self._weight * _DECAY + 1
            self._n_of_point += 1
            if self._n_of_point == PER_POINT:
                value, baseline = (self._shown(part / PER_POINT) for part in self._point)
                self._curve.append(QualityPoint(as_of, version, PER_POINT, value, baseline))
                self._point, self._n_of_point = [0.0, 0.0], 0

    def result(self, span: Span) -> QualityResult:
        """The means over `span`."""
        if not self.n:
            return QualityResult(0, None, None)
        n = min(self.n, WINDOW)
        sums, weight = {
            "window": (self._window[:n].sum(axis=0).tolist(), n),
            "decayed": (self._decayed, self._weight),
            "all": (self._sums, self.n),
        }[span]
        value, baseline = (self._shown(total / weight) for total in sums)
        return QualityResult(n if span == "window" else self.n, value, baseline)

    def report(self, live_model: LiveModel, as_of: str) -> QualityReport:
        """All of it, for the model that it belongs to."""
        return QualityReport(
            live_model.name,
            live_model.shown_version,
            live_model.manifest.algorithm,
            self.measure,
            BASELINES[self.measure],
            self._since,
            self.result("window"),
            self.result("decayed"),
            self.result("all"),
            dict(self.untested),
            list(self._curve),
            as_of,
        )

    def _shown(self, mean: float) -> float:
        return math.sqrt(max(mean, 0.0)) if self.measure == "rmse" else mean
