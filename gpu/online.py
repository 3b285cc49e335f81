"""`OnlineModel`: a model that follows the history ([004] Alg. 4).

Its state is a pure function of the snapshot, the present history and the set of users touched since: every refit
starts from the snapshot's item side and reads whole rows of ratings. So the order of events, how they were batched,
deletes and replays leave no trace.

* A touched user is solved over the ratings of trained items, with the items fixed.
* An item newer than the snapshot gets neighbours by its present signature among all items, where the model has such
  lists, and is then solved over its raters. It follows whenever one of them changes.

How a row is solved depends on what trained the model: `gpu.exact` for ALS and NMF, else `gpu.sampled`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu import topn
from gpu.backend import HOST, Backend
from gpu.exact import ExactRefits
from gpu.item_index import ItemIndex
from gpu.model import Model
from gpu.params import AlsImplicitParams, AlsParams, CulshParams, GradientParams, NmfParams
from gpu.sampled import SampledRefits
from gpu.signatures import Signatures
from gpu.table import Changes, RatingTable

USERS_PER_SLICE = 1  # up to some milliseconds each
ITEMS_PER_SLICE = 1
_END = object()


class Refits(Protocol):
    """How rows are solved, in place in a model, while the other side stands still.

    What works in slices is an iterator that does one of a few milliseconds a step and, where there is but one, none.

    Attributes:
        gram: see `gpu.exact`; None where explanations need no such thing.
    """

    gram: NDArray[np.float64] | None

    def prepare(self) -> Iterator[None]:
        """Sums over the snapshot that refits need; must end before the first refit."""

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Follow the growth of the model and take the keys of all rows."""

    def refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        """Refit `users` (B,) over their present ratings of trained items."""

    def refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        """Refit new `items` (B,) over their present raters."""

    def fold_in(self, items: NDArray[np.int32], values: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
        """([u; b] (F + 1,), b̄_i) of somebody with these ratings, items ascending."""

    def readers_of(self, user: int) -> Collection[int]:
        """New items whose refits read the parameters of `user`, beside those that the user has rated."""

    def forget(self, user: int) -> Collection[int]:
        """Read the user, whose parameters are still there, no more; new items whose refits did."""


class OnlineModel:
    """A model in the rows of a table, kept up with it.

    Attributes:
        model: the parameters; items known to the snapshot keep theirs, and so do users never touched.
        index: its item side, laid out for `gpu.topn`.
    """

    def __init__(
        self,
        model: Model,
        table: RatingTable,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        backend: Backend = HOST,
        index: ItemIndex | None = None,
    ) -> None:
        """Take over `model`, whose rows are those of `table`.

        Users and items that have ratings but were not trained are pending at once. Trained users whose ratings have
        changed since must be named with `touch`.

        Args:
            user_keys, item_keys: uint64, at least as many as rows; see `grow`.
            index: of `model`, which may have grown since. Default: placed now, which takes long for a large model.
        """
        self.model = model
        self._table = table
        model.grow(table.n_users, table.n_items)
        self._refits = _refits(model, table, user_keys, item_keys, backend)
        self._signatures = _signatures(model, table, user_keys, item_keys, backend)
        self._users = set(np.flatnonzero(~_is_fitted(model) & (table.rows.lengths > 0)).tolist())
        self._items = set(np.flatnonzero(~model.item_trained & (table.item_counts > 0)).tolist())
        self._begun: Iterator[None] | None = self._refits.prepare()  # what the next slice goes on with
        self.index = index or ItemIndex(model, backend)
        self.index.refresh(np.zeros(0, dtype=np.int64))

    @property
    def gram(self) -> NDArray[np.float64] | None:
        """What `gpu.explain` needs of implicit ALS and NMF models once they have settled; None for all others."""
        return self._refits.gram

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Follow the growth of the table and take the keys of all rows; before `note` of a new row."""
        known = self.model.n_items
        if (self._table.n_users, self._table.n_items) != (self.model.n_users, known):
            self.model.grow(self._table.n_users, self._table.n_items)
        self._refits.grow(user_keys, item_keys)
        if self._signatures is not None:
            self._signatures.grow(user_keys, item_keys)
        if self.model.n_items > known:
            self.index.refresh(np.zeros(0, dtype=np.int64))

    def touch(self, users: NDArray[np.integer]) -> None:
        """Mark users whose ratings are not those the snapshot was trained on."""
        self._users.update(users.tolist())

    def note(self, changes: Changes) -> None:
        """Mark what is affected by what the table has just done; cheap. Before the next `settle`."""
        self._users.update(changes.users.tolist())
        self._items.update(changes.items[~self.model.item_trained[changes.items]].tolist())
        if self._signatures is not None:
            self._signatures.note(changes)

    def forget(self, user: int, items: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Make a user, whom the table has dropped with these ratings, as if never seen."""
        model = self.model
        self._finish()  # what has begun may be of this user
        if self._signatures is not None:
            self._signatures.forget(user, items, values)
        self._items.update(items[~model.item_trained[items]].tolist())
        self._items.update(self._refits.forget(user))
        self._users.discard(user)
        model.user_factors[user], model.user_bias[user], model.user_baseline[user] = 0, 0, 0
        model.user_trained[user] = False

    def settle(self, budget_s: float | None = None) -> bool:
        """Refit what is pending: users, then lists of new items, then new items; in slices of a few milliseconds.

        What came in between does not disturb a refit that has begun: the row is then pending once more.

        Args:
            budget_s: stop after the slice in which it runs out, the first one at the earliest. None: finish, on all
                threads where there is much to do.

        Returns:
            Whether nothing is pending. The state then depends on nothing but what the module says.
        """
        deadline = np.inf if budget_s is None else time.perf_counter() + budget_s
        while self._step(is_hurried=budget_s is not None):
            if time.perf_counter() >= deadline:
                break
        is_listed = self._signatures is None or self._signatures.is_settled
        return self._begun is None and not self._users and not self._items and is_listed

    def fold_in(self, items: NDArray[np.integer], values: NDArray[np.floating]) -> topn.Users:
        """Parameters of somebody with these ratings, of whom nothing is kept.

        Args:
            items: item rows, ascending, (B,).
            values: their ratings, (B,).
        """
        return folded_in(self._refits, items, values)

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Share of equal signature bits of `item` and each of `others`, float32 (B,); 0 for models without hashing."""
        if self._signatures is None:
            return np.zeros(len(others), dtype=np.float32)
        return self._signatures.agreement(item, others)

    def _step(self, *, is_hurried: bool) -> bool:
        """Do one slice of what has begun or is pending; false where nothing was."""
        if self._begun is None:
            self._begun = self._next(is_hurried=is_hurried)
        if self._begun is None:
            return False
        if next(self._begun, _END) is _END:
            self._begun = None
        return True

    def _next(self, *, is_hurried: bool) -> Iterator[None] | None:
        """The slices of what comes next; None where nothing is pending."""
        if self._users:
            return self._refit_users(_taken(self._users, USERS_PER_SLICE if is_hurried else len(self._users)))
        if self._signatures is not None and self._signatures.step():
            self._items |= self._signatures.relisted
            self._signatures.relisted.clear()
            return iter(())
        if self._items:
            return self._refit_items(_taken(self._items, ITEMS_PER_SLICE if is_hurried else len(self._items)))
        return None

    def _finish(self) -> None:
        """Bring to its end what has begun."""
        for _ in self._begun or ():
            pass
        self._begun = None

    def _refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        yield from self._refits.refit_users(users)
        for user in users.tolist():
            items = self._table.row(user)[0]
            self._items.update(items[~self.model.item_trained[items]].tolist())
            self._items.update(self._refits.readers_of(user))

    def _refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        yield from self._refits.refit_items(items)
        self.model.item_counts[items] = self._table.item_counts[items]
        self.index.refresh(items)


def folded_in(refits: Refits, items: NDArray[np.integer], values: NDArray[np.floating]) -> topn.Users:
    """See `OnlineModel.fold_in`."""
    found, baseline = refits.fold_in(items.astype(np.int32), values.astype(np.float32))
    user = found.astype(np.float32)
    return topn.Users(user[None, :-1], user[-1:], np.array([baseline], dtype=np.float32))


def _refits(
    model: Model, table: RatingTable, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64], backend: Backend
) -> Refits:
    """How rows of `model` are solved."""
    if isinstance(model.params, AlsParams | AlsImplicitParams | NmfParams):
        return ExactRefits(model, model.params, table, backend)
    assert isinstance(model.params, GradientParams)  # noqa: S101 - the last of `ALGORITHMS`; this narrows the type
    return SampledRefits(model, model.params, table, user_keys, item_keys, backend)


def _signatures(
    model: Model, table: RatingTable, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64], backend: Backend
) -> Signatures | None:
    """What makes lists for new items; None where the model has no neighbours or they were not found by hashing."""
    if not isinstance(model.params, CulshParams) or not model.neighbours.shape[1] or not model.projections.shape[1]:
        return None
    return Signatures(model, model.params, table, user_keys, item_keys, backend)


def _is_fitted(model: Model) -> NDArray[np.bool_]:
    """Users (U,) whose parameters came with the snapshot; implicit ALS has none for users with dislikes alone."""
    if not isinstance(model.params, AlsImplicitParams):
        return model.user_trained
    is_fitted: NDArray[np.bool_] = model.user_trained & model.user_factors.any(axis=1)
    return is_fitted


def _taken(pending: set[int], n: int) -> NDArray[np.int64]:
    """Take up to `n` rows out of `pending`; any, their order leaves no trace."""
    return np.array([pending.pop() for _ in range(min(n, len(pending)))], dtype=np.int64)
