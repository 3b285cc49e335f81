"""simLSH on a CUDA device ([004] eq. 3): Ψ of ratings, sums of all columns on tensor cores, updates and signs.

The twin of `gpu.hashing.host_lsh`, with equal integers. Kernels, layouts and ownership of data: kernels/lsh.cu,
lsh_phi.cuh and lsh_psi.cu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.arrays import to_device
from gpu.cuda.kernels import kernel
from gpu.cuda.ratings import DeviceRatings, columns_of, keys_of, rows_of
from gpu.cuda.work import ITEM
from gpu.data.baselines import PRIOR, Baselines
from gpu.data.calibration import origin_of
from gpu.data.ratings import Ratings
from gpu.hashing import fixed_point
from gpu.hashing.fixed_point import Scale

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


NAME, PSI_NAME = "lsh", "lsh_psi"
KINDS = {None: 0, "power": 1, "residual": 2, "linear": 3, "fourth": 4}  # as in kernels/lsh_psi.cu
LONGEST = 8192  # ratings of a piece, at most: enough to make writing sums cheap, few enough that blocks end together
MOST_HALVES = 76  # half-words, at most, whose sums fit into the registers of a block
THREADS, SUM_THREADS = 256, 128
WARP = 32
STATE_BYTES = 32  # bytes; drawn bits of a user


class Pieces(NamedTuple):
    """Columns, and parts of long ones, on the device.

    Attributes:
        pieces: `ITEM` as bytes, in any order.
        count: int32 (1,), number of pieces, at most `bound`.
    """

    pieces: Any
    count: Any
    bound: int


def baselines(ratings: Ratings) -> Baselines:
    """Baselines of `gpu.data.baselines`, arrays on the device; ratings of few binary digits give equal bits."""
    by_user, by_item = (_row_sums(rows) for rows in (rows_of(ratings), columns_of(ratings)))
    mean = float(by_item.sum()) / max(1, len(ratings))
    users = _deviations(by_user, rows_of(ratings).lengths, mean)
    return Baselines(mean, users, _deviations(by_item, columns_of(ratings).lengths, mean))


def items_of(ratings: Ratings) -> tuple[Any, Any]:
    """(ratings of each item, keys of the items); the ratings themselves are not copied."""
    return to_device(ratings.by_item.lengths), keys_of(ratings).items


def fetch(array: Any) -> NDArray[Any]:
    """An array of this backend in host memory."""
    on_host: NDArray[Any] = array.get()
    return on_host


def weights(ratings: Ratings, fixed: Baselines | None, params: CulshParams, scale: Scale | None = None) -> Any:
    """Ψ of every rating in the order of `ratings.by_item`: int8, its N filled up to whole words of four.

    `scale`: as in the host's twin.
    """
    scale = scale or _scale_of(ratings)
    kind, origin = fixed_point.psi_of(params), origin_of(scale, params)
    if kind in fixed_point.SQUARINGS:  # the kernel's argument `mean` is the zero point of r
        fixed = Baselines(origin, *np.zeros((2, 1), np.float32))
    return _weights(ratings, fixed, kind, fixed_point.unit(params, scale, origin))


def cosine_weights(ratings: Ratings, scale: Scale | None = None) -> Any:
    """Every rating in units of the largest, in the steps of Ψ; shape as in `weights`."""
    low, high = scale or _scale_of(ratings)
    return _weights(ratings, None, "linear", max(abs(low), abs(high)) or 1.0)


def _scale_of(ratings: Ratings) -> Scale:
    values = columns_of(ratings).values
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


def project(ratings: Ratings, weights: Any, n_words: int, seed: int) -> Any:
    """Sums of all columns, int32 (I, 64·n_words): Σ weights · Φ over the ratings of each.

    Args:
        weights: from `weights`.
    """
    columns, keys = columns_of(ratings), keys_of(ratings).users
    work, n_halves = pieces_of(columns), 2 * n_words
    states = cupy.empty(len(keys) * STATE_BYTES, dtype=cupy.uint8)
    _run("draw_states", n_halves, len(keys), keys, np.int64(len(keys)), np.uint64(seed), states)
    sums = cupy.zeros((len(columns.starts), WARP * n_halves), dtype=cupy.int32)
    arguments = work.pieces, work.count, columns.entries, weights, states, sums
    for first, count in slices(n_halves):
        defines = {"S": n_halves, "FIRST": first, "COUNT": count}
        if work.bound:
            kernel(NAME, "project", defines)((work.bound,), (SUM_THREADS,), arguments)
    return sums


def update(projections: Any, items: Any, keys: Any, weights: Any, seed: np.uint64) -> None:
    """projections[items[n]] += weights[n] · Φ(keys[n]), in place; an item may occur any number of times.

    Args:
        items, keys, weights: int64, uint64 and int32 (n,), on the device.
    """
    if len(items):
        run = kernel(NAME, "update", _defines(projections.shape[1] // WARP))
        run((len(items),), (SUM_THREADS,), (projections, items, keys, weights, np.uint64(seed)))


def sign(signatures: Any, projections: Any, items: Any) -> None:
    """Refresh the signatures of `items` (int64): a bit is 1 where its sum is ≥ 0. `signatures` as half-words (I, S)."""
    n_halves = signatures.shape[1]
    _run("sign", n_halves, len(items) * n_halves, signatures, projections, items, np.int64(len(items)))


def slices(n_halves: int) -> list[tuple[int, int]]:
    """(first, number) of the half-words of each launch; even numbers, as equal as possible."""
    n = -(-n_halves // MOST_HALVES)
    size = -(-n_halves // (2 * n)) * 2
    return [(first, min(size, n_halves - first)) for first in range(0, n_halves, size)]


def _defines(n_halves: int) -> dict[str, int]:
    """The macros of the first slice, in whose module the kernels that know no slice are as well."""
    first, count = slices(n_halves)[0]
    return {"S": n_halves, "FIRST": first, "COUNT": count}


def _run(function: str, n_halves: int, n_threads: int, *arguments: Any) -> None:
    if n_threads:
        kernel(NAME, function, _defines(n_halves))((-(-n_threads // THREADS),), (THREADS,), arguments)


def _psi_kernel(function: str, kind: int = 0) -> Any:
    return kernel(PSI_NAME, function, {"KIND": kind, "STEPS": fixed_point.PSI_STEPS, "LIMIT": fixed_point.PSI_LIMIT})


def pieces_of(columns: DeviceRatings) -> Pieces:
    """The plan of every kernel that works column by column."""
    n_columns = len(columns.starts)
    bound = n_columns + len(columns.values) // LONGEST
    pieces, count = cupy.empty(bound * ITEM.itemsize, dtype=cupy.uint8), cupy.zeros(1, dtype=cupy.int32)
    if bound:
        arguments = columns.starts, columns.lengths, np.int32(n_columns), np.int32(LONGEST), pieces, count
        _psi_kernel("list_items")((-(-n_columns // THREADS),), (THREADS,), arguments)
    return Pieces(pieces, count, bound)


def _weights(ratings: Ratings, fixed: Baselines | None, kind: str | None, unit: float) -> Any:
    columns = columns_of(ratings)
    work, weights = pieces_of(columns), cupy.empty(-(-len(columns.values) // 4) * 4, dtype=cupy.int8)
    mean, users, items, middle = fixed or Baselines(0.0, *np.zeros((2, 1), np.float32))
    tables = (to_device(array) if isinstance(array, np.ndarray) else array for array in (users, items))
    if work.bound:
        ratings_of = work.pieces, work.count, columns.entries, columns.values
        arguments = *ratings_of, *tables, np.float64(mean), np.float64(unit), np.float32(middle), weights
        _psi_kernel("weigh", KINDS[kind])((work.bound,), (THREADS,), arguments)
    return weights


def _row_sums(rows: DeviceRatings) -> Any:
    n_rows = len(rows.starts)
    sums = cupy.zeros(n_rows, dtype=cupy.float64)
    if n_rows:
        arguments = rows.starts, rows.lengths, np.int32(n_rows), rows.values, sums
        _psi_kernel("row_sums")((-(-n_rows * WARP // THREADS),), (THREADS,), arguments)
    return sums


def _deviations(sums: Any, lengths: Any, mean: float) -> Any:
    return ((sums - mean * lengths) / (lengths + PRIOR)).astype(cupy.float32)
