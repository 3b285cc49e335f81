"""How to divide a training of ALS among GPUs: the fastest division that fits, and the reason for it.

This restates [001] eq. 8 for what our kernels really hold (docs/decisions/0037-the-plan-says-how-gpus-share-als.md).
`paper_partitions` is the paper's equation. `gpu.als.planner_costs` describes the two modes of a half-iteration.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import NamedTuple

from gpu.als.device_plan import SLOTS_SHARE
from gpu.als.planner_costs import (
    FIXED_MS,
    NVLINK,
    Bytes,
    Gpu,
    Links,
    Milliseconds,
    Mode,
    Shape,
    start_seconds,
)
from gpu.als.planner_layout import PLACEMENTS, WAVES, Layout, Placement, batches, modes_in_waves, shares_of
from gpu.als.sum_batches import WAVE_SHARE
from gpu.base.errors import InvalidInput, NotEnoughMemory

MODES: tuple[Mode, ...] = ("gather", "reduce")
PAPER_RESERVE = 500_000_000  # bytes; ε of eq. 8
PAPER_BYTES = 4  # of a number: the paper holds everything in single precision
FACTORS, MORE_GPUS = 8, (2, 4, 8, 16, 32, 64)  # an advice names a multiple of the first, or one of the others


@dataclass(frozen=True)
class HalfPlan:
    """The plan of one half-iteration.

    Attributes:
        side: the side that is solved.
        mode: how the GPUs share the work; see `gpu.als.planner_costs`.
        p, q: number of GPUs, and of batches of solved rows that follow each other.
        gpu_bytes: what each GPU holds, in the order of `Plan.gpus`.
        ms: time of the half.
    """

    side: str
    mode: Mode
    p: int
    q: int
    gpu_bytes: tuple[Bytes, ...]
    ms: Milliseconds


@dataclass(frozen=True)
class Plan:
    """How to train on several GPUs, or on one.

    Attributes:
        gpus: positions of the GPUs that train, in the order of the caller; others are left out.
        shares: part of all rows and ratings that each of them owns; they add up to 1.
        placement: see `gpu.als.planner_layout.PLACEMENTS`.
        items, users: the two halves of an epoch, in their order.
        host_bytes: bytes of host memory that all ranks take together: the ratings in both orders, which may be mapped
            files; copies by solved row of those that are added up in batches; streamed rows; and the model, twice, as
            rank 0 has it at the end.
        one_gpu_ms: milliseconds of an epoch on one GPU, None if the training does not fit there.
        start_seconds: seconds that the start takes longer than on one GPU.
        reason: why this plan, in one sentence.
    """

    gpus: tuple[int, ...]
    shares: tuple[float, ...]
    placement: Placement
    items: HalfPlan
    users: HalfPlan
    host_bytes: int
    one_gpu_ms: float | None
    start_seconds: float
    reason: str

    @property
    def ms(self) -> float:
        """Milliseconds of an epoch."""
        return self.items.ms.total + self.users.ms.total

    @property
    def gpu_bytes(self) -> tuple[int, ...]:
        """The most that each GPU holds."""
        pairs = zip(self.items.gpu_bytes, self.users.gpu_bytes, strict=True)
        return tuple(max(first.total, second.total) for first, second in pairs)


class Partitions(NamedTuple):
    """The p and q of [001] eq. 8: parts of the fixed side, and batches of the solved one.

    p = 1 is the paper's model parallelism: batches are solved on different GPUs, each with the whole fixed side. p > 1
    is its data parallelism. If p is above the number of GPUs, the parts follow each other.
    """

    p: int
    q: int


def plan(shape: Shape, gpus: Sequence[Gpu], links: Links = NVLINK, n_epochs: int | None = None) -> Plan:
    """The fastest division of a training among some or all of `gpus`; on equal times, the one with fewer GPUs.

    Args:
        shape: the size of the training.
        gpus: what there is; they may differ.
        links: rates. Default: 18 links of NVLink between GPUs, PCIe 5 to the host.
        n_epochs: epochs of the training. Its time then includes the start of several GPUs. Default: an epoch is
            compared with an epoch.

    Raises:
        InvalidInput: no GPU.
        NotEnoughMemory: no division fits; the message says what would have to shrink.
    """
    if not gpus:
        raise InvalidInput("Invalid gpus: expected at least one, got none")

    def total_ms(one: Plan) -> float:
        return one.ms if n_epochs is None else n_epochs * one.ms + 1e3 * one.start_seconds

    plans = [one for chosen in _choices(shape, gpus) if (one := _fastest(shape, gpus, chosen, links))]
    if not plans:
        raise _too_small(shape, gpus)
    best, *others = sorted(plans, key=total_ms)
    one = next((one for one in plans if len(one.gpus) == 1), None)
    return replace(best, one_gpu_ms=one.ms if one else None, reason=_reason(shape, gpus, best, one, others))


def plan_for_all(shape: Shape, gpus: Sequence[Gpu], links: Links = NVLINK) -> Plan | None:
    """The plan with the fastest epoch that uses all of `gpus`, without a reason; None if none fits.

    Args:
        shape, links: as in `plan`.
        gpus: at least one.
    """
    return _fastest(shape, gpus, tuple(range(len(gpus))), links)


def paper_partitions(
    n_solved: int, n_fixed: int, n_ratings: int, n_factors: int, memory_bytes: int
) -> Partitions | None:
    """The p and q of [001] eq. 8 and its three rules, for GPUs with `memory_bytes`; None if nothing fits.

    p is 1 if eq. 8 then holds for some q. Otherwise p starts where a part of the fixed side takes half of the memory.
    """
    fixed, row = PAPER_BYTES * n_fixed * n_factors, PAPER_BYTES * (n_factors**2 + 2 * n_factors + 1)
    room = memory_bytes - PAPER_RESERVE
    least = row + PAPER_BYTES  # a batch of one row
    p = 1 if room - fixed > least else max(2, round(2 * fixed / memory_bytes))
    while p <= n_fixed and room - fixed / p <= least:
        p += 1
    if p > n_fixed:
        return None
    q = math.ceil((n_solved * row + 2 * PAPER_BYTES * n_ratings / p) / (room - fixed / p))
    return Partitions(p, max(1, q))


def _choices(shape: Shape, gpus: Sequence[Gpu]) -> list[tuple[int, ...]]:
    """The GPUs to try: the best one, the best two, …; no more than either side has rows."""
    ranked = sorted(range(len(gpus)), key=lambda at: (-gpus[at].weight, -gpus[at].memory_bytes))
    most = min(len(gpus), shape.n_users, shape.n_items)
    return [tuple(sorted(ranked[:p])) for p in range(1, most + 1)]


def _fastest(shape: Shape, gpus: Sequence[Gpu], chosen: tuple[int, ...], links: Links) -> Plan | None:
    """The plan with the fastest epoch that uses all of `chosen`, in waves if no other fits; None if none does."""
    used = [gpus[at] for at in chosen]
    plans = (_plan(layout, used, links) for layout in _layouts(shape, used))
    best = min((one for one in plans if one), key=lambda one: (one.placement == WAVES, one.ms), default=None)
    return None if best is None else replace(best, gpus=chosen)


def _layouts(shape: Shape, gpus: Sequence[Gpu]) -> Iterator[Layout]:
    smallest = min(gpu.memory_bytes for gpu in gpus)
    limits = smallest // SLOTS_SHARE, smallest // (2 * WAVE_SHARE)
    in_waves = modes_in_waves(shape.n_users, shape.n_items)
    for placement, items, users in product(PLACEMENTS, MODES, MODES):
        is_possible = placement != WAVES or (items, users) != ("gather", "gather")
        if len(gpus) == 1:
            is_possible = (items, users) == (in_waves if placement == WAVES else ("gather", "gather"))
        if is_possible:
            yield Layout(shape, len(gpus), items, users, placement, *limits)


def _plan(layout: Layout, gpus: Sequence[Gpu], links: Links) -> Plan | None:
    """The plan of this layout, without the reason; None if it does not fit."""
    shares = shares_of(layout, gpus)
    if shares is None:
        return None
    halves = []
    for half in layout.shape.halves:
        q = int(batches(layout, half, gpus, shares))
        held = tuple(layout.held(half, share, q, gpu.kept_bytes) for gpu, share in zip(gpus, shares, strict=True))
        ms = layout.ms(half, shares, q, tuple(gpu.weight for gpu in gpus), links)
        halves.append(HalfPlan(half.side, layout.mode(half), layout.p, q, held, ms))
    items, users = halves
    gpus_of_plan, seconds = tuple(range(layout.p)), start_seconds(layout.p)
    return Plan(gpus_of_plan, shares, layout.placement, items, users, layout.host_bytes, None, seconds, "")


def _reason(shape: Shape, gpus: Sequence[Gpu], best: Plan, one: Plan | None, others: list[Plan]) -> str:
    """Why `best` is better than `others`, the plans with other numbers of GPUs, best first."""
    if len(gpus) == 1:
        return "one GPU: there is no other"
    if best is one:
        if others:
            return f"one GPU is better: {_compared(best, others[0])}"
        has_rows = min(shape.n_users, shape.n_items) > 1
        return "one GPU: the training does not fit on several" if has_rows else "one GPU: one side has a single row"
    count = f"{best.items.p} of {len(gpus)} GPUs" if best.items.p < len(gpus) else f"{len(gpus)} GPUs"
    return f"{count}: one has too little memory" if one is None else f"{count}: {_compared(one, best)}"


def _compared(one: Plan, several: Plan) -> str:
    text = f"an epoch takes {_time(one.ms)} on one and {_time(several.ms)} on {several.items.p}"
    if several.ms >= one.ms:
        moves = several.items.ms.moves + several.users.ms.moves
        return f"{text}, of which launches take {_time(2 * FIXED_MS)} and moves {_time(moves)}"
    epoch = math.ceil(several.start_seconds * 1e3 / (one.ms - several.ms))
    return f"{text}; the start takes {_time(several.start_seconds * 1e3)} longer, made up for in epoch {epoch:,}"


def _time(ms: float) -> str:
    return f"{ms:.3g} ms" if ms < 1e3 else f"{ms / 1e3:.3g} s"


def _too_small(shape: Shape, gpus: Sequence[Gpu]) -> NotEnoughMemory:
    """The error for a training that no division makes fit, by the division that lacks least."""
    lacks = [one for chosen in _choices(shape, gpus) for one in _lacks(shape, [gpus[at] for at in chosen])]
    held, gpu, p = max(lacks, key=lambda one: one[1].usable_bytes - one[0].total)
    largest = max((field.name for field in fields(held)), key=lambda name: int(getattr(held, name)))
    size = f"{shape.n_ratings:,} ratings, {shape.n_users:,} users, {shape.n_items:,} items"
    what = f"Training on {p} GPU{'s' * (p > 1)} with {shape.n_factors} factors ({size})"
    part = f"{largest.replace('_', ' ')} takes {getattr(held, largest):,} of these bytes on each GPU"
    needed = held.total - gpu.kept_bytes
    return NotEnoughMemory(what, needed, gpu.usable_bytes, gpu.kept_bytes, f"{part}; {_advice(shape, gpus)}")


def _lacks(shape: Shape, gpus: Sequence[Gpu]) -> Iterator[tuple[Bytes, Gpu, int]]:
    """For each layout, in the smallest batches: what the GPU would hold that lacks most, that GPU, and p."""
    total = sum(gpu.weight for gpu in gpus)
    for layout in _layouts(shape, gpus):
        held = [
            (layout.held(half, gpu.weight / total, half.n_solved, gpu.kept_bytes), gpu)
            for half, gpu in product(shape.halves, set(gpus))
        ]
        yield (*min(held, key=lambda pair: pair[1].usable_bytes - pair[0].total), len(gpus))


def _advice(shape: Shape, gpus: Sequence[Gpu]) -> str:
    """What would fit: fewer factors, or more GPUs like the best one."""
    factors = range(FACTORS, shape.n_factors, FACTORS)
    n_fit = bisect.bisect_left(factors, True, key=lambda n: not _is_possible(replace(shape, n_factors=n), gpus))
    best = gpus[_choices(shape, gpus)[0][0]]
    counts = (n for n in MORE_GPUS if n > len(gpus))
    enough = next((n for n in counts if _is_possible(shape, [best] * n)), None)
    advice = [f"at most {factors[n_fit - 1]} factors fit"] if n_fit else []
    return ", ".join([*advice, *([f"{enough} such GPUs are enough"] if enough else [])]) or "use GPUs with more memory"


def _is_possible(shape: Shape, gpus: Sequence[Gpu]) -> bool:
    """Whether some layout fits that uses all of `gpus`."""
    return any(shares_of(layout, gpus) for layout in _layouts(shape, gpus))
