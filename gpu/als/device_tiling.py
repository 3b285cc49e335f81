"""Sizes that kernels/als_plain.cu is compiled with: how threads share A and how much memory it takes."""

from __future__ import annotations

from typing import NamedTuple

from gpu.als.device_plan import MAX_PARTS
from gpu.als.objective import AlsObjective, width

BATCH_BYTES = 2**29  # bytes; sums of a batch: many times the rows in flight, and little compared with the ratings
WARP = 32
SMALL = 40  # unknowns; up to this size a thread owns a tile of 4 x 4: with 8 x 8 most of a block would idle


class Tiling(NamedTuple):
    """Sizes for rows of D unknowns.

    Attributes:
        tile: edge of the tile of A that a thread owns.
        n_tiles: tiles across A and b.
        form_threads, solve_threads: threads of a block that forms A, and of one that solves it.
        slot_bytes: bytes of A and b in global memory.
        packed_bytes: bytes of A and b in the solver's shared memory.
    """

    tile: int
    n_tiles: int
    form_threads: int
    solve_threads: int
    slot_bytes: int
    packed_bytes: int

    @property
    def max_slots(self) -> int:
        """Slots of a batch, at most; a single row may need `plan.MAX_PARTS`."""
        return max(MAX_PARTS, BATCH_BYTES // self.slot_bytes)


def tiling(problem: AlsObjective) -> Tiling:
    """The sizes for this problem."""
    n_unknowns = width(problem)
    tile = 4 if n_unknowns <= SMALL else 8
    n_tiles = -(-(n_unknowns + 1) // tile)
    n_owned = n_tiles * (n_tiles + 1) // 2
    packed = n_unknowns * (n_unknowns + 1) // 2 + n_unknowns
    return Tiling(tile, n_tiles, _warps(n_owned), _warps(n_unknowns + 1), 4 * n_owned * tile**2, 4 * packed)


def _warps(n_threads: int) -> int:
    """`n_threads` rounded up to whole warps."""
    return -(-n_threads // WARP) * WARP


def defines(problem: AlsObjective, in_shared: bool, stride: int | None = None) -> dict[str, int]:
    """Macros of kernels/als_plain.cu.

    Args:
        in_shared: whether A fits into a block's shared memory.
        stride: width of the tables, to improve one block of factors. Default: rows are solved whole.
    """
    sizes = tiling(problem)
    return {
        "D": width(problem),
        "BIASES": int(problem.biases),
        "IMPLICIT": int(problem.is_implicit),
        "TILE": sizes.tile,
        "N_TILES": sizes.n_tiles,
        "FORM_THREADS": sizes.form_threads,
        "SOLVE_THREADS": sizes.solve_threads,
        "IN_SHARED": int(in_shared),
        "STEP": int(stride is not None),
        "STRIDE": stride or width(problem),
    }
