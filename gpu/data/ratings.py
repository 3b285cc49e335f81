"""`Ratings`: an immutable sparse matrix of ratings, by user and by item, checked once.

All rating data is checked here; later loops do not check it again.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import InvalidRatings
from gpu.data.evidence import merits

MAX_ROWS = np.iinfo(np.int32).max
NO_MIDDLE = -float("inf")  # rating; no value lies below it, so no rating is a dislike


def are_likes(values: NDArray[np.floating], middle: float, lift: float = 1.0) -> NDArray[np.bool_]:
    """Which pairs are likes for an implicit model, bool as `values`: all from `middle` on, compared in float32.

    `lift`: what events say beside ratings, see `gpu.data.evidence.merits`.
    """
    likes: NDArray[np.bool_] = merits(values.astype(np.float32, copy=False), lift) >= np.float32(middle)
    return likes


class Rows(NamedTuple):
    """Rows of ratings, each a slice of two flat arrays: what every primitive reads.

    Row i is `items[starts[i] : starts[i] + lengths[i]]`, strictly ascending, with the parallel `values`. A CSR matrix
    and the growing `RatingTable` both have this form.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    items: NDArray[np.int32]
    values: NDArray[np.float32]

    def at(self, numbers: NDArray[np.int64] | slice) -> Rows:
        """Some rows, in the same arrays."""
        return Rows(self.starts[numbers], self.lengths[numbers], self.items, self.values)


class Occasions(NamedTuple):
    """Events of users, one by one, in any order.

    Attributes:
        users, items: rows, (N,).
        seconds: float64 (N,), Unix seconds.
        amounts: float32 (N,), what each adds to the strength of its pair; above 0.
    """

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    seconds: NDArray[np.float64]
    amounts: NDArray[np.float32]

    def at(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> Occasions:
        """Some of them."""
        return Occasions(self.users[which], self.items[which], self.seconds[which], self.amounts[which])


class Ratings:
    """Ratings as CSR (by user) and CSC (by item).

    Attributes:
        n_users, n_items: U and I.
        by_user: `Rows` of length U; entries are item rows.
        by_item: `Rows` of length I; entries are user rows.
        user_keys, item_keys: uint64 (U,) and (I,): stable keys of the ids, from which all random draws derive, so that
            a model does not depend on the order in which ids were first seen. Default: the row numbers.
        weights: float32 (N,), what each rating weighs in a training (`gpu.data.decay`), in the order of `coo()`. None:
            all weigh the same.
        order: int64 (N,), distinct numbers in the order of `coo()`; a newer rating has a higher one. None: unknown.
    """

    def __init__(
        self,
        by_user: Rows,
        by_item: Rows,
        user_keys: NDArray[np.uint64] | None = None,
        item_keys: NDArray[np.uint64] | None = None,
        weights: NDArray[np.float32] | None = None,
        order: NDArray[np.int64] | None = None,
    ) -> None:
        self.by_user = by_user
        self.by_item = by_item
        self.weights = weights
        self.order = order
        self.user_keys = _keys_or_rows(user_keys, self.n_users, "user_keys")
        self.item_keys = _keys_or_rows(item_keys, self.n_items, "item_keys")

    @classmethod
    def from_coo(
        cls,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        values: NDArray[np.floating],
        shape: tuple[int, int] | None = None,
        user_keys: NDArray[np.uint64] | None = None,
        item_keys: NDArray[np.uint64] | None = None,
    ) -> Ratings:
        """Build from parallel arrays of user row, item row and rating.

        Args:
            users, items: rows from 0, any integer dtype, (N,).
            values: ratings, any float dtype, (N,), finite as float32, in which they are kept.
            shape: (U, I). Default: one more than the largest rows.
            user_keys, item_keys: see the class.

        The last entry of a repeated (user, item) wins.

        Raises:
            InvalidRatings: unequal lengths, a row outside `shape`, or a rating that is not finite as float32 (the first
                offending position is named).
        """
        users, items, values = np.asarray(users), np.asarray(items), np.asarray(values)
        if not users.shape == items.shape == values.shape or users.ndim != 1:
            raise InvalidRatings(
                "Invalid shapes of users, items, values: expected three equal (N,), "
                f"got {users.shape}, {items.shape}, {values.shape}"
            )
        if shape is None:
            shape = (int(users.max()) + 1, int(items.max()) + 1) if len(users) else (0, 0)
        n_users, n_items = shape
        _check_range(users, n_users, "users")
        _check_range(items, n_items, "items")
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            rounded = values.astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(rounded))
        if len(bad):
            value = values[bad[0]]
            wanted = f"at most {np.finfo(np.float32).max:.7g}" if np.isfinite(value) else "a finite number"
            raise InvalidRatings(f"Invalid rating at position {bad[0]}: expected {wanted}, got {value}")
        # The last entry of each pair, by user, then item.
        pair = users.astype(np.int64) * max(n_items, 1) + items
        order = np.argsort(pair, kind="stable")
        pair, is_last = pair[order], np.ones(len(order), dtype=np.bool_)
        is_last[:-1] = pair[1:] != pair[:-1]
        keep = order[is_last]
        users, items, values = users[keep], items[keep], rounded[keep]
        by_user = _compress(users, items, values, n_users)
        order = np.argsort(items, kind="stable")  # `users` ascends already, so each column ascends by user
        by_item = _compress(items[order], users[order], values[order], n_items)
        return cls(by_user, by_item, user_keys, item_keys)

    @classmethod
    def of_entries(
        cls,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        values: NDArray[np.float32],
        n_entries: NDArray[np.int64],
        shape: tuple[int, int],
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
    ) -> Ratings:
        """Build from distinct pairs (N,) by user, then item, each with `n_entries` (N,) of the `values` (M,).

        A pair of several entries stands in its rows as often, so these no longer ascend strictly.
        """
        users, items = np.repeat(users, n_entries), np.repeat(items, n_entries)
        by_user = _compress(users, items, values, shape[0])
        order = np.argsort(items, kind="stable")
        by_item = _compress(items[order], users[order], values[order], shape[1])
        return cls(by_user, by_item, user_keys, item_keys)

    @property
    def n_users(self) -> int:
        """U, rows of the matrix, including empty ones."""
        return len(self.by_user.starts)

    @property
    def n_items(self) -> int:
        """I, columns of the matrix, including empty ones."""
        return len(self.by_item.starts)

    def __len__(self) -> int:
        """Number of stored ratings."""
        return len(self.by_user.values)

    @property
    def n_pairs_of_items(self) -> NDArray[np.int64]:
        """Users of each item, int64 (I,): a user with two entries counts once."""
        starts, lengths, users, _ = self.by_item
        are_repeated = np.zeros(len(users), dtype=np.bool_)
        are_repeated[1:] = users[1:] == users[:-1]
        are_repeated[starts[lengths > 0]] = False
        n_repeated = np.bincount(np.repeat(np.arange(self.n_items), lengths)[are_repeated], minlength=self.n_items)
        return lengths - n_repeated

    @cached_property
    def scale(self) -> tuple[float, float]:
        """Smallest and largest rating; predictions are clipped to it when an error is measured."""
        if not len(self):
            raise InvalidRatings("Invalid length of ratings: expected at least one rating, got none")
        return float(self.by_user.values.min()), float(self.by_user.values.max())

    def coo(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """Parallel arrays (users, items, values), by user, then item."""
        users = np.repeat(np.arange(self.n_users, dtype=np.int32), self.by_user.lengths)
        return users, self.by_user.items, self.by_user.values

    def where(self, keep: NDArray[np.bool_]) -> Ratings:
        """The ratings where `keep` (N,), in the order of `coo()`, holds; same shape and keys."""
        users, items, values = self.coo()
        shape = (self.n_users, self.n_items)
        part = Ratings.from_coo(users[keep], items[keep], values[keep], shape, self.user_keys, self.item_keys)
        weights = None if self.weights is None else self.weights[keep]
        order = None if self.order is None else self.order[keep]
        return Ratings(part.by_user, part.by_item, self.user_keys, self.item_keys, weights, order)

    def of_some(self, n_users: int) -> Ratings:
        """The ratings of at most `n_users` users who have any; by their keys, which are hashes of ids, so any users."""
        rated = np.flatnonzero(self.by_user.lengths)
        if len(rated) <= n_users:
            return self
        some = np.zeros(self.n_users, dtype=np.bool_)
        some[rated[np.argsort(self.user_keys[rated], kind="stable")[:n_users]]] = True
        return self.where(some[self.coo()[0]])

    def weighted(self, weights: NDArray[np.float32]) -> Ratings:
        """The ratings with these `weights` (N,)."""
        return Ratings(self.by_user, self.by_item, self.user_keys, self.item_keys, weights, self.order)

    def ordered(self, order: NDArray[np.int64]) -> Ratings:
        """The ratings with this `order` (N,)."""
        return Ratings(self.by_user, self.by_item, self.user_keys, self.item_keys, self.weights, order)

    def with_values(self, by_user: NDArray[np.float32], by_item: NDArray[np.float32]) -> Ratings:
        """The same pairs with these values, (N,) in the order of each side."""
        sides = self.by_user._replace(values=by_user), self.by_item._replace(values=by_item)
        return Ratings(*sides, self.user_keys, self.item_keys, self.weights, self.order)

    def clipped(self, low: float, high: float) -> Ratings:
        """The ratings with values clipped to `low` and `high`."""
        bounds = np.float32(low), np.float32(high)
        return self.with_values(*(np.clip(rows.values, *bounds) for rows in (self.by_user, self.by_item)))


def _keys_or_rows(keys: NDArray[np.uint64] | None, n: int, name: str) -> NDArray[np.uint64]:
    if keys is None:
        return np.arange(n, dtype=np.uint64)
    if keys.shape != (n,) or keys.dtype != np.uint64:
        raise InvalidRatings(f"Invalid {name}: expected uint64 ({n},), got {keys.dtype} {keys.shape}")
    return keys


def _check_range(rows: NDArray[np.integer], n: int, name: str) -> None:
    if n > MAX_ROWS:
        raise InvalidRatings(f"Invalid number of {name}: expected at most {MAX_ROWS:,}, got {n:,}")
    if len(rows) and (rows.min() < 0 or rows.max() >= n):
        raise InvalidRatings(f"Invalid rows of {name}: expected 0 to {n - 1}, got {rows.min()} to {rows.max()}")


def _compress(
    rows: NDArray[np.integer], columns: NDArray[np.integer], values: NDArray[np.float32], n_rows: int
) -> Rows:
    lengths = np.bincount(rows, minlength=n_rows).astype(np.int64)
    starts = np.zeros(n_rows, dtype=np.int64)
    np.cumsum(lengths[:-1], out=starts[1:])
    return Rows(starts, lengths, columns.astype(np.int32), np.ascontiguousarray(values))
