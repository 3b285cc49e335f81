"""Refits of single users on the device: twin of `gpu.host.online`, all of a batch at once; see kernels/online.cu.

Sums and solutions are float32 where the host has float64; draws are the same bit for bit.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.device.kernels import kernel, module
from gpu.device.parameters import Parameters
from gpu.device.structures import structure
from gpu.device.table import RatingTable
from gpu.rules import Rules

NAME = "online"
DESCRIBE_THREADS, EXPLAIN_THREADS, PART = 256, 512, 512  # as kernels/online.cu has them
SAMPLE_BYTES, PART_BYTES = 16, 8


def refit_users(users: Any, n_ratings: int, table: RatingTable, parameters: Parameters, rules: Rules) -> None:
    """Refit `users`, distinct rows, int32 (B,) on the device, from their rows, in place of `parameters`.

    Marks them in `is_touched`, and in `is_due` the new items that they have rated. Returns before the work is done.

    Args:
        n_ratings: what they hold, or more.
        rules: of users; `spread` as `placed` gives it.
    """
    if not len(users):
        return
    macros = defines(parameters)
    constants, side = constants_of(rules), parameters.items_side
    into = structure(
        users, parameters.user_keys, parameters.user_factors, parameters.user_bias, parameters.user_baseline,
        parameters.is_touched, parameters.is_due,
    )  # fmt: skip
    n, room = len(users), _room(n_ratings, len(users), rules)
    threads, shared, partial = geometry(NAME, macros)
    arrays, n_parts = _arrays_of(n, room, partial), room // PART + n
    described = structure(*arrays)
    most = 8 * rules.max_ratings
    describe, explain = (kernel(NAME, function, macros) for function in ("describe_users", "explain_samples"))
    describe((n,), (DESCRIBE_THREADS,), (into, table.pointers, side, constants, described), shared_mem=most)
    if macros["K"]:
        explain((n_parts,), (EXPLAIN_THREADS,), (side, constants, described), shared_mem=most)
    solve = kernel(NAME, "solve_users", macros, shared)
    for step in range(rules.n_steps if parameters.is_implicit else 1):
        arguments = (
            into,
            side,
            constants,
            described,
            np.int32(step),
            rules.spread if len(rules.spread) else np.uint64(0),
        )
        solve((n_parts,), (threads,), arguments, shared_mem=shared)


def placed(spread: NDArray[np.float64]) -> Any:
    """`Rules.spread` on the device: float32, with zeros for the columns beside factors in kernels/ridge.cuh."""
    if not len(spread):
        return spread
    width = -(-(len(spread) + 2) // 8) * 8  # a bias and the right-hand side, in whole tiles
    padded = np.zeros((width, width), dtype=np.float32)
    padded[: len(spread), : len(spread)] = spread
    return cupy.asarray(padded)


def defines(parameters: Parameters) -> dict[str, int]:
    """The macros of kernels/online.cu."""
    n_factors, n_neighbours = parameters.item_factors.shape[1], parameters.neighbours.shape[1]
    return {"F": n_factors, "K": n_neighbours, "IMPLICIT": int(parameters.is_implicit), "DIM": n_factors + 1}


def constants_of(rules: Rules) -> Any:
    """`Rules` of the kernels."""
    numbers = [np.float32(number) for number in rules[:6]]
    counts = [np.int32(n) for n in (rules.max_ratings, rules.n_negatives, rules.max_negatives, rules.n_steps)]
    return structure(*numbers, np.float64(rules.baseline_prior), *counts, np.uint64(rules.seed))


def geometry(name: str, macros: dict[str, int]) -> tuple[int, int, int]:
    """(threads, bytes of shared memory, numbers of its sums) of a block that solves: kernels/ridge.cuh says them."""
    return _geometry_of(module(name, macros))


@functools.cache
def _geometry_of(loaded: Any) -> tuple[int, int, int]:
    threads, shared, partial = cupy.ndarray(3, cupy.int32, loaded.get_global("geometry")).get().tolist()
    return threads, shared, partial


def _arrays_of(n: int, room: int, partial: int) -> list[Any]:
    """Fields of `Described` of the kernels, for `n` users with `room` samples at most.

    Sums go through memory where a user has several parts: at most twice as many as parts fit the samples.
    """
    samples = cupy.empty(room * SAMPLE_BYTES, dtype=cupy.uint8)
    items, residuals = cupy.empty(room, dtype=cupy.int32), cupy.empty(room, dtype=cupy.float32)
    starts, slots = cupy.empty((2, n), dtype=cupy.int64)
    lengths, learned, arrived = cupy.empty((3, n), dtype=cupy.int32)
    counts, parts = cupy.empty(n, dtype=cupy.float32), cupy.empty((room // PART + n) * PART_BYTES, dtype=cupy.uint8)
    taken, partials = cupy.zeros(3, dtype=cupy.uint64), cupy.empty(2 * room // PART * partial, dtype=cupy.float32)
    return [samples, items, residuals, starts, slots, lengths, learned, arrived, counts, parts, taken, partials]


def _room(n_ratings: int, n_users: int, rules: Rules) -> int:
    """Samples at most of `n_users` with `n_ratings`."""
    return min((1 + rules.n_negatives) * n_ratings, 2 * n_ratings + rules.max_negatives * n_users)
