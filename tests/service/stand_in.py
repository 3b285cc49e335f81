"""`STAND_IN`: a backend in place of a GPU. With it a rehearsal calls the host's kernels that a service on a GPU calls.

A GPU ranks, and it refits users and new items of models of stochastic gradient descent. The kernels of these steps on
the host are never called there, and compiling them takes two thirds of the time of a first start. The stand-in does
nothing in their place. A GPU's own kernels are rehearsed elsewhere (`gpu.online.device.ready_model`), because they
depend on the size of a model.

The functions of this module are the twins of those of `gpu.ranking.host_item_index` and `gpu.ranking.host_topn`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu import online
from gpu.base.backend import Backend, Twin
from gpu.data.model import Model
from gpu.data.param_kinds import descending
from gpu.data.rating_table import RatingTable
from gpu.online import ReadyModel
from gpu.online.drift import AsTrained
from gpu.online.mirror import NOBODY, DeviceModel
from gpu.online.priors import Priors
from gpu.online.prolific import Prolific
from gpu.online.protocols import Keys, Part
from gpu.online.sampled import SampledRefits
from gpu.ranking.eligible import Eligible
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.requests import RankingRequests


class _StandIn(Backend):
    def twin(self, of_host: Twin) -> Twin:
        twins: dict[str, Twin] = globals() if of_host.__module__.startswith("gpu.ranking") else {}
        return twins.get(of_host.__name__, of_host)


STAND_IN = _StandIn("device", "rehearsal")


def prepare_online(
    model: Model, table: RatingTable, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]
) -> ReadyModel:
    """`gpu.online.prepare_online` on the stand-in."""
    if model.params.refits == "sampled":
        return _Ready(model, table, user_keys, item_keys)
    return online.prepare_online(model, table, user_keys, item_keys, STAND_IN)


# --- primitives


def ranked_items_of(model: Model) -> None:
    """Nothing: `rank` does not read the items."""


def refresh(ranked_items: None, model: Model, items: NDArray[np.int64]) -> None:
    """Do nothing."""


def hide(ranked_items: None, model: Model, items: NDArray[np.int64], hidden: NDArray[np.bool_]) -> None:
    """Do nothing."""


def rank(
    ranked_items: None, requests: RankingRequests, eligible: Sequence[Eligible | None], n: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The first `n` items for each user."""
    n_users = len(requests.biases)
    return np.tile(np.arange(n, dtype=np.int32), (n_users, 1)), np.zeros((n_users, n), dtype=np.float32)


# --- a model that learns on the device


class _Ready:
    """See `gpu.online.protocols.ReadyDeviceModel`."""

    def __init__(
        self, model: Model, table: RatingTable, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]
    ) -> None:
        self.model, self.table = model, table
        self.index, self.as_trained = ItemIndex(model, STAND_IN), AsTrained(model)
        given = self.as_trained, Prolific(model, table), user_keys, item_keys
        self.refits = SampledRefits(model, descending(model.params), table, *given)
        for _ in self.refits.prepare():
            pass

    def follow(
        self,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        since: int | None = None,
        priors: Priors | None = None,
    ) -> DeviceModel:
        del priors
        return DeviceModel(self, user_keys, item_keys, since)

    def load(self, keys: Callable[[], Keys]) -> Generator[None, None, _Live]:
        yield
        return _Live(*map(len, keys()))

    def finish(self) -> None:
        """Return: nothing runs."""


class _Live:
    """See `gpu.online.protocols.Live`; nothing is ever refitted."""

    most_changes = None

    def __init__(self, n_users: int, n_items: int) -> None:
        self.shape = n_users, n_items

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        self.shape = self.shape[0] + len(user_keys), self.shape[1] + len(item_keys)

    def apply(self, *columns: NDArray[Any]) -> None:
        """Do nothing."""

    def touch(self, users: NDArray[np.integer]) -> None:
        """Do nothing."""

    def forget(self, user: int) -> None:
        """Do nothing."""

    def fetch_refitted(self) -> tuple[Part, Part]:
        return (NOBODY, {}), (NOBODY, {})

    def write_items(self, items: NDArray[np.int64], model: Model) -> None:
        """Do nothing."""

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        return np.zeros(len(others), dtype=np.float32)
