"""Online learning: `OnlineModel`, a model that follows every change of ratings, and the choice of host or device."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.data.changes import Changes
from gpu.data.decay import weighing
from gpu.data.model import Model, bytes_of
from gpu.data.param_kinds import Params, descending
from gpu.data.rating_table import RatingTable
from gpu.data.refit_rules import item_rules
from gpu.online.exact import solver_of
from gpu.online.host.exact import Solver
from gpu.online.model import HostModel
from gpu.online.priors import Priors
from gpu.online.reading import ANONYMOUS, Reading
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.requests import Users

# Bytes; memory for a user, an item and a rating of a model that learns on the device, in addition to its parameters
# and the items laid out for ranking. A user has a key, a position in the order of keys, a mark, a baseline and the
# start of a row. An item has the same and the marks of a batch. A rating takes 22 bytes with spare room, and 42 more
# while raters are listed and signatures hashed.
USER_BYTES, ITEM_BYTES, RATING_BYTES = 64, 80, 64
# Counts, at most, in a batch of `gpu.online.mirror`: samples, parts of users, and new items. Then bytes that a
# batch takes for any model: agreements of signatures (at most 256 MB) and ratings in flight.
SAMPLES, PARTS, ITEMS, BATCH_BYTES = 3 << 19, 3 << 11, 512, 384 * 2**20
# Bytes; memory of `gpu.online.device.exact` in addition to its copy of the items. Half is for matrices that do not fit
# into shared memory, half for one launch.
SOLVER_BYTES = 128 * 2**20


class OnlineModel(Protocol):
    """A model that follows a table of ratings. One thread uses it, and reports each change after the table has it.

    Once it has settled, its state depends only on the snapshot, the present ratings and the touched users: see
    `gpu.online.model`.
    """

    @property
    def model(self) -> Model:
        """The parameters, on the host; only to be read."""

    @property
    def index(self) -> ItemIndex:
        """The items, laid out for ranking."""

    @property
    def gram(self) -> NDArray[np.float64] | None:
        """See `HostModel.gram`."""

    @property
    def n_waiting(self) -> int:
        """Number of rows that wait for `catch_up` or are being refitted, which may add more. Any thread may ask."""

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Grow to the size of the table, with the keys of all its rows. Call it before `note` of a new row."""

    def touch(self, users: NDArray[np.integer]) -> None:
        """Mark users whose ratings differ from those that trained the snapshot."""

    def note(self, changes: Changes) -> None:
        """Queue changes that the table has just applied; cheap."""

    def renew(self, items: NDArray[np.integer]) -> None:
        """Queue refits of the new ones of `items` (B,), whose priors may have changed; cheap."""

    def forget(self, user: int, items: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Erase a user whom the table has dropped with these ratings, as if never seen."""

    def settle(self, budget_s: float | None = None) -> bool:
        """Learn the queued changes, in slices of a few milliseconds, until the budget (seconds) has run out.

        Without a budget it also catches up.

        Returns:
            Whether every queued change is learned.
        """

    def catch_up(self, budget_s: float | None = None) -> bool:
        """Refit trained items whose ratings have changed, then the rows that read these; call it after `settle`.

        Budget and result are as in `settle`.
        """

    def fold_in(self, items: NDArray[np.integer], values: NDArray[np.floating], reading: Reading = ANONYMOUS) -> Users:
        """Parameters of a user with these ratings, who is not stored."""

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Share of equal signature bits of `item` and each of `others`; 0 for models without hashing."""


class ReadyModel(Protocol):
    """A model loaded on the backend where it will learn."""

    @property
    def model(self) -> Model:
        """The parameters, on the host."""

    def follow(
        self,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        since: int | None = None,
        priors: Priors | None = None,
    ) -> OnlineModel:
        """The online model; report every change to it from now on. Cheap.

        Users and items that have ratings but were not trained are pending at once. Name trained users whose ratings
        have changed since the snapshot with `touch`.

        Args:
            user_keys, item_keys: uint64, keys of all rows of the table.
            since: position in the table; ratings from it on are newer than the snapshot, and trained items learn from
                them (`gpu.online.drift`). Default: trained items keep their parameters.
            priors: of items newer than the snapshot; only models of ALS read them. Default: 0.
        """


@dataclass(frozen=True)
class _HostModel:
    model: Model
    table: RatingTable
    backend: Backend
    index: ItemIndex
    solver: Solver | None

    def follow(
        self,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        since: int | None = None,
        priors: Priors | None = None,
    ) -> OnlineModel:
        keys = user_keys, item_keys
        return HostModel(self.model, self.table, *keys, self.backend, self.index, since, self.solver, priors)


def prepare_online(
    model: Model,
    table: RatingTable,
    user_keys: NDArray[np.uint64],
    item_keys: NDArray[np.uint64],
    backend: Backend = HOST,
) -> ReadyModel:
    """A model ready to follow `table`: this does the slow work that needs no ratings. Any thread may call it.

    Models of stochastic gradient descent learn on the backend. Models of ALS and NMF learn on the host, but the backend
    solves their rows. Models with item weights stay on the host, and so do those of gradient descent with a half-life.

    Args:
        model: its rows are those of `table`, which may grow and change meanwhile.
        user_keys, item_keys: uint64, keys of all rows of the model.
    """
    backend = weighing(model.params, backend)
    if _learns_on_device(model.params, backend):
        ready: ReadyModel = importlib.import_module("gpu.online.device.ready_model").ReadyDeviceModel(
            model, table, user_keys, item_keys, backend
        )
        return ready
    return _HostModel(model, table, backend, ItemIndex(model, backend), solver_of(model, backend))


def rehearse(model: Model, backend: Backend) -> None:
    """Compile, or load, what a device calls while models of this shape learn, so that `prepare_online` need not.

    Any thread may call it. On the host it does nothing.
    """
    backend = weighing(model.params, backend)
    if _learns_on_device(model.params, backend):
        importlib.import_module("gpu.online.device.ready_model").rehearse_once(model, backend)
    elif backend.name != HOST.name:
        small = Model.zeros(model.params, model.mean, model.scale, 2, 2, model.projections.shape[1], model.calibration)
        solver_of(small, backend)


def device_bytes(params: Params, n_users: int, n_items: int, n_ratings: int, backend: Backend) -> int:
    """Peak bytes of memory that such a model takes of the first device to follow `n_ratings`; 0 on the host."""
    backend = weighing(params, backend)
    if backend.name == HOST.name or params.has_item_weights:
        return 0
    users, items = bytes_of(params, n_users, n_items)
    ranked = 2 * items // max(len(backend.ranking_devices), 1)  # laid out for ranking, neighbors in both directions
    if _learns_on_device(params, backend):
        # A batch has samples of users, sums of users in several parts (half a matrix each) and new items' samples.
        descent = descending(params)
        rules, n_neighbors = item_rules(descent), descent.n_neighbors
        sums = PARTS * 2 * (descent.n_factors + 16) ** 2
        observations = ITEMS * rules.max_ratings * (1 + rules.n_negatives) * (8 * n_neighbors + 12)
        batch = SAMPLES * 24 + sums + observations + BATCH_BYTES
        return users + USER_BYTES * n_users + items + ranked + ITEM_BYTES * n_items + RATING_BYTES * n_ratings + batch
    solving = items + SOLVER_BYTES if params.refits == "exact" else 0
    return ranked + solving


def _learns_on_device(params: Params, backend: Backend) -> bool:
    return backend.name != HOST.name and params.refits == "sampled"
