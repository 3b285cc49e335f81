"""Ratings far beyond all others: a training takes them for the nearest one that is not.

One rating of a million among stars would make the unit of a training (`gpu.calibration`) a thousand times as
long, the scale of its estimates useless, and its item the first of all lists. Quartiles do not move before a quarter
of all ratings is wrong. So what lies more than `FENCE` times their distance beyond them is taken for a mistake or an
attack. On every set of docs/performance.md that is no rating, and nothing changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.ratings import Ratings

FENCE = 10.0  # distances of the quartiles: an honest scale ends far before, also where most ratings lie close together
# Quantiles whose distance is taken, the first pair that has one: of thumbs, nearly all may be up.
PAIRS = (0.25, 0.75), (0.1, 0.9), (0.05, 0.95), (0.01, 0.99)
MAX_SAMPLE = 1 << 20  # values that quantiles are found from: sorting them all takes a second for 100 million


def sane_range(values: NDArray[np.float32]) -> tuple[float, float]:
    """(lowest, highest) of `values` (N,), N > 0, that are not far beyond the others."""
    low, high = float(values.min()), float(values.max())
    least, most = _fences(values[:: -(-len(values) // MAX_SAMPLE)])
    if least <= low and high <= most:
        return low, high
    sane = values[(values >= least) & (values <= most)]
    return float(sane.min()), float(sane.max())


def _fences(sample: NDArray[np.float32]) -> tuple[float, float]:
    """Ends beyond which a value is far; there are some within, because quantiles are values themselves."""
    for pair in PAIRS:
        low, high = map(float, np.quantile(sample, pair, method="inverted_cdf"))
        if high > low:
            break
    width = FENCE * (high - low or abs(low) or 1.0)
    return low - width, high + width


def winsorized(ratings: Ratings) -> tuple[Ratings, int]:
    """(`ratings` with values within `sane_range`, how many were not); the same object where all were."""
    values = ratings.by_user.values
    low, high = sane_range(values)
    n_far = int(np.count_nonzero((values < low) | (values > high)))
    return (ratings.clipped(low, high) if n_far else ratings), n_far
