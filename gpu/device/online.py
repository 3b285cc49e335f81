"""Refits of single users on the device: twin of `gpu.host.online`, all of a batch at once; see kernels/online.cu.

Sums and solutions are float32 where the host has float64; draws are the same bit for bit.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np

from gpu.device.kernels import kernel, module
from gpu.device.parameters import Parameters
from gpu.device.structures import structure
from gpu.device.table import RatingTable
from gpu.rules import Rules

NAME = "online"
DESCRIBE_THREADS = 256  # as kernels/online.cu has it
SAMPLE = 16  # bytes


def refit_users(users: Any, n_ratings: int, table: RatingTable, parameters: Parameters, rules: Rules) -> None:
    """Refit `users`, distinct rows, int32 (B,) on the device, from their rows, in place of `parameters`.

    Marks them in `is_touched`, and in `is_due` the new items that they have rated. Returns before the work is done.

    Args:
        n_ratings: what they hold, or more.
        rules: of users.
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
    samples, counts = cupy.empty(room * SAMPLE, dtype=cupy.uint8), cupy.empty(n, dtype=cupy.float32)
    starts, taken, lengths = cupy.empty(n, dtype=cupy.int64), cupy.zeros(1, dtype=cupy.int64), cupy.empty(n, cupy.int32)
    described = structure(samples, starts, taken, lengths, counts)
    describe = kernel(NAME, "describe_users", macros)
    shared = 8 * rules.max_ratings
    describe((n,), (DESCRIBE_THREADS,), (into, table.pointers, side, constants, described), shared_mem=shared)
    threads, shared = geometry(NAME, macros)
    solve = kernel(NAME, "solve_users", macros, shared)
    solve((n,), (threads,), (into, side, constants, described), shared_mem=shared)


def defines(parameters: Parameters) -> dict[str, int]:
    """The macros of kernels/online.cu."""
    n_factors, n_neighbours = parameters.item_factors.shape[1], parameters.neighbours.shape[1]
    return {"F": n_factors, "K": n_neighbours, "IMPLICIT": int(parameters.is_implicit), "DIM": n_factors + 1}


def constants_of(rules: Rules) -> Any:
    """`Rules` of the kernels."""
    numbers = [np.float32(number) for number in rules[:6]]
    counts = [np.int32(n) for n in (rules.max_ratings, rules.n_negatives, rules.max_negatives, rules.n_steps)]
    return structure(*numbers, np.float64(rules.baseline_prior), *counts, np.uint64(rules.seed))


def geometry(name: str, macros: dict[str, int]) -> tuple[int, int]:
    """(threads, bytes of shared memory) of a block that solves: what kernels/ridge.cuh says of itself."""
    return _geometry_of(module(name, macros))


@functools.cache
def _geometry_of(loaded: Any) -> tuple[int, int]:
    threads, shared = cupy.ndarray(2, cupy.int32, loaded.get_global("geometry")).get().tolist()
    return threads, shared


def _room(n_ratings: int, n_users: int, rules: Rules) -> int:
    """Samples at most of `n_users` with `n_ratings`."""
    return min((1 + rules.n_negatives) * n_ratings, 2 * n_ratings + rules.max_negatives * n_users)
