"""Layouts: ways to divide a training of ALS among GPUs, and what each way costs; see `gpu.als.planner_costs`.

A layout fits if every GPU has room for its share of the rows and ratings. Solved rows may follow each other in q
batches. With more batches, buffers of streamed ratings and rows and the sums of mode reduce are smaller.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from math import ceil, inf
from typing import Literal, NamedTuple

from gpu.als.device_plan import LONG
from gpu.als.objective import RATING_BYTES
from gpu.als.planner_costs import (
    COMMUNICATOR_BYTES,
    FIXED_MS,
    GRAM_MS,
    LATENCY_MS,
    MEMORY_BYTES,
    MORE_SLOTS,
    ROW_BYTES,
    UNEVEN,
    UNEVEN_EACH,
    Bytes,
    Gpu,
    Half,
    Links,
    Milliseconds,
    Mode,
    Shape,
)
from gpu.base.backend import CUDA_BYTES, WORKSPACE
from gpu.cuda.work import ITEM
from gpu.ranks.exchange import PIECE_BYTES

Placement = Literal["resident", "ratings streamed", "rows streamed", "waves"]
WAVES: Placement = "waves"
PLACEMENTS: tuple[Placement, ...] = ("resident", "ratings streamed", "rows streamed", WAVES)
ROUNDING = 16  # bytes that are left free, because each part of `Bytes` is rounded up


def modes_in_waves(n_users: int, n_items: int) -> tuple[Mode, Mode]:
    """The modes (items, users) with which one GPU trains in waves: it adds up over the larger side."""
    return ("reduce", "gather") if n_users >= n_items else ("gather", "reduce")


class Layout(NamedTuple):
    """How a training is divided.

    Attributes:
        shape: see `Shape`.
        p: number of GPUs.
        items, users: mode of the half that solves items, and of the one that solves users.
        placement: what lies in the memory of GPUs: everything; all but ratings; all but ratings and float32 rows; or
            neither these nor float16 rows that a half in mode reduce adds up over.
        part_limit: bytes that the sums of parts of long rows take at most, on all GPUs together.
        wave_limit: bytes that the fixed rows of a wave take at most, and as many for their ratings.
    """

    shape: Shape
    p: int
    items: Mode
    users: Mode
    placement: Placement
    part_limit: int
    wave_limit: int

    def mode(self, half: Half) -> Mode:
        """The mode of this half."""
        return self.items if half.side == "items" else self.users

    def other(self, half: Half) -> Mode:
        """The mode of the other half."""
        return self.users if half.side == "items" else self.items

    def held(self, half: Half, share: float, q: float, kept_bytes: int = 0) -> Bytes:
        """What a GPU holds that owns `share` of all rows and ratings, if the half takes `q` batches of rows."""
        shape, is_gather = self.shape, self.mode(half) == "gather"
        fixed = shape.float16_bytes * half.n_fixed * (1.0 if is_gather else share)
        solved = shape.float16_bytes * half.n_solved * (1.0 if self.other(half) == "gather" else share)
        ratings, in_turn = 2 * RATING_BYTES * shape.n_ratings * share, q if self.is_streamed else 1
        more = min(MORE_SLOTS, shape.n_ratings / LONG)  # of rows in several parts
        slots = self._part_bytes(half) * share if is_gather else (half.n_solved / q + more) * shape.slot_bytes
        if self.in_waves(half):
            fixed, ratings, slots = 2 * min(fixed, self.wave_limit), min(ratings, 2 * self.wave_limit), 2 * slots
            in_turn = 1
        if self.placement == WAVES and self.other(half) == "reduce":
            solved *= 2 / q
        communicator = COMMUNICATOR_BYTES if self.p > 1 else 0
        return Bytes(
            fixed_table=ceil(fixed),
            solved_table=ceil(solved),
            own_rows=ceil(self._own_rows(half, share, q)),
            ratings=ceil(ratings / in_turn),
            work_items=ceil(self._work_items(half, share, q)),
            slots=ceil(slots),
            reserve=CUDA_BYTES + communicator + WORKSPACE + kept_bytes,
        )

    def ms(
        self, half: Half, shares: tuple[float, ...], q: int, weights: tuple[float, ...], links: Links
    ) -> Milliseconds:
        """The time of a half."""
        pace = max(share / weight for share, weight in zip(shares, weights, strict=True))
        uneven = 1 + UNEVEN + UNEVEN_EACH * self.p if self.p > 1 else 1
        compute = self.shape.one_gpu_ms(half, self.mode(half), max(shares)) * pace * uneven + FIXED_MS
        if self.in_waves(half):  # each reads, and adds to, all sums
            read = (self.shape.float16_bytes * half.n_fixed + RATING_BYTES * self.shape.n_ratings) * max(shares)
            n_waves = ceil(read / (2 * self.wave_limit))
            compute += 3 * n_waves * half.n_solved * self.shape.slot_bytes / MEMORY_BYTES * 1e3
        load = self._loaded(half, max(shares), q) / links.host * 1e3
        return Milliseconds(compute, load, self._moves_ms(half, q, links) if self.p > 1 else 0.0)

    def in_waves(self, half: Half) -> bool:
        """Whether the fixed rows of this half follow each other."""
        return self.placement == WAVES and self.mode(half) == "reduce"

    @property
    def is_streamed(self) -> bool:
        """Whether ratings come from the host, batch by batch."""
        return self.placement != "resident"

    @property
    def host_bytes(self) -> int:
        """See `gpu.als.planner.Plan`."""
        shape, n_summed = self.shape, (self.items, self.users).count("reduce") * self.is_streamed
        rows = shape.float32_bytes * (shape.n_users + shape.n_items)
        rounded = shape.float16_bytes * sum(half.n_fixed for half in shape.halves if self.in_waves(half))
        return RATING_BYTES * shape.n_ratings * (2 + n_summed) + rows * (2 + self._streams_rows) + rounded

    @property
    def _streams_rows(self) -> bool:
        return self.placement in ("rows streamed", WAVES)

    def _part_bytes(self, half: Half) -> float:
        """Sums of the parts of long rows. The share of ratings in such rows is unknown: it grows with the mean."""
        long = min(1.0, self.shape.n_ratings / half.n_solved / LONG)
        return min(long * self.shape.n_ratings / LONG * self.shape.slot_bytes, self.part_limit)

    def _own_rows(self, half: Half, share: float, q: float) -> float:
        """Float32 rows, and pieces of rows that are on the GPU while errors are computed."""
        is_streamed, of_row = self._streams_rows, self.shape.float32_bytes
        n_pieces = 2 * (self.p > 1) + 2 * is_streamed
        pieces = n_pieces * min(PIECE_BYTES, of_row * max(half.n_solved, half.n_fixed))
        if is_streamed:
            return 2 * of_row * half.n_solved * share / q + pieces
        return of_row * (half.n_solved + half.n_fixed) * share + pieces

    def _work_items(self, half: Half, share: float, q: float) -> float:
        if self.is_streamed:
            return 2 * ITEM.itemsize * self._planned(half, share) / q
        return sum(ROW_BYTES * self._planned(one, share) for one in self.shape.halves)

    def _planned(self, half: Half, share: float) -> float:
        """Rows that a GPU has ratings of: its own; in mode reduce all."""
        return half.n_solved * (share if self.mode(half) == "gather" else 1.0)

    def _loaded(self, half: Half, share: float, q: int) -> float:
        """Bytes that a GPU reads from the host in a half."""
        if not self.is_streamed:
            return 0.0
        shape, of_row = self.shape, self.shape.float32_bytes * self._streams_rows
        if self.placement == WAVES and self.other(half) == "reduce":
            of_row += shape.float16_bytes
        waves = q * shape.float16_bytes * half.n_fixed * share if self.in_waves(half) else 0.0
        of_ratings = RATING_BYTES * shape.n_ratings * share + ITEM.itemsize * self._planned(half, share)
        return of_ratings + of_row * half.n_solved * share + waves

    def _moves_ms(self, half: Half, q: int, links: Links) -> float:
        sent = 1 - 1 / self.p  # of a whole table, or of all sums
        gram = GRAM_MS if self.shape.is_implicit else 0.0
        if self.mode(half) == "gather":
            return LATENCY_MS + half.n_fixed * self.shape.float16_bytes * sent / links.gathered * 1e3 + gram
        n_bytes = half.n_solved * self.shape.slot_bytes
        twice = 2 * n_bytes / MEMORY_BYTES * 1e3  # sums are written and read once more
        return q * (LATENCY_MS + links.reduce_ms(n_bytes * sent / q)) + twice + gram


def shares_of(layout: Layout, gpus: Sequence[Gpu]) -> tuple[float, ...] | None:
    """Shares in proportion to weights, or else as memory allows; None if neither fits."""
    total = sum(gpu.weight for gpu in gpus)
    by_weight = tuple(gpu.weight / total for gpu in gpus)
    if _fits(layout, gpus, by_weight):
        return by_weight
    by_memory = _shares_by_memory(layout, gpus) if len(set(gpus)) > 1 else None
    return by_memory if by_memory and _fits(layout, gpus, by_memory) else None


def _fits(layout: Layout, gpus: Sequence[Gpu], shares: tuple[float, ...]) -> bool:
    """Whether every GPU holds its share in both halves, in batches of at least one row."""
    return all(batches(layout, half, gpus, shares) <= half.n_solved for half in layout.shape.halves)


def batches(layout: Layout, half: Half, gpus: Sequence[Gpu], shares: tuple[float, ...]) -> float:
    """The smallest q with which every GPU holds its share; infinite if none is enough."""
    most = 1.0
    for gpu, share in set(zip(gpus, shares, strict=True)):
        least, whole = (layout.held(half, share, q, gpu.kept_bytes).total for q in (inf, 1))
        room = gpu.usable_bytes - ROUNDING - least
        if whole - least > room:
            most = max(most, ceil((whole - least) / room) if room > 0 else inf)
    return most


def _shares_by_memory(layout: Layout, gpus: Sequence[Gpu]) -> tuple[float, ...] | None:
    """Shares by weight, but none larger than what its GPU can hold; None if they cannot add up to 1.

    Batches become smaller, by powers of two, until the GPUs can hold everything.
    """
    powers = range(max(half.n_solved for half in layout.shape.halves).bit_length() + 1)

    def limits(power: int) -> list[float]:
        return [_largest_share(layout, gpu, 2**power) for gpu in gpus]

    def are_enough(power: int) -> bool:
        largest = limits(power)
        return min(largest) > 0 and sum(largest) >= 1

    power = bisect.bisect_left(powers, True, key=are_enough)
    return _bounded([gpu.weight for gpu in gpus], limits(power)) if power < len(powers) else None


def _largest_share(layout: Layout, gpu: Gpu, q: int) -> float:
    """The largest share that fits with q batches: bytes grow linearly with a share."""
    limits = []
    for half in layout.shape.halves:
        none, whole = (layout.held(half, share, min(q, half.n_solved), gpu.kept_bytes).total for share in (0.0, 1.0))
        limits.append((gpu.usable_bytes - ROUNDING - none) / (whole - none))
    return min(limits)


def _bounded(weights: Sequence[float], limits: Sequence[float]) -> tuple[float, ...]:
    """Shares in proportion to `weights` that add up to 1 and stay below `limits`, whose sum is at least 1."""
    shares = [0.0] * len(weights)
    free, left = set(range(len(weights))), 1.0
    while free:
        total = sum(weights[at] for at in free)
        full = {at for at in free if weights[at] / total * left > limits[at]}
        for at in full or free:
            shares[at] = limits[at] if full else weights[at] / total * left
        left -= sum(shares[at] for at in full)
        free = free - full if full else set()
    return tuple(shares)
