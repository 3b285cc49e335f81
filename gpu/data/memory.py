"""Checks before a training that it fits into memory."""

from __future__ import annotations

from gpu.base.backend import Backend
from gpu.base.errors import NotEnoughMemory
from gpu.data.ratings import Ratings


def check_training(needed_bytes: int, n_factors: int, ratings: Ratings, backend: Backend, how: str = "") -> None:
    """Check that `backend` has `needed_bytes` for a training on `ratings`.

    Args:
        how: what was done to need less; part of the message.

    Raises:
        NotEnoughMemory: it has not; the message has both numbers and the size of the problem.
    """
    size = f"{len(ratings):,} ratings, {ratings.n_users:,} users, {ratings.n_items:,} items"
    check_room(f"Training on the {backend.name} with {n_factors} factors ({size}){how}", needed_bytes, backend)


def check_room(what: str, needed_bytes: int, backend: Backend) -> None:
    """Check that `backend` has `needed_bytes` for `what` in addition to `kept_bytes`.

    Raises:
        NotEnoughMemory: it has not; the message has all three numbers.
    """
    free = backend.free_bytes()
    if needed_bytes + backend.kept_bytes > free:
        raise NotEnoughMemory(what, needed_bytes, free, backend.kept_bytes)
