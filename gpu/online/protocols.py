"""What `gpu.online.mirror` calls of the device; `gpu.online.device` implements it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import Model
from gpu.data.rating_table import RatingTable
from gpu.online.drift import AsTrained
from gpu.online.sampled import SampledRefits
from gpu.ranking.item_index import ItemIndex

Keys = tuple[NDArray[np.uint64], NDArray[np.uint64]]
Part = tuple[NDArray[np.int64], dict[str, NDArray[Any]]]  # rows (B,), and these rows of the model's arrays by name


class Live(Protocol):
    """The methods of `gpu.online.device.learner.DeviceLearner` that the host calls."""

    @property
    def shape(self) -> tuple[int, int]:
        """(U, I), rows of users and items."""

    @property
    def most_changes(self) -> int | None:
        """Number of changes that it can learn in some milliseconds; None for no limit."""

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Append users and items with these keys."""

    def apply(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        values: NDArray[np.floating],
        positions: NDArray[np.int64],
    ) -> None:
        """Learn a batch of changes."""

    def touch(self, users: NDArray[np.integer]) -> None:
        """Refit distinct users, then the new items that read them."""

    def forget(self, user: int) -> None:
        """Delete a user's ratings and parameters, as if never seen."""

    def fetch_refitted(self) -> tuple[Part, Part]:
        """(users, new items) that the last call refitted, on the host."""

    def write_items(self, items: NDArray[np.int64], model: Model) -> None:
        """Copy the parameters of trained `items` (B,) from `model`."""

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """See `HostModel.agreement`."""


class ReadyDeviceModel(Protocol):
    """A model on the device and its data on the host; `gpu.online.device.ready_model` implements it.

    Attributes:
        refits: prepared refits on the host; they read users of the snapshot through `as_trained`.
    """

    model: Model
    table: RatingTable
    index: ItemIndex
    as_trained: AsTrained
    refits: SampledRefits

    def load(self, keys: Callable[[], Keys]) -> Generator[None, None, Live]:
        """Copy the ratings and refit new items, but no users, in slices; between slices table and keys may grow."""

    def finish(self) -> None:
        """Wait until the device is idle."""
