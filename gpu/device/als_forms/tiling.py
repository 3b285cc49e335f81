"""Sizes that kernels/als_plain.cu is compiled with: how A is dealt to threads and how much memory it takes."""

from __future__ import annotations

from typing import NamedTuple

from gpu.device.als_forms.plan import MAX_PARTS
from gpu.training.als import AlsObjective, width

BATCH_BYTES = 2**29  # sums of a batch; many times what is in work at once, and little beside the ratings
WARP = 32
SMALL = 40  # unknowns up to which threads own tiles of 4 x 4: with 8 x 8 most of a block would idle


class Tiling(NamedTuple):
    """For D unknowns a row.

    Attributes:
        tile: edge of the tile of A that a thread owns.
        n_tiles: tiles across A and b.
        form_threads, solve_threads: of a block.
        slot_bytes: memory of A and b.
        packed_bytes: shared memory that A and b take where they are solved.
    """

    tile: int
    n_tiles: int
    form_threads: int
    solve_threads: int
    slot_bytes: int
    packed_bytes: int

    @property
    def max_slots(self) -> int:
        """Slots of a batch; one row alone may need `plan.MAX_PARTS`."""
        return max(MAX_PARTS, BATCH_BYTES // self.slot_bytes)


def tiling(problem: AlsObjective) -> Tiling:
    """For this problem."""
    n_unknowns = width(problem)
    tile = 4 if n_unknowns <= SMALL else 8
    n_tiles = -(-(n_unknowns + 1) // tile)
    n_owned = n_tiles * (n_tiles + 1) // 2
    packed = n_unknowns * (n_unknowns + 1) // 2 + n_unknowns
    return Tiling(tile, n_tiles, _warps(n_owned), _warps(n_unknowns + 1), 4 * n_owned * tile**2, 4 * packed)


def _warps(n_threads: int) -> int:
    """So many threads, and more up to whole warps."""
    return -(-n_threads // WARP) * WARP


def defines(problem: AlsObjective, in_shared: bool, stride: int | None = None) -> dict[str, int]:
    """Macros of kernels/als_plain.cu.

    Args:
        in_shared: whether A fits into a block's shared memory.
        stride: numbers of a row of the tables, to improve a block of it; else rows are solved as a whole.
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
