"""Ratings and events of one pair in one number, as tables and trainings carry them.

Ratings and events are both evidence about a pair, each in its own unit (`gpu.data.calibration.evidence`). A table has
one float32 a pair. Its size tells what it holds:

* below `EVENTS`: the rating itself;
* from `EVENTS` on: the sum of the events of a pair without a rating, times 2^93, which is exact;
* from `BOTH` on: a rating and a sum. The upper 16 bits are those of the sum times 2^117, so the sum has 8 significant
  bits, and the sign of the number is that of the sum. The lower 16 bits are the rating over 32 as a float16, so it has
  11 significant bits. Ratings on one to five stars, and whole points up to 1,024, are exact.

So data of ratings alone and of events alone keep every bit. A sum of 0 says nothing: the pair has its rating, or no
number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EVENTS, BOTH = np.float32(2.0**62), np.float32(2.0**104)
ALONE, BESIDE = 2.0**93, 2.0**117  # factors of a sum without and with a rating
LEAST, LEAST_BESIDE = 2.0**-31, 2.0**-13  # smallest sums; sums closer to 0 count as these
HALF = 32.0  # a rating is divided by it, since the largest float16 is 65,504 and the largest rating 1,000,000
UPPER, LOWER = np.uint32(0xFFFF0000), np.uint32(0xFFFF)


def packed(ratings: NDArray[np.float32], sums: NDArray[np.float32]) -> NDArray[np.float32]:
    """The numbers of pairs with these `ratings` and `sums` of events, (B,), NaN for none; NaN where neither is told."""
    are_told = (sums != 0) & ~np.isnan(sums)
    if not are_told.any():
        return ratings
    amounts = np.where(are_told, sums, 1).astype(np.float64)
    alone = np.copysign(np.maximum(np.abs(amounts), LEAST), amounts) * ALONE
    beside = np.copysign(np.maximum(np.abs(amounts), LEAST_BESIDE), amounts) * BESIDE
    upper = beside.astype(np.float32).view(np.uint32) & UPPER
    halves = (np.nan_to_num(ratings) / np.float32(HALF)).astype(np.float16).view(np.uint16)
    both = (upper | halves.astype(np.uint32)).view(np.float32)
    with_events = np.where(np.isnan(ratings), alone.astype(np.float32), both)
    numbers: NDArray[np.float32] = np.where(are_told, with_events, ratings)
    return numbers


def unpacked(values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(ratings, NaN for none; sums of events, 0 for none) of `values`, float32 (B,) each; NaN stays a NaN."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    sizes, nothing = np.abs(values), np.float32(0)
    if not (sizes >= EVENTS).any():
        return values, np.zeros_like(values)
    are_both, are_ratings = sizes >= BOTH, ~(sizes >= EVENTS)
    bits = values.view(np.uint32)
    halves = (bits & LOWER).astype(np.uint16).view(np.float16)
    beside = np.where(are_both, halves, np.float16(0)).astype(np.float32) * np.float32(HALF)
    ratings = np.where(are_ratings, values, np.where(are_both, beside, np.float32(np.nan)))
    of_both = (bits & UPPER).view(np.float32) * np.float32(1 / BESIDE)
    sums = np.where(are_ratings, nothing, np.where(are_both, of_both, values * np.float32(1 / ALONE)))
    return ratings, sums


def have_events(values: NDArray[np.float32]) -> bool:
    """Whether any of `values` has a sum of events."""
    return bool((np.abs(values) >= EVENTS).any())


def amounts(values: NDArray[np.float32], lift: float = 1.0) -> NDArray[np.float32]:
    """The rating plus `lift` times the sum of events of each of `values`, float32 (B,); NaN stays a NaN."""
    if not have_events(values):
        return values
    ratings, sums = unpacked(values)
    totals: NDArray[np.float32] = np.where(np.isnan(ratings), 0, ratings) + np.float32(lift) * sums
    return np.where(np.isnan(values), np.float32(np.nan), totals).astype(np.float32)


def merits(values: NDArray[np.float32], lift: float) -> NDArray[np.float32]:
    """What decides whether pairs are likes, float32 (B,): those are, whose merit is not below the middle of ratings.

    Ratings are their own merit. Events of an unrated pair are far above or below every middle. Next to a rating, events
    move it by `lift` times their sum. `gpu.data.host_evidence.merit` and kernels/evidence.cuh do the same to one
    number.
    """
    are_both = np.abs(values) >= BOTH
    if not are_both.any():
        return values
    return np.where(are_both, amounts(values, lift), values)
