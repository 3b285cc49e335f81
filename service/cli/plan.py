"""`nearfield train --plan`: shows how GPUs would share a training; see `gpu.als.planner`.

Beside the plan stand p and q of the paper on cuMF, by [001] eq. 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import gpu
from gpu.als.division import GB, MEMORY_GB, obstacle, shape_of
from gpu.als.planner import Partitions, paper_partitions, plan
from gpu.als.planner_costs import Bytes, Gpu, Milliseconds
from gpu.base.device import memory_of_devices

PLACES = {
    "resident": "everything stays on the GPUs",
    "ratings streamed": "ratings come from the host in batches",
    "rows streamed": "ratings and float32 rows come from the host in batches",
    "waves": "ratings and rows come from the host in batches, and in waves where they are added up over",
}
NAME_COLUMNS, CELL_COLUMNS = 28, 14


def shown(
    size: tuple[int, int, int], params: gpu.Params, n_gpus: int | None, gb: float | None
) -> tuple[dict[str, Any], str]:
    """(the plan of a training as a record, the same as text).

    Args:
        size: numbers of users, items and ratings that the training would learn from.
        params: its algorithm and hyperparameters.
        n_gpus: number of GPUs. Default: those of this machine, or one.
        gb: memory of each. Default: that of this machine's GPUs, or `MEMORY_GB`.

    Raises:
        NotEnoughMemory: the training does not fit on these GPUs; the message says what would have to shrink.
    """
    if reason := obstacle(params):
        return {"algorithm": params.algorithm, "reason": reason, "plan": None}, reason
    shape, gpus = shape_of(size, params), gpus_of(n_gpus, gb)
    best = plan(shape, gpus, n_epochs=params.n_epochs)
    smallest = min(each.usable_bytes for each in gpus)
    by_paper: dict[str, Partitions | None] = {
        half.side: paper_partitions(half.n_solved, half.n_fixed, shape.n_ratings, shape.n_factors, smallest)
        for half in shape.halves
    }
    numbers = {"ms": best.ms, **asdict(best)}
    record = {
        "algorithm": params.algorithm,
        "reason": numbers.pop("reason"),
        "plan": numbers,
        "eq_8": {side: parts and parts._asdict() for side, parts in by_paper.items()},
        "shape": asdict(shape),
        "gpus": [asdict(each) for each in gpus],
    }
    halves = (best.items, best.users)
    fullest = max(range(len(best.gpus)), key=lambda at: best.gpu_bytes[at])
    by_eq_8 = [by_paper[half.side] for half in halves]
    rows: dict[str, list[str]] = {
        "": [f"{half.side} half" for half in halves],
        "mode": [half.mode for half in halves],
        "GPUs and batches, p and q": [f"{half.p}, {half.q}" for half in halves],
        "p and q by eq. 8 of cuMF": [f"{parts.p}, {parts.q}" if parts else "none" for parts in by_eq_8],
    }
    amounts: list[tuple[str, Sequence[Bytes | Milliseconds], float]] = [
        (f"GB of GPU {best.gpus[fullest]}", [half.gpu_bytes[fullest] for half in halves], GB),
        ("ms", [half.ms for half in halves], 1),
    ]
    for unit, of_halves, divisor in amounts:
        for name in (*(field.name for field in fields(of_halves[0])), "total"):
            cells = [f"{getattr(each, name) / divisor:,.3f}" for each in of_halves]
            rows[f"{unit}: {name.replace('_', ' ')}"] = cells
    shares = ", ".join(f"GPU {at} {share:.0%}" for at, share in zip(best.gpus, best.shares, strict=True))
    lines = [
        f"{shape.n_ratings:,} ratings, {shape.n_users:,} users, {shape.n_items:,} items, {shape.n_factors} factors",
        f"rows and ratings: {shares}; {PLACES[best.placement]}",
        f"host memory: {best.host_bytes / GB:,.3f} GB for ratings, parameters that stay there, and the model",
        *(name.ljust(NAME_COLUMNS) + "".join(c.rjust(CELL_COLUMNS) for c in cells) for name, cells in rows.items()),
        best.reason,
    ]
    return record, "\n".join(lines)


def gpus_of(n_gpus: int | None, gb: float | None) -> list[Gpu]:
    """The GPUs to plan for; arguments as in `shown`. GPUs beyond those of this machine are like its smallest."""
    here = memory_of_devices()
    count = n_gpus or max(1, len(here))
    if gb is not None:
        return [Gpu(int(gb * GB))] * count
    smallest = min(here, default=MEMORY_GB * GB)
    return [Gpu(size) for size in (here + [smallest] * count)[:count]]
