"""`OnlineModel`: a model that learns from every change of ratings; here it is decided where, host or device."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.backend import HOST, Backend
from gpu.model import Model, bytes_of
from gpu.online.exact import solver_of
from gpu.online.exact_rows import Solver
from gpu.online.host_model import HostModel
from gpu.online.rating_table import Changes, RatingTable
from gpu.param_kinds import GradientParams, Params, descending
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from gpu.refit_rules import item_rules

# Bytes that a model which learns on the device takes beside its parameters and the items laid out for ranking. A user:
# key, place in the order of keys, mark, baseline, place of the ratings. An item: the same, and what changes of it. A
# rating: 22 with spare room, and for a moment 42 more while raters are listed and signatures hashed.
A_USER, AN_ITEM, A_RATING = 64, 80, 64
# A batch of `gpu.online.device_model`: its largest numbers of samples, parts of users and new items; and, in bytes,
# what it takes for any model: agreements of signatures (256 MB at most) and ratings in flight.
SAMPLES, PARTS, ITEMS, A_BATCH = 3 << 19, 3 << 11, 512, 384 * 2**20
# Bytes of `gpu.device.online.exact` in addition to its copy of the items: half for large matrices, half for a launch.
A_SOLVER = 128 * 2**20


class OnlineModel(Protocol):
    """What follows a table of ratings. One thread uses it, and tells of changes right after the table has seen them.

    Its state once it has settled depends on the snapshot, the present ratings and the users touched, on nothing else:
    see `gpu.online.host_model`.
    """

    @property
    def model(self) -> Model:
        """The parameters, on the host; only to be read."""

    @property
    def index(self) -> ItemIndex:
        """The item side, where it is ranked."""

    @property
    def gram(self) -> NDArray[np.float64] | None:
        """See `HostModel.gram`."""

    @property
    def n_waiting(self) -> int:
        """Rows left to `catch_up`, as far as they are known."""

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Follow the growth of the table and take the keys of all rows; before `note` of a new row."""

    def touch(self, users: NDArray[np.integer]) -> None:
        """Mark users whose ratings are not those the snapshot was trained on."""

    def note(self, changes: Changes) -> None:
        """Take note of what the table has just done; cheap."""

    def forget(self, user: int, items: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Make a user, whom the table has dropped with these ratings, as if never seen."""

    def settle(self, budget_s: float | None = None) -> bool:
        """Learn what is noted, in slices of a few milliseconds until the budget has run out; true when all is.

        Without a budget it catches up too.
        """

    def catch_up(self, budget_s: float | None = None) -> bool:
        """Refit trained items whose ratings have changed, and who reads them, likewise; after `settle`."""

    def fold_in(self, items: NDArray[np.integer], values: NDArray[np.floating]) -> topn.Users:
        """Parameters of a user with these ratings; nothing is kept."""

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Share of equal signature bits of `item` and each of `others`; 0 for models without hashing."""


class ReadyModel(Protocol):
    """A model where it will learn."""

    @property
    def model(self) -> Model:
        """The parameters, on the host."""

    def follow(
        self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64], since: int | None = None
    ) -> OnlineModel:
        """The model, from now on told of every change; cheap.

        Users and items that have ratings but were not trained are pending at once. Trained users whose ratings have
        changed since must be named with `touch`.

        Args:
            user_keys, item_keys: of all rows of the table.
            since: position in the table from which on ratings are newer than the snapshot, by which trained items
                learn (`gpu.online.drift`). Default: they stay as they are.
        """


@dataclass(frozen=True)
class _HostModel:
    model: Model
    table: RatingTable
    backend: Backend
    index: ItemIndex
    solver: Solver | None

    def follow(
        self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64], since: int | None = None
    ) -> OnlineModel:
        keys = user_keys, item_keys
        return HostModel(self.model, self.table, *keys, self.backend, self.index, since, self.solver)


def prepare_online(
    model: Model,
    table: RatingTable,
    user_keys: NDArray[np.uint64],
    item_keys: NDArray[np.uint64],
    backend: Backend = HOST,
) -> ReadyModel:
    """Prepare `model` to follow `table`: all that takes long and does not depend on ratings. Any thread.

    Models of stochastic gradient descent learn on the backend. Those of ALS and NMF learn on the host, but their rows
    are solved on the backend. Models with item weights stay on the host.

    Args:
        model: in the rows of `table`, which may grow and change meanwhile.
        user_keys, item_keys: of all rows of the model.
    """
    if _learns_on_device(model.params, backend):
        ready: ReadyModel = importlib.import_module("gpu.device.online.ready_model").ReadyDeviceModel(
            model, table, user_keys, item_keys, backend
        )
        return ready
    return _HostModel(model, table, backend, ItemIndex(model, backend), solver_of(model, backend))


def device_bytes(params: Params, n_users: int, n_items: int, n_ratings: int, backend: Backend) -> int:
    """Memory that such a model takes on the device, at its peak, to follow `n_ratings`; 0 where it is not there."""
    if backend.name == HOST.name or params.has_item_weights:
        return 0
    users, items = bytes_of(params, n_users, n_items)
    if _learns_on_device(params, backend):
        return (
            users
            + A_USER * n_users
            + 3 * items
            + AN_ITEM * n_items
            + A_RATING * n_ratings
            + _batch_bytes(descending(params))
        )
    solving = items + A_SOLVER if params.refits == "exact" else 0
    return 2 * items + solving  # laid out for ranking, neighbors in both directions


def _learns_on_device(params: Params, backend: Backend) -> bool:
    return backend.name != HOST.name and params.refits == "sampled"


def _batch_bytes(params: GradientParams) -> int:
    """Samples of users, sums of those in several parts (half a matrix each), and observations of new items."""
    rules, n_neighbors = item_rules(params), getattr(params, "n_neighbors", 0)
    sums = PARTS * 2 * (params.n_factors + 16) ** 2
    observations = ITEMS * rules.max_ratings * (1 + rules.n_negatives) * (8 * n_neighbors + 12)
    return SAMPLES * 24 + sums + observations + A_BATCH
