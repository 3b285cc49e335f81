"""Errors of the engine.

EngineError
├── InvalidInput (also a ValueError): an argument cannot be used
│   ├── InvalidRatings: the rating data itself (NaN, out of range, no rating at all)
│   └── InvalidParams: a hyperparameter (unknown name, out of range)
├── BackendUnavailable: the requested backend cannot run on this machine
├── NotEnoughMemory: a model would not fit; carries both numbers
├── RankLost: another process of a training has ended
├── TrainingDiverged: a loss or a factor stopped being finite
├── DeadFactors: a training left all factors about zero

Messages read "Invalid X of NAME: expected …, got …".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence


class EngineError(Exception):
    """Base of all errors that the engine raises on purpose."""


class InvalidInput(EngineError, ValueError):
    """An argument has the wrong shape, dtype or range."""


class InvalidRatings(InvalidInput):
    """Ratings that no model can be trained on.

    Attributes:
        user_row, item_row: rows of the first such rating; None if the error is not about one rating.
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
    """Add the ids of user and item to errors about a rating; `ids` returns the ids of all user and item rows."""
    try:
        yield
    except InvalidRatings as error:
        raise error.named(*ids()) from None


class InvalidParams(InvalidInput):
    """A hyperparameter is unknown or out of its range."""


class BackendUnavailable(EngineError):
    """The requested backend cannot run here; the message has the reason and the alternative."""


class NotEnoughMemory(EngineError):
    """The estimated memory exceeds the free memory.

    Attributes:
        needed_bytes: the estimate.
        free_bytes: free memory of the machine or device.
        kept_bytes: part of it that must stay free: the service needs it to load a new model next to the present one.
    """

    def __init__(self, what: str, needed_bytes: int, free_bytes: int, kept_bytes: int = 0, advice: str = "") -> None:
        kept = f", {kept_bytes:,} more are kept for the service," if kept_bytes else ""
        end = f"; {advice}" if advice else ""
        super().__init__(f"{what} needs about {needed_bytes:,} bytes{kept} and {free_bytes:,} are free{end}")
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        self.kept_bytes = kept_bytes


class RankLost(EngineError):
    """Another rank of this training has ended or hangs; the training can go on from its last checkpoint."""


class TrainingDiverged(EngineError):
    """A loss or a factor is no longer finite; the message says what to change."""


class DeadFactors(EngineError):
    """A training has left all factors about zero, so that lists are equal; the message says what to change."""
