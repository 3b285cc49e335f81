"""Errors of the engine.

EngineError
├── InvalidInput (also a ValueError): what a caller handed in cannot be used
│   ├── InvalidRatings: the rating data itself (NaN, out of range, no rating at all)
│   └── InvalidParams: a hyperparameter (unknown name, out of range)
├── BackendUnavailable: the asked-for backend cannot run on this machine
├── NotEnoughMemory: a model would not fit; carries both numbers
├── TrainingDiverged: a loss or a factor stopped being finite
├── DeadFactors: a training left factors that say nothing

Messages read "Invalid X of NAME: expected …, got …".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence


class EngineError(Exception):
    """Base of everything the engine raises on purpose."""


class InvalidInput(EngineError, ValueError):
    """An argument has the wrong shape, dtype or range."""


class InvalidRatings(InvalidInput):
    """Ratings that no model can be trained on.

    Attributes:
        user_row, item_row: of the first such rating; None where it is not about one.
    """

    def __init__(self, message: str, user_row: int | None = None, item_row: int | None = None) -> None:
        super().__init__(message if user_row is None else f"{message} (user row {user_row}, item row {item_row})")
        self.user_row, self.item_row, self._message = user_row, item_row, message

    def named(self, user_ids: Sequence[str], item_ids: Sequence[str]) -> InvalidRatings:
        """The same error with the ids of its rows."""
        if self.user_row is None or self.item_row is None:
            return self
        return InvalidRatings(f"{self._message} (user {user_ids[self.user_row]!r}, item {item_ids[self.item_row]!r})")


@contextlib.contextmanager
def naming(ids: Callable[[], tuple[Sequence[str], Sequence[str]]]) -> Iterator[None]:
    """Name user and item of refused ratings by their ids; `ids` gives those of all users' and items' rows."""
    try:
        yield
    except InvalidRatings as error:
        raise error.named(*ids()) from None


class InvalidParams(InvalidInput):
    """A hyperparameter is unknown or out of its range."""


class BackendUnavailable(EngineError):
    """The asked-for backend cannot run here; the message says why and what to use instead."""


class NotEnoughMemory(EngineError):
    """The estimate of what is needed exceeds what is free.

    Attributes:
        needed_bytes: the estimate.
        free_bytes: what the machine or device had free.
        kept_bytes: what must be left of it: to the service, for the model that a worker makes beside the one it has.
    """

    def __init__(self, what: str, needed_bytes: int, free_bytes: int, kept_bytes: int = 0) -> None:
        kept = f", {kept_bytes:,} more are kept for the service," if kept_bytes else ""
        super().__init__(f"{what} needs about {needed_bytes:,} bytes{kept} and {free_bytes:,} are free")
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        self.kept_bytes = kept_bytes


class TrainingDiverged(EngineError):
    """A loss or a factor is no longer finite; the message says what to change."""


class DeadFactors(EngineError):
    """A training has left factors so small that they say nothing; the message says what to change."""
