"""What a half-iteration of ALS costs each of several GPUs: bytes of memory and milliseconds.

`gpu.als.planner` compares these costs. They are for the kernels of tensor cores (float16, conjugate gradients, up to
256 factors). The rates were measured on H100 GPUs with 80 GB, connected by NVLink (18 links each), unless a comment
says otherwise. The ratings had Netflix's and MovieLens-10M's shapes (synthetic).

A half-iteration solves one side, `solved`, while the other, `fixed`, does not change. [001] Alg. 3 has two modes:

* gather: each GPU solves its block of rows against a copy of the whole fixed table. The blocks of that table are
  gathered on every GPU before.
* reduce: each GPU keeps its block of the fixed table. It adds up its part of A and b for all solved rows. The parts are
  reduced: each GPU gets the sums of its own block of solved rows, and solves them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

from gpu.als.device_plan import NARROW, least_ratings, n_ranges
from gpu.als.objective import RATING_BYTES, WHOLE
from gpu.base.errors import InvalidInput

Mode = Literal["gather", "reduce"]

GATHERED_BYTES = 4.7e12  # bytes a second: ratings, and rows of the fixed table that kernels read from the cache
GATHERED_FROM_MEMORY = 3.2e12  # the same for rows that they read from memory: 3.9 from .65 GB, 3.2 from 10.4 (H200)
CACHE_BYTES = 50_000_000  # of the second level (data sheet)
ROW_PS, STEP_PS = 0.25, 0.094  # picoseconds for a row and F², without steps and for each step of conjugate gradients
IMPLICIT = 1.4  # time of implicit problems in that of explicit ones with the same steps
FIXED_MS = 0.12  # ms of a half on any number of GPUs: launches, and the last rows, for which most of a GPU waits
MEMORY_BYTES = 3.35e12  # bytes a second that memory can move (data sheet)
LINK_BYTES = 300e9  # bytes a second that a GPU sends while tables are gathered: 265 with 2, 307 with 4
REDUCED_BYTES = 220e9  # the same while sums are reduced, up to some hundred megabytes: 197 with 2, 235 with 4
MORE_REDUCED_BYTES, MORE_MS = (
    420e9,
    0.5,
)  # of larger ones, with a fixed cost in ms: 4 GPUs
LATENCY_MS = 0.04  # ms of one exchange, however short
GRAM_MS = 0.025  # ms to add up VᵀV of all blocks
HOST_BYTES = 50e9  # bytes a second from the host (PCIe 5 x16; an H200 loaded 53 from files in memory)
UNEVEN, UNEVEN_EACH = 0.01, 0.005  # assumed: the slowest block takes 1 % and 0.5 % for each GPU longer
START_S, START_EACH_S = 0.48, 0.07  # seconds to make a communicator, and more for each GPU

COMMUNICATOR_BYTES = 1_600_000_000  # on each GPU, at most, and only with several
TILE = 16  # rows and columns of a tile of A on tensor cores
MORE_SLOTS = 4300  # of mode reduce, beside one a row, at most: `PARTS_OF_BLOCK` of 8 blocks of 132 multiprocessors
ROW_BYTES = 72  # its work item, sums of its errors, ρ, and position of its ratings


class Half(NamedTuple):
    """A half-iteration: which side is solved, and how many rows each side has."""

    side: Literal["items", "users"]
    n_solved: int
    n_fixed: int


@dataclass(frozen=True)
class Shape:
    """The size of a training.

    Attributes:
        n_users, n_items, n_ratings: U, I and N.
        n_factors: F.
        is_implicit, biases, n_cg_steps: as in `gpu.als.objective.AlsObjective`.

    Raises:
        InvalidInput: a number is below 1, or F above 256.
    """

    n_users: int
    n_items: int
    n_ratings: int
    n_factors: int
    is_implicit: bool
    biases: bool
    n_cg_steps: int

    def __post_init__(self) -> None:
        for name in ("n_users", "n_items", "n_ratings", "n_factors"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"Invalid {name} of Shape: expected at least 1, got {getattr(self, name)}")
        if self.n_factors > WHOLE:
            raise InvalidInput(f"Invalid n_factors of Shape: expected at most {WHOLE}, got {self.n_factors}")

    @property
    def halves(self) -> tuple[Half, Half]:
        """The half that solves items, then the one that solves users."""
        return Half("items", self.n_items, self.n_users), Half("users", self.n_users, self.n_items)

    @property
    def float32_bytes(self) -> int:
        """Bytes of a row in float32."""
        return 4 * (self.n_factors + self.biases)

    @property
    def float16_bytes(self) -> int:
        """Bytes of a row in float16: F columns, with biases three more, up to a multiple of 8."""
        return 2 * 8 * math.ceil(self._columns / 8)

    @property
    def slot_bytes(self) -> int:
        """Bytes of the float32 sums A and b of a row, as kernels keep them: the tiles of a triangle, and of b."""
        edge = math.ceil(self._columns / TILE)
        tiles = edge * (edge + 1) // 2
        has_room = self.float16_bytes // 2 + 8 <= TILE * edge  # for b, in the last tile
        return 4 * TILE**2 * (tiles if has_room else tiles + 2 * math.ceil(tiles / 14))

    @property
    def _columns(self) -> int:
        return self.n_factors + 3 * self.biases

    @property
    def _width(self) -> float:
        """F, or more if the columns of biases need another tile."""
        return self.n_factors * math.ceil(self._columns / TILE) / math.ceil(self.n_factors / TILE)

    def one_gpu_ms(self, half: Half, mode: Mode = "gather", share: float = 1.0) -> float:
        """Milliseconds that one GPU computes in a half for all ratings, without `FIXED_MS`.

        Each rating moves its own bytes and a row of the fixed table, from memory or, if rows are cut at ranges of the
        cache, from there (`gpu.als.device_plan`). Each row takes a time that grows with F², before and in every step.
        Within 16 % of what was measured for F from 32 to 256 (`tests/gpu/als/test_planner_costs.py`).

        Args:
            mode, share: of the half, and of the fixed rows that the GPU reads in mode reduce. Default: it reads all.
        """
        table_bytes = half.n_fixed * self.float16_bytes * (1.0 if mode == "gather" else share)
        ranges, length = n_ranges(math.ceil(table_bytes), CACHE_BYTES), self.n_ratings / half.n_solved
        is_cached = table_bytes <= CACHE_BYTES or (mode == "gather" and length > least_ratings(ranges))
        rate = GATHERED_BYTES if is_cached or self._columns > NARROW else GATHERED_FROM_MEMORY
        ratings = self.n_ratings * (RATING_BYTES + self.float16_bytes) / rate * 1e3
        rows = half.n_solved * self._width**2 * (ROW_PS + STEP_PS * self.n_cg_steps) * 1e-9
        return (ratings + rows) * (IMPLICIT if self.is_implicit else 1)


@dataclass(frozen=True)
class Gpu:
    """A GPU that can train.

    Attributes:
        memory_bytes: its memory.
        weight: the part of it, of its time and of its memory, that the training gets: ½ if a service answers from it
            (docs/decisions/0024-the-driver-shares-the-gpu.md).
        kept_bytes: bytes that the training must leave free for other uses.

    Raises:
        InvalidInput: a weight outside 0 to 1, or no memory.
    """

    memory_bytes: int
    weight: float = 1.0
    kept_bytes: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise InvalidInput(f"Invalid weight of Gpu: expected more than 0 and at most 1, got {self.weight:g}")
        if self.memory_bytes < 1:
            raise InvalidInput(f"Invalid memory_bytes of Gpu: expected at least 1, got {self.memory_bytes}")

    @property
    def usable_bytes(self) -> int:
        """Bytes that the training gets."""
        return int(self.memory_bytes * self.weight)


@dataclass(frozen=True)
class Links:
    """Bytes a second that one GPU sends to others, in each mode, and that it receives from the host."""

    gathered: float = LINK_BYTES
    reduced: float = REDUCED_BYTES
    host: float = HOST_BYTES

    def reduce_ms(self, n_bytes: float) -> float:
        """Milliseconds of one reduction in which each GPU sends this number of bytes."""
        faster = MORE_REDUCED_BYTES / REDUCED_BYTES * self.reduced
        return min(n_bytes / self.reduced * 1e3, MORE_MS + n_bytes / faster * 1e3)


NVLINK = Links()


@dataclass(frozen=True)
class Bytes:
    """Bytes that one GPU holds during a half.

    Attributes:
        fixed_table: float16 rows of the fixed side: all rows in mode gather, its block in mode reduce.
        solved_table: float16 rows of the solved side: all rows if the other half gathers them, else its block.
        own_rows: float32 rows of its blocks of both sides; if they are streamed, two buffers of solved rows. And
            pieces of rows while errors are computed.
        ratings: in both orders, by item and by user; if they are streamed, two buffers of them.
        work_items: work items of kernels, and positions of rows; two buffers of work items if ratings are streamed.
        slots: float32 sums of rows. Mode gather: of the parts of long rows. Mode reduce: of all solved rows of a batch
            to add up, and of their further parts.
        reserve: CUDA, the communicator of several GPUs, work space, and what is kept for other uses.
    """

    fixed_table: int
    solved_table: int
    own_rows: int
    ratings: int
    work_items: int
    slots: int
    reserve: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True)
class Milliseconds:
    """Time of a half.

    Attributes:
        compute: of the GPU that takes longest.
        load: to read streamed ratings and rows from the host, while it computes.
        moves: gathering the fixed table before, or reducing sums.
    """

    compute: float
    load: float
    moves: float

    @property
    def total(self) -> float:
        """Loads are hidden behind computation or the other way around."""
        return max(self.compute, self.load) + self.moves


def start_seconds(p: int) -> float:
    """Seconds that a training on `p` GPUs takes longer to start than on one."""
    return START_S + START_EACH_S * p if p > 1 else 0.0
