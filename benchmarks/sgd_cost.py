"""What an epoch of gradient descent has to move and to compute, and how long an H100 needs for it at its ceilings.

Counted is the useful work alone, of S samples: the ratings, and for implicit feedback s negatives with each.

* Device memory: a record of 8 bytes a sample; what its user gave the K neighbors, 2 K bytes, or K / 8 for implicit
  feedback; every table read and written once, in float32. Implicit feedback draws samples anew in each epoch, so that
  records and bits are written as well.
* Rows: what a sample reads and writes of a row that is not in registers. CUSGD++ and CULSH-MF hold the item in
  registers and users in shared memory: 2 (F b + 4) bytes, b bytes a factor. ESGD holds nothing: both rows are read and
  added to, 16 F bytes, at best in the L2 cache.
* FLOP: 8 F a sample, 2 F of them for u·v and 3 F for each of the two rows; 6 K for neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import gpu
from benchmarks.als_cost import H100
from gpu.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams

Limit = Literal["memory", "rows", "arithmetic"]

RECORD, FLOAT, BIAS = 8, 4, 4  # bytes
COPY = 2.93e12  # bytes a second of a copy in device memory, measured on one H100 80GB HBM3
SHARED = 132 * 128 * 1.755e9  # of shared memory: multiprocessors, bytes a cycle, cycles at its clock under load


@dataclass(frozen=True)
class Work:
    """What an epoch takes; rows are moved at up to `row_rate` bytes a second."""

    bytes: int
    row_bytes: int
    row_rate: float
    flop: int

    def floor_ms(self) -> tuple[float, Limit]:
        """Milliseconds that the slowest of the three takes on an H100, and which it is."""
        times: dict[Limit, float] = {
            "memory": self.bytes / COPY,
            "rows": self.row_bytes / self.row_rate,
            "arithmetic": self.flop / H100.float32,
        }
        limit = max(times, key=times.__getitem__)
        return times[limit] * 1e3, limit


def work_of(ratings: gpu.Ratings, params: SgdParams | EsgdParams) -> Work:
    """The work of an epoch over `ratings`."""
    n_factors, k = params.n_factors, n_neighbors(params)
    n_rows = ratings.n_users + ratings.n_items
    samples = len(ratings) * (1 + (params.n_negatives if isinstance(params, CulshImplicitParams) else 0))
    in_sample = RECORD + (-(-k // 8) if params.is_implicit else 2 * k)
    moved = samples * in_sample * (2 if params.is_implicit else 1)
    moved += 2 * FLOAT * (n_rows * (n_factors + 1) + 2 * ratings.n_items * k)
    flop = samples * (8 * n_factors + 6 * k)
    if isinstance(params, EsgdParams):
        return Work(moved, samples * 4 * n_factors * FLOAT, H100.cached, flop)
    in_tile = n_factors * (2 if params.precision == "float16" else FLOAT) + BIAS
    return Work(moved, samples * 2 * in_tile, SHARED, flop)


def n_neighbors(params: SgdParams | EsgdParams) -> int:
    """K, 0 for algorithms without neighbors."""
    return params.n_neighbors if isinstance(params, CulshParams) else 0
