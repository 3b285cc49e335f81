"""`HostModel`: a model on the host that follows the history ([004] Alg. 4).

Its state is a pure function of the snapshot, the present history, the present priors of new items and the set of
touched users. Every refit reads whole rows of ratings, and three steps run in a fixed order, so that a step reads only
rows that are up to date. Batches of events, deletes and replays leave no trace.

1. A trained item whose ratings have changed by a share is solved over them, with the snapshot's users fixed
   (`gpu.online.drift`).
2. A touched user is solved over the ratings of trained items, with the items fixed.
3. An item newer than the snapshot gets neighbors among all items by its present signature, if the model has neighbor
   lists. Then it is solved over its raters, without those of `gpu.online.prolific`, and again whenever one of these
   raters changes.

`settle` does the urgent work of an event: step 2 for its user, and step 3. `catch_up` does step 1 when there is time,
and then steps 2 and 3 for the users and new items that read the item.

The algorithm of the model decides how a row is solved: `gpu.online.exact` for ALS and NMF, `gpu.online.sampled` for
stochastic gradient descent. EASE solves no rows (`gpu.ranking.weighted`). Lists of items that are liked together read
the ratings alone (`gpu.online.list_refits`): `catch_up` makes those again that are stale, of trained and of new items.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.data.changes import Changes
from gpu.data.model import Model
from gpu.data.rating_table import RatingTable
from gpu.online.drift import AsTrained
from gpu.online.host.exact import Solver
from gpu.online.late import LateRefits, taken
from gpu.online.priors import Priors
from gpu.online.prolific import Prolific
from gpu.online.reading import ANONYMOUS, Reading
from gpu.online.refits import Refits, refits_of
from gpu.online.signatures import Signatures
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.requests import Users

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


_END = object()


class HostModel:
    """A model that follows a table; both have the same rows.

    Attributes:
        model: the parameters; untouched users keep those of the snapshot, and so do trained items that are not due.
        index: its items, laid out for `gpu.ranking.topn`.
    """

    def __init__(
        self,
        model: Model,
        table: RatingTable,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        backend: Backend = HOST,
        index: ItemIndex | None = None,
        since: int | None = None,
        solver: Solver | None = None,
        priors: Priors | None = None,
    ) -> None:
        """Take over `model`, whose rows are those of `table`.

        Users and items that have ratings but were not trained are pending at once. Name trained users whose ratings
        have changed since the snapshot with `touch`.

        Args:
            user_keys, item_keys: uint64, at least as many as rows; see `grow`.
            index: of `model`, which may have grown since. Default: built now, which takes long for a large model.
            since: see `gpu.online.ReadyModel.follow`.
            solver: see `gpu.online.refits.refits_of`. Default: built now, if the model needs one.
            priors: of new items; report each change with `renew`. Default: 0.
        """
        self.model = model
        self._table = table
        model.grow(table.n_users, table.n_items)
        as_trained, self._prolific = AsTrained(model), Prolific(model, table)
        keys = user_keys, item_keys
        self._late_items: set[int] = set()  # new items that read a user of `_late`, and items of stale lists
        refits = model, table, as_trained, self._prolific, *keys, backend, solver, priors, self._late_items
        self._refits = refits_of(*refits)
        self._late = LateRefits(model, table, self._refits, as_trained, since)
        self._signatures: Signatures | None = None  # for models whose neighbors hashing has found
        if model.neighbors.shape[1] and model.projections.shape[1]:
            self._signatures = Signatures(model, cast("CulshParams", model.params), table, *keys, backend)
        is_fitted = model.user_trained
        if model.params.refits == "exact" and model.params.has_values:  # implicit ALS has none for dislikes alone
            is_fitted = is_fitted & model.user_factors.any(axis=1)
        self._users = set(np.flatnonzero(~is_fitted & (table.rows.lengths > 0)).tolist())
        self._items = set(np.flatnonzero(~model.item_trained & (table.item_counts > 0)).tolist())
        # Work in progress: the next slice continues it.
        self._begun: Iterator[None] | None = itertools.chain(self._refits.prepare(), self._late.prepare())
        self._n_in_hand = 0  # rows that it refits
        self.index = index or ItemIndex(model, backend)
        self.index.refresh(np.zeros(0, dtype=np.int64))

    @property
    def gram(self) -> NDArray[np.float64] | None:
        """VᵀV of settled implicit ALS and NMF models, which `gpu.online.explain` needs; None for other models."""
        return self._refits.gram

    @property
    def n_waiting(self) -> int:
        """See `gpu.online.OnlineModel`."""
        return self._n_in_hand + len(self._late) + len(self._late_items)

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Grow to the size of the table, with the keys of all its rows. Call it before `note` of a new row."""
        n_before = self.model.n_items
        if (self._table.n_users, self._table.n_items) != (self.model.n_users, n_before):
            self.model.grow(self._table.n_users, self._table.n_items)
        self._refits.grow(user_keys, item_keys)
        if self._signatures is not None:
            self._signatures.grow(user_keys, item_keys)
        if self.model.n_items > n_before:
            self.index.refresh(np.zeros(0, dtype=np.int64))

    def touch(self, users: NDArray[np.integer]) -> None:
        """Mark users whose ratings differ from those that trained the snapshot."""
        self._users.update(users.tolist())

    def note(self, changes: Changes) -> None:
        """Mark the rows that changes of the table affect; cheap. Call it before the next `settle`."""
        self._users.update(changes.users.tolist())
        self._prolific.note(changes.users)
        self._items.update(changes.items[~self.model.item_trained[changes.items]].tolist())
        if self.model.params.has_item_lists:
            self._late_items.update(changes.items.tolist())
        if self._signatures is not None:
            self._signatures.note(changes)
        self._late.note(changes)

    def renew(self, items: NDArray[np.integer]) -> None:
        """Mark the new ones of `items` (B,), whose priors may have changed."""
        self._items.update(items[~self.model.item_trained[items]].tolist())

    def forget(self, user: int, items: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Erase a user whom the table has dropped with these ratings, as if never seen."""
        model = self.model
        for _ in self._begun or ():  # the work in progress may be this user's
            pass
        self._begun, self._n_in_hand = None, 0
        if self._signatures is not None:
            self._signatures.forget(user, items, values)
        self._items.update(items[~model.item_trained[items]].tolist())
        self._items.update(self._refits.forget(user))
        if model.params.has_item_lists:
            self._late_items.update(items.tolist())
        self._users.discard(user)
        self._prolific.forget(user)
        self._late.forget(user, items)
        model.user_factors[user], model.user_bias[user], model.user_baseline[user] = 0, 0, 0
        model.user_trained[user] = False

    def settle(self, budget_s: float | None = None) -> bool:
        """Refit changed users, lists of new items, then new items, in slices of a few milliseconds.

        A change that arrives during a refit does not disturb it: the row becomes pending again.

        Args:
            budget_s: seconds; stop after the slice in which they run out, after the first one at the earliest. None:
                finish, on all threads if there is much to do, and catch up as well.

        Returns:
            Whether nothing is pending. After `catch_up` the state is then the pure function described above.
        """
        if budget_s is None:
            return self.catch_up()
        self._work(budget_s, self._next)
        is_listed = self._signatures is None or self._signatures.is_settled
        return self._begun is None and not self._users and not self._items and is_listed

    def catch_up(self, budget_s: float | None = None) -> bool:
        """Refit trained items that are due, users who read them, then new items that read these users.

        Trained items come before touched users, so that a start refits these users once. Budget and result are as in
        `settle`.
        """
        steps = self._next_item, self._next, self._next_late
        self._work(budget_s, lambda is_hurried: next(filter(None, (step(is_hurried) for step in steps)), None))
        is_done = self._begun is None and not self._users and not self._items
        return is_done and not self.n_waiting

    def fold_in(self, items: NDArray[np.integer], values: NDArray[np.floating], reading: Reading = ANONYMOUS) -> Users:
        """Parameters of a user with these ratings, who is not stored.

        Args:
            items: item rows, ascending, (B,).
            values: their ratings, (B,).
            reading: how to read them; with the key and the weights of a stored user the result is that of a refit.
        """
        return folded_in(self._refits, items, values, reading)

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Share of equal signature bits of `item` and each of `others`, float32 (B,); 0 for models without hashing."""
        if self._signatures is None:
            return np.zeros(len(others), dtype=np.float32)
        return self._signatures.agreement(item, others)

    def _work(self, budget_s: float | None, following: Callable[[bool], Iterator[None] | None]) -> None:
        """Run slices of the work in progress, then of `following`, until there is none or the budget has run out."""
        deadline = np.inf if budget_s is None else time.perf_counter() + budget_s
        while True:
            if self._begun is None:
                self._begun = following(budget_s is not None)
            if self._begun is None:
                return
            if next(self._begun, _END) is _END:
                self._begun, self._n_in_hand = None, 0
            if time.perf_counter() >= deadline:
                return

    def _next(self, is_hurried: bool) -> Iterator[None] | None:
        """The slices of the next urgent work; None if nothing is pending."""
        if self._users:
            return self._refit_users(self._take_users(self._users, is_hurried), self._items)
        if self._signatures is not None and self._signatures.step():
            self._items |= self._signatures.relisted
            self._signatures.relisted.clear()
            return iter(())
        if self._items:
            return self._refit_items(self._take_items(self._items, is_hurried))
        return None

    def _next_item(self, is_hurried: bool) -> Iterator[None] | None:
        """The slices of trained items that are due; None if none is due."""
        due = self._late.due
        return self._late.refit(self._take_items(due, is_hurried), self._show) if due else None

    def _next_late(self, is_hurried: bool) -> Iterator[None] | None:
        """The slices of users and new items that wait for `catch_up`; None if none does."""
        if self._late.users:
            return self._refit_users(self._take_users(self._late.users, is_hurried), self._late_items)
        if self._late_items:
            return self._refit_items(self._take_items(self._late_items, is_hurried))
        return None

    def _take_users(self, pending: set[int], is_hurried: bool) -> NDArray[np.int64]:
        """Take users out of `pending`: as many as fit into a slice if the work is hurried, else all."""
        refits = self._refits
        return self._take(pending, is_hurried, refits.most_users, refits.first_users)

    def _take_items(self, pending: set[int], is_hurried: bool) -> NDArray[np.int64]:
        refits = self._refits
        return self._take(pending, is_hurried, refits.most_items, refits.first_items)

    def _take(
        self, pending: set[int], is_hurried: bool, most: int, n_first: Callable[[NDArray[np.int64]], int]
    ) -> NDArray[np.int64]:
        self._n_in_hand = len(pending)  # before they leave the set: other threads read `n_waiting`
        rows = taken(pending, most, n_first) if is_hurried else taken(pending, len(pending))
        self._n_in_hand = len(rows)
        return rows

    def _refit_users(self, users: NDArray[np.int64], readers: set[int]) -> Iterator[None]:
        """Refit `users` (B,) and add new items that read them to `readers`."""
        self._late.keep(users)
        yield from self._refits.refit_users(users)
        readers.update(self._prolific.readers_of(users))
        readers.update(self._refits.readers_of(users))

    def _refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        self._late_items.difference_update(items.tolist())
        yield from self._refits.refit_items(items)
        self.model.item_counts[items] = self._table.item_counts[items]
        self._show(items)

    def _show(self, items: NDArray[np.int64]) -> None:
        """Copy the changed parameters of `items` (B,) to the index and to refits of users."""
        self._refits.refresh(items)
        self.index.refresh(items)


def folded_in(refits: Refits, items: NDArray[np.integer], values: NDArray[np.floating], reading: Reading) -> Users:
    """See `HostModel.fold_in`."""
    solution, baseline = refits.fold_in(items.astype(np.int32), values.astype(np.float32), reading)
    user = solution.astype(np.float32)
    return Users(user[None, :-1], user[-1:], np.array([baseline], dtype=np.float32))
