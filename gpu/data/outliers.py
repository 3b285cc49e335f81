"""Outliers: a training clips ratings far beyond all others to the nearest plausible rating.

One rating of a million among stars would make the unit of a training (`gpu.data.calibration`) a thousand times as
long, the scale of its estimates useless, and its item the first of all lists. Quartiles do not move unless a quarter of
all ratings is wrong. So a rating more than `FENCE` times their distance beyond them counts as a mistake or an attack.
No data set of docs/performance.md has such a rating.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import Ratings

FENCE = 10.0  # distances of the quartiles; an honest scale ends well before, even if most ratings are close together
# Pairs of quantiles; the first pair with different values is used. Nearly all thumbs may be up, for example.
PAIRS = (0.25, 0.75), (0.1, 0.9), (0.05, 0.95), (0.01, 0.99)
MAX_SAMPLE = 1 << 20  # values; quantiles come from a sample of this size, since sorting 100 million takes a second


def sane_range(values: NDArray[np.float32]) -> tuple[float, float]:
    """(lowest, highest) of `values` (N,), N > 0, without those far beyond the others."""
    low, high = float(values.min()), float(values.max())
    sample = values[:: -(-len(values) // MAX_SAMPLE)]
    for pair in PAIRS:
        first, last = map(float, np.quantile(sample, pair, method="inverted_cdf"))
        if last > first:
            break
    width = FENCE * (last - first or abs(first) or 1.0)
    least, most = first - width, last + width  # some values lie within, because quantiles are values themselves
    if least <= low and high <= most:
        return low, high
    sane = values[(values >= least) & (values <= most)]
    return float(sane.min()), float(sane.max())


def winsorized(ratings: Ratings) -> tuple[Ratings, int]:
    """(`ratings` clipped to `sane_range`, number of clipped ratings); the same object if no rating was clipped."""
    values = ratings.by_user.values
    low, high = sane_range(values)
    n_far = int(np.count_nonzero((values < low) | (values > high)))
    return (ratings.clipped(low, high) if n_far else ratings), n_far
