"""`DeviceLearner`: a model of the SGD family that follows the history on the device; see `gpu.online.model`.

Ratings, parameters, sums and signatures of simLSH stay on the device. One copy uploads a batch. Between its kernels the
host reads only nine counts of the table, the number of outdated lists, and the number of items to refit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.data.model import ARRAYS, Model
from gpu.data.param_kinds import descending
from gpu.data.ratings import Rows
from gpu.data.refit_rules import Rules, beside_items, item_rules, user_rules
from gpu.online.device import packing
from gpu.online.device.parameters import NAMES, LiveParameters
from gpu.online.device.rating_table import Changes, RatingTable
from gpu.online.device.refit_items import ItemRefits
from gpu.online.device.refit_users import UserRefits
from gpu.online.device.signatures import Signatures
from gpu.online.protocols import Part

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


OF_USERS = "user_factors", "user_bias", "user_baseline"  # arrays that refits write
OF_ITEMS = "item_factors", "item_bias", "neighbors", "explicit_weights", "implicit_weights"
Steps = tuple[tuple[str, Callable[[], None]], ...]


class Refitted(NamedTuple):
    """Refitted rows on the device, valid until the next call: users, int32 (A,), and new items, int64 (C,)."""

    users: Any
    items: Any


class DeviceLearner:
    """A model and the ratings that it follows, in device memory.

    After each call its state is a pure function of (snapshot, present ratings, touched users), bit for bit: the order
    of each sum does not depend on the batches.

    Attributes:
        table: the ratings.
        parameters: the model.
        refitted: rows that the last call refitted.
    """

    table: RatingTable
    parameters: LiveParameters
    refitted: Refitted

    def __init__(
        self,
        model: Model,
        rows: Rows,
        positions: NDArray[np.int64],
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
    ) -> None:
        """Copy a snapshot and a history, and refit users and items that have ratings but were not trained.

        Name trained users whose ratings have changed since the snapshot with `touch`.

        Args:
            model: trained by stochastic gradient descent (`sgd`, `esgd`, `culsh`, `culsh-implicit`), grown to the rows
                of the history.
            rows, positions: ratings by user, from `gpu.data.rating_table.RatingTable`.
            user_keys, item_keys: uint64, keys of all rows.
        """
        parameters = LiveParameters(model, user_keys[: model.n_users], item_keys[: model.n_items])
        params, unit = descending(model.params), model.calibration.unit
        rules = user_rules(params, unit)
        if not model.is_implicit:  # with P, see `gpu.online.sampled`
            trained = model.item_factors[model.item_trained].astype(np.float64)
            rules = beside_items(rules, params, trained.T @ trained, len(trained), unit)
        for _ in self._adopt(model, parameters, RatingTable(rows, positions, model.n_items), rules):
            pass
        self.touch(np.flatnonzero(~model.user_trained & (rows.lengths > 0)))

    @classmethod
    def of(
        cls, model: Model, parameters: LiveParameters, table: RatingTable, rules: Rules
    ) -> Generator[None, None, DeviceLearner]:
        """A learner for parameters and ratings already on the device, in slices of some milliseconds.

        Nothing is refitted here. The first `touch` refits all new items, and must name the users with ratings who were
        not trained; call it with an empty array if there are none.

        Args:
            model: the model of `parameters`.
            rules: rules of users, with `spread` on the host.
        """
        learner = cls.__new__(cls)
        yield from learner._adopt(model, parameters, table, rules)
        return learner

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Append users and items with these keys, uint64; call it before the batch that names them."""
        self.parameters.grow(user_keys, item_keys)
        self.table.grow(self.parameters.n_users, self.parameters.n_items)
        self._items.grow()
        if self._signatures is not None:
            self._signatures.grow()

    @property
    def shape(self) -> tuple[int, int]:
        """(U, I), rows of users and items."""
        return self.parameters.n_users, self.parameters.n_items

    @property
    def most_changes(self) -> int | None:
        """Changes after which rebuilding the lists of new items takes some milliseconds; None for no limit."""
        return None if self._signatures is None else self._signatures.most_changes

    def apply(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        values: NDArray[np.floating],
        positions: NDArray[np.int64],
    ) -> None:
        """Learn a batch of changes, host arrays as in `RatingTable.apply`; returns before the device is done."""
        for _, step in self.steps(users, items, values, positions):
            step()

    def steps(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        values: NDArray[np.floating],
        positions: NDArray[np.int64],
    ) -> Steps:
        """The steps of `apply` in order, as (name, function), so that a benchmark can time each of them."""
        changes: list[Changes] = []
        return (
            ("table", lambda: changes.append(self.table.apply(users, items, values, positions))),
            ("signatures", lambda: self._note(changes[0])),
            ("users", lambda: self._users.refit(changes[0].touched_users, changes[0].n_ratings, self.table)),
            ("neighbors", self._list_new_items),
            ("items", lambda: self._refit_items(changes[0].touched_users)),
        )

    def touch(self, users: NDArray[np.integer]) -> None:
        """Refit distinct users whose ratings differ from those that trained the snapshot, then their new items."""
        rows = cupy.asarray(users.astype(np.int32))
        self._users.refit(rows, int(self.table.lengths[rows].sum()), self.table)
        self._refit_items(rows)

    def forget(self, user: int) -> None:
        """Delete a user's ratings and parameters, as if never seen."""
        _, _, changes = self.table.drop_user(user)
        self._note(changes)
        if self._signatures is not None:
            self._signatures.forget(user)
        self.parameters.drop_user(user)
        self.parameters.is_touched[user] = 1  # items that have drawn the user draw again
        self._list_new_items()
        self._refit_items(cupy.zeros(0, dtype=cupy.int32))

    def fetch(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> dict[str, NDArray[Any]]:
        """These rows of the arrays `gpu.online.device.parameters.NAMES`, on the host."""
        rows = {"U": cupy.asarray(users.astype(np.int64)), "I": cupy.asarray(items.astype(np.int64))}
        return {name: getattr(self.parameters, name)[rows[ARRAYS[name][0][0]]].get() for name in NAMES}

    def fetch_refitted(self) -> tuple[Part, Part]:
        """(users, new items) that the last call refitted, with the arrays that refits write; waits for one copy."""
        users, items = self.refitted
        of_users, of_items = packing.fetched((users, self._columns(OF_USERS)), (items, self._columns(OF_ITEMS)))
        return of_users, of_items

    def write_items(self, items: NDArray[np.int64], model: Model) -> None:
        """Copy the parameters of distinct trained `items` (B,) from `model` in one transfer.

        Call `touch` with their raters next. Lists, baselines, the prior P of users and all new items stay as they are.
        """
        packing.write(self._columns(OF_ITEMS), items, {name: getattr(model, name)[items] for name in OF_ITEMS})

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """See `gpu.online.model.HostModel.agreement`."""
        if self._signatures is None:
            return np.zeros(len(others), dtype=np.float32)
        return self._signatures.agreement(item, others)

    def _columns(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(self.parameters, name) for name in names}

    def finish(self) -> None:
        """Wait until the device is idle."""
        cupy.cuda.get_current_stream().synchronize()

    def _adopt(self, model: Model, parameters: LiveParameters, table: RatingTable, rules: Rules) -> Iterator[None]:
        params, unit = descending(model.params), model.calibration.unit
        self.table, self.parameters = table, parameters
        self._users, self._items = UserRefits(parameters, rules), ItemRefits(parameters, item_rules(params, unit))
        self._signatures: Signatures | None = None
        parameters.is_due.fill(1)
        if model.neighbors.shape[1] and model.projections.shape[1]:  # hashing has found its neighbors
            culsh, origin = cast("CulshParams", model.params), model.calibration.origin
            self._signatures = Signatures(parameters, culsh, model.scale, origin, table)
            yield from self._signatures.prepare()

    def _note(self, changes: Changes) -> None:
        self._items.mark(changes)
        if self._signatures is not None:
            self._signatures.note(changes)

    def _list_new_items(self) -> None:
        if self._signatures is not None:
            self._signatures.list_new_items()

    def _refit_items(self, refitted: Any) -> None:
        """Refit new items after the users `refitted`."""
        self.refitted = Refitted(refitted, self._items.refit(self.table))
        self.parameters.is_touched.fill(0)
