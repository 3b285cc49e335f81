"""Parameters of a model and the working arrays of online learning, in device memory."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.arrays import to_device
from gpu.cuda.growing import Counting, Growing
from gpu.cuda.structures import structure
from gpu.data.model import ARRAYS, HOST_ONLY, NO_NEIGHBOR, Model

FILLED = ("neighbors",)  # with `NO_NEIGHBOR`
NAMES = tuple(name for name in ARRAYS if name not in HOST_ONLY)


class LiveParameters:
    """The arrays `NAMES` of `gpu.data.model.ARRAYS` on the device, each with room to grow.

    Attributes:
        mean, middle, lift, is_implicit: as in `Model`.
        user_keys, item_keys: uint64, keys of all rows.
        pool, pool_keys: trained users sorted by key, int64, and their keys, uint64.
        item_pool: trained items sorted by key, int64.
        new_items: int64, items newer than the snapshot, ascending.
        is_touched: uint8 (U,), users refitted in this batch; all 0 between batches.
        is_due: uint8 (I,), items to refit in this batch; all 0 between batches.
    """

    user_factors: Any
    item_factors: Any
    user_bias: Any
    item_bias: Any
    user_baseline: Any
    item_baseline: Any
    user_trained: Any
    item_trained: Any
    neighbors: Any
    explicit_weights: Any
    implicit_weights: Any
    projections: Any
    user_keys: Any
    item_keys: Any
    is_touched: Any
    is_due: Any

    def __init__(self, model: Model, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Copy `model` to the device, with the keys of all its rows."""
        self.mean, self.middle, self.lift, self.is_implicit = model.mean, model.middle, model.lift, model.is_implicit
        arrays = {name: (ARRAYS[name][0][0], to_device(getattr(model, name))) for name in NAMES}
        arrays |= {"user_keys": ("U", to_device(user_keys)), "item_keys": ("I", to_device(item_keys))}
        arrays["is_touched"] = ("U", cupy.zeros(model.n_users, dtype=cupy.uint8))
        arrays["is_due"] = ("I", cupy.zeros(model.n_items, dtype=cupy.uint8))
        self._growing = {
            name: (axis, Growing(array, NO_NEIGHBOR if name in FILLED else 0)) for name, (axis, array) in arrays.items()
        }
        self.pool, self.pool_keys = _by_key(model.user_trained, user_keys)
        self.item_pool, _ = _by_key(model.item_trained, item_keys)
        self._new_items = Counting(to_device(np.flatnonzero(~model.item_trained)), model.n_items)

    def __getattr__(self, name: str) -> Any:
        """The array `name` at its present length."""
        try:
            return self.__dict__["_growing"][name][1].values
        except KeyError:
            raise AttributeError(name) from None

    @property
    def n_users(self) -> int:
        """U."""
        return len(self._growing["user_bias"][1])

    @property
    def n_items(self) -> int:
        """I."""
        return len(self._growing["item_bias"][1])

    @property
    def new_items(self) -> Any:
        """Items newer than the snapshot, ascending."""
        return self._new_items.values

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Append untrained rows with these keys: zeros, and no neighbors."""
        n_users, n_items = self.n_users, self.n_items
        sizes = {"U": n_users + len(user_keys), "I": n_items + len(item_keys)}
        for axis, growing in self._growing.values():
            growing.grow(sizes[axis])
        self._new_items.grow(len(self._new_items) + len(item_keys))
        if len(user_keys):
            self.user_keys[n_users:].set(user_keys)
        if len(item_keys):
            self.item_keys[n_items:].set(item_keys)

    def drop_user(self, user: int) -> None:
        """Erase a user, as if never seen, and remove the user from the pool of negatives."""
        for array in (self.user_factors, self.user_bias, self.user_baseline, self.user_trained):
            array[user] = 0
        key = self.user_keys[user : user + 1]
        first, last = (int(cupy.searchsorted(self.pool_keys, key, side=side)[0]) for side in ("left", "right"))
        for position in (first + np.flatnonzero(self.pool[first:last].get() == user)).tolist():
            self.pool, self.pool_keys = _without(self.pool, position), _without(self.pool_keys, position)

    @property
    def items_side(self) -> Any:
        """`Items` of kernels/refit_users.cu."""
        names = "item_factors", "item_bias", "item_baseline", "explicit_weights", "implicit_weights", "neighbors"
        arrays, sizes = self._arrays(*names, "item_trained", "item_keys"), (self.n_items, len(self.item_pool))
        return structure(*arrays, self.item_pool, *map(np.int64, sizes), *self._numbers)

    @property
    def refitted(self) -> Any:
        """`Users` of kernels/refit_users.cu."""
        names = "user_keys", "user_factors", "user_bias", "user_baseline", "is_touched", "is_due"
        return structure(*self._arrays(*names))

    @property
    def users_side(self) -> Any:
        """`Users` of kernels/refit_items.cu."""
        arrays = self._arrays("user_factors", "user_bias", "user_baseline", "user_keys")
        return structure(*arrays, self.pool, self.pool_keys, np.int64(len(self.pool)), *self._numbers)

    def new_items_side(self, due: Any) -> tuple[Any, ...]:
        """The first fields of `Items` of kernels/refit_items.cu, for the new items at the positions `due`."""
        names = "item_keys", "item_baseline", "neighbors", "item_factors", "item_bias"
        return self._new_items, due, *self._arrays(*names, "explicit_weights", "implicit_weights")

    @property
    def _numbers(self) -> tuple[Any, ...]:
        """The last fields of `Items` and `Users`: μ, the middle, the lift, and padding."""
        return np.float32(self.mean), np.float32(self.middle), np.float32(self.lift), np.int32(0)

    def _arrays(self, *names: str) -> list[Growing]:
        return [self._growing[name][1] for name in names]


def _without(array: Any, position: int) -> Any:
    """The array without one element, by copies: a selection would run kernels that CuPy chooses by the length."""
    rest = cupy.empty(len(array) - 1, dtype=array.dtype)
    rest[:position], rest[position:] = array[:position], array[position + 1 :]
    return rest


def _by_key(mask: NDArray[np.bool_], keys: NDArray[np.uint64]) -> tuple[Any, Any]:
    """(rows where `mask` holds, sorted by key; their keys)."""
    rows = np.flatnonzero(mask)
    rows = rows[np.argsort(keys[rows], kind="stable")]
    return to_device(rows), to_device(keys[rows])
