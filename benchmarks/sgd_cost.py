"""Bytes and FLOP of an epoch of gradient descent, and the least time of an H100 for them.

Only useful work counts. The samples are the ratings and, for implicit feedback, s negatives for each of them.

* Device memory: a record of 8 bytes per sample; the user's ratings of the K neighbors, 2 K bytes, or K / 8 for implicit
  feedback; one read and one write of every float32 table. Implicit feedback draws new samples in each epoch, so records
  and bits are also written.
* Rows: the bytes that a sample reads and writes outside registers. CUSGD++ and CULSH-MF hold the item in registers and
  users in shared memory: 2 (F b + 4) bytes, with b bytes per factor. ESGD holds no row: it reads both and adds to them,
  16 F bytes, at best in the L2 cache.
* FLOP: 8 F per sample, of which 2 F for u·v and 3 F for each of the two rows; 6 K for neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import gpu
from benchmarks.als_cost import H100
from gpu.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams

Limit = Literal["memory", "rows", "arithmetic"]

RECORD, FLOAT, BIAS = 8, 4, 4  # bytes
COPY = 2.93e12  # bytes per second of a copy in device memory, measured on one H100 80GB HBM3
SHARED = 132 * 128 * 1.755e9  # bytes per second of shared memory: multiprocessors × bytes per cycle × clock under load


@dataclass(frozen=True)
class Work:
    """Cost of an epoch; rows are moved at up to `row_rate` bytes per second."""

    bytes: int
    row_bytes: int
    row_rate: float
    flop: int

    def floor_ms(self) -> tuple[float, Limit]:
        """(milliseconds, limit): the longest of the three times on an H100, and its name."""
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
    bytes_per_sample = RECORD + (-(-k // 8) if params.is_implicit else 2 * k)
    moved = samples * bytes_per_sample * (2 if params.is_implicit else 1)
    moved += 2 * FLOAT * (n_rows * (n_factors + 1) + 2 * ratings.n_items * k)
    flop = samples * (8 * n_factors + 6 * k)
    if isinstance(params, EsgdParams):
        return Work(moved, samples * 4 * n_factors * FLOAT, H100.cached, flop)
    bytes_per_row = n_factors * (2 if params.precision == "float16" else FLOAT) + BIAS
    return Work(moved, samples * 2 * bytes_per_row, SHARED, flop)


def n_neighbors(params: SgdParams | EsgdParams) -> int:
    """K, 0 for algorithms without neighbors."""
    return params.n_neighbors if isinstance(params, CulshParams) else 0
