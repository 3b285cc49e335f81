"""Refits of items newer than the snapshot on the device: twin of `gpu.host.newcomers`; see kernels/newcomers.cu."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from gpu.device.kernels import kernel
from gpu.device.online import constants_of, geometry
from gpu.device.parameters import Parameters
from gpu.device.structures import structure
from gpu.device.table import RatingTable
from gpu.rules import Rules

NAME = "newcomers"
OBSERVE_THREADS = 256  # as kernels/newcomers.cu has it
AT_ONCE = 256  # items whose observations are held at a time: some tens of megabytes


def n_absent(rules: Rules) -> int:
    """Users at most whose absence a refit of an item follows."""
    return rules.n_negatives * rules.max_ratings


def mark_absent(absent: Any, parameters: Parameters) -> None:
    """Mark in `is_due` the new items that a touched user was drawn as a negative of."""
    mark = kernel(NAME, "mark_absent", defines(parameters))
    arguments = parameters.new_items, absent, np.int32(absent.shape[1]), parameters.is_touched, parameters.is_due
    mark((len(parameters.new_items),), (OBSERVE_THREADS,), arguments)


def refit_items(due: Any, absent: Any, table: RatingTable, parameters: Parameters, rules: Rules) -> None:
    """Refit new items over their present raters, in place of `parameters`; without raters they become zero.

    Returns before the work is done.

    Args:
        due: int64 (B,) on the device, which of `new_items`.
        absent: int32 (new items, `n_absent`), filled with the users drawn for each item refitted, −1 for none.
        rules: of items.
    """
    for first in range(0, len(due), AT_ONCE):
        _refit(due[first : first + AT_ONCE], absent, table, parameters, rules)


def defines(parameters: Parameters) -> dict[str, int]:
    """The macros of kernels/newcomers.cu."""
    n_factors, n_neighbours = parameters.user_factors.shape[1], parameters.neighbours.shape[1]
    n_terms = n_factors + 1 + 2 * n_neighbours
    return {"F": n_factors, "K": n_neighbours, "IMPLICIT": int(parameters.is_implicit), "DIM": n_terms}


def _refit(due: Any, absent: Any, table: RatingTable, parameters: Parameters, rules: Rules) -> None:
    macros, n = defines(parameters), len(due)
    users, constants, side = parameters.users_side, constants_of(rules), _items(due, absent, parameters)
    n_terms, room = 2 * macros["K"], rules.max_ratings + n_absent(rules)
    terms = cupy.empty((n, room, n_terms), dtype=cupy.float32)
    offsets, targets = cupy.empty((2, n, room), dtype=cupy.float32)
    raters, lengths = cupy.empty((n, room), dtype=cupy.int32), cupy.empty(n, dtype=cupy.int32)
    counts = cupy.empty((n, n_terms + 1), dtype=cupy.int32)
    observed = structure(terms, raters, offsets, targets, lengths, counts, np.int32(room), np.int32(0))
    n_words = 1 << (rules.max_ratings - 1).bit_length()
    observe, shared = kernel(NAME, "observe_items", macros), 4 * (n_words + n_terms + 1)
    arguments = users, side, table.pointers, constants, observed, np.int32(n_words)
    observe((n,), (OBSERVE_THREADS,), arguments, shared_mem=shared)
    threads, shared, _ = geometry(NAME, macros)
    solve = kernel(NAME, "solve_items", macros, shared)
    solve((n,), (threads,), (users, side, constants, observed), shared_mem=shared)


def _items(due: Any, absent: Any, parameters: Parameters) -> Any:
    """`Items` of the kernels."""
    return structure(
        parameters.new_items, due, parameters.item_keys, parameters.item_baseline, parameters.neighbours,
        parameters.item_factors, parameters.item_bias, parameters.explicit_weights, parameters.implicit_weights,
        absent, np.int64(parameters.n_items),
    )  # fmt: skip
