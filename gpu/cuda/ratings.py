"""Ratings on the device: both orders of a `Ratings`, copied once and shared by all readers."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from gpu.cuda.arrays import to_device
from gpu.data.ratings import Ratings, Rows


class DeviceRatings(NamedTuple):
    """One order of the ratings on the device; row x is `starts[x] : starts[x] + lengths[x]` of both long arrays.

    Attributes:
        starts, lengths: int64 (rows,).
        entries: int32 (N,), the other side's row of each rating, ascending within a row.
        values: float32 (N,).
    """

    starts: Any
    lengths: Any
    entries: Any
    values: Any


_rows: weakref.WeakKeyDictionary[Ratings, DeviceRatings] = weakref.WeakKeyDictionary()
_columns: weakref.WeakKeyDictionary[Ratings, DeviceRatings] = weakref.WeakKeyDictionary()


def rows_of(ratings: Ratings) -> DeviceRatings:
    """The ratings by user; copied at the first call, freed with `ratings`."""
    if ratings not in _rows:
        _rows[ratings] = _to_device(ratings.by_user)
    return _rows[ratings]


def columns_of(ratings: Ratings) -> DeviceRatings:
    """The ratings by item; copied at the first call, freed with `ratings`."""
    if ratings not in _columns:
        _columns[ratings] = _to_device(ratings.by_item)
    return _columns[ratings]


class Keys(NamedTuple):
    """Keys of users, uint64 (U,), and items, uint64 (I,), as in `Ratings`."""

    users: Any
    items: Any


_keys: weakref.WeakKeyDictionary[Ratings, Keys] = weakref.WeakKeyDictionary()


def keys_of(ratings: Ratings) -> Keys:
    """The keys of users and items; copied at the first call, freed with `ratings`."""
    if ratings not in _keys:
        _keys[ratings] = Keys(to_device(ratings.user_keys), to_device(ratings.item_keys))
    return _keys[ratings]


def _to_device(rows: Rows) -> DeviceRatings:
    return DeviceRatings(to_device(rows.starts), to_device(rows.lengths), to_device(rows.items), to_device(rows.values))
