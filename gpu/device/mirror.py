"""`MirroredModel`: twin of `gpu.online.OnlineModel` that learns on the device; the host's model follows.

A `LiveModel` keeps ratings and parameters there. What has changed waits, and is learned in batches, each as large as it
has become by then. Rows that a batch has refitted come back in one copy: into the model on the host, from which users
are ranked and everything else is answered, and from there, items, into the index.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu import topn
from gpu.backend import Backend
from gpu.device.kernels import kernel
from gpu.device.live import LiveModel
from gpu.device.parameters import Parameters
from gpu.device.structures import structure
from gpu.device.upload import uploaded
from gpu.drift import AsTrained
from gpu.item_index import ItemIndex
from gpu.model import Model
from gpu.online import folded_in
from gpu.params import CulshImplicitParams, GradientParams, Params
from gpu.prolific import Prolific
from gpu.sampled import SampledRefits
from gpu.table import Changes, RatingTable

NAME, THREADS, WARP, MOST_COLUMNS = "mirror", 256, 32, 5  # as kernels/mirror.cu has them
OF_USERS = "user_factors", "user_bias", "user_baseline"
OF_ITEMS = "item_factors", "item_bias", "neighbours", "explicit_weights", "implicit_weights"

# What a batch has at most, so that it takes some milliseconds: 10,000 changes of users with 800,000 ratings take 2.4 ms
# on an H100 with 64 factors. Samples are ratings and what is drawn beside them.
CHANGES_AT_ONCE, SAMPLES_AT_ONCE, USERS_AT_ONCE = 8192, 1 << 20, 8192
NOBODY = np.zeros(0, dtype=np.int64)
_END = object()
_rehearsed: set[tuple[Params, int]] = set()


class Placed:
    """A model on the device, and beside it what it needs of the host, before it follows any ratings."""

    def __init__(
        self,
        model: Model,
        table: RatingTable,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        backend: Backend,
        *,
        is_rehearsed: bool = True,
    ) -> None:
        """Copy what does not depend on ratings; see `gpu.follower.place`.

        Args:
            is_rehearsed: whether a small model of the same shape is made to learn first, unless one has already: that
                compiles the kernels.
        """
        assert isinstance(model.params, GradientParams)  # noqa: S101 - `gpu.follower` sees to it; this narrows the type
        if is_rehearsed and _shape_of(model) not in _rehearsed:
            rehearse(model, backend)
            _rehearsed.add(_shape_of(model))
        self.model, self.table = model, table
        self.index = ItemIndex(model, backend)
        self.parameters = Parameters(model, user_keys[: model.n_users], item_keys[: model.n_items])
        self.refits = SampledRefits(
            model, model.params, table, AsTrained(model), Prolific(model, table), user_keys, item_keys, backend
        )
        for _ in self.refits.prepare():
            pass

    def follow(
        self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64], since: int | None = None
    ) -> MirroredModel:
        """The model, from now on told of every change; trained items stay as they are."""
        del since
        return MirroredModel(self, user_keys, item_keys)


class MirroredModel:
    """A model on the device in the rows of a table on the host, kept up with it; see `gpu.follower.Follower`.

    Its ratings are copied in the first slices of `settle`, while changes already wait behind them: they say what is,
    not what differs, so it harms nobody that some are learned twice.
    """

    gram: NDArray[np.float64] | None = None
    n_waiting = 0

    def __init__(self, placed: Placed, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        self.model, self.index, self._table = placed.model, placed.index, placed.table
        self._refits = placed.refits
        self._waiting: deque[Changes | int] = deque()  # changes, and users to be forgotten after them
        self.grow(user_keys, item_keys)
        self._touched = np.flatnonzero(~self.model.user_trained & (self._table.rows.lengths > 0))
        self._live: LiveModel | None = None
        self._loading: Iterator[None] | None = self._load(placed.parameters)

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Follow the growth of the table; the device does before the next batch."""
        self._user_keys, self._item_keys = user_keys, item_keys
        self._refits.grow(user_keys, item_keys)
        known = self.model.n_items
        if (self._table.n_users, self._table.n_items) != (self.model.n_users, known):
            self.model.grow(self._table.n_users, self._table.n_items)
        if self.model.n_items > known:
            self.index.refresh(NOBODY)

    def touch(self, users: NDArray[np.integer]) -> None:
        """Mark users whose ratings are not those the snapshot was trained on."""
        self._touched = np.union1d(self._touched, users)

    def note(self, changes: Changes) -> None:
        """Let changes of the table wait to be learned."""
        if len(changes.users):
            self._waiting.append(changes)

    def forget(self, user: int, items: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Make a user as if never seen: here at once, on the device after all that waits."""
        del items, values
        self._waiting.append(int(user))
        self._touched = self._touched[self._touched != user]
        self._drop(user)

    def settle(self, budget_s: float | None = None) -> bool:
        """Learn what waits, in batches of a few milliseconds; as of `OnlineModel`."""
        deadline = np.inf if budget_s is None else time.perf_counter() + budget_s
        while self._step():
            if time.perf_counter() >= deadline:
                break
        return self._loading is None and not len(self._touched) and not self._waiting

    def catch_up(self, budget_s: float | None = None) -> bool:
        """As of `OnlineModel`; there is nothing to do, because trained items stay."""
        del budget_s
        return True

    def fold_in(self, items: NDArray[np.integer], values: NDArray[np.floating]) -> topn.Users:
        """As of `OnlineModel`: computed on the host, from the mirror."""
        return folded_in(self._refits, items, values)

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """As of `OnlineModel`, of the signatures that lie on the device."""
        if self._live is None or max(item, *others.tolist(), 0) >= self._live.parameters.n_items:
            return np.zeros(len(others), dtype=np.float32)
        return self._live.agreement(item, others)

    def _load(self, parameters: Parameters) -> Generator[None, None, None]:
        """Bring the ratings to the device and refit the new items; users follow."""
        table = yield from uploaded(self._table, self.model.learned_scale)
        n_users, n_items = parameters.n_users, parameters.n_items
        parameters.grow(self._user_keys[n_users : table.n_users], self._item_keys[n_items : table.n_items])
        live = yield from LiveModel.of(self.model, parameters, table, self._refits.user_rules)
        yield
        live.touch(NOBODY)
        self._live = live
        self._take_over(live)

    def _step(self) -> bool:
        """Do one slice of what has begun or waits; false where nothing did."""
        if self._loading is not None:
            if next(self._loading, _END) is _END:
                self._loading = None
            cupy.cuda.get_current_stream().synchronize()  # else a request would wait behind several slices
            return True
        assert self._live is not None  # noqa: S101 - it is there once it is loaded; this narrows the type
        if not len(self._touched) and not self._waiting:
            return False
        self._learn(self._live)
        return True

    def _learn(self, live: LiveModel) -> None:
        """Learn what comes next, at most a batch of it."""
        parameters, table = live.parameters, self._table
        if (parameters.n_users, parameters.n_items) != (table.n_users, table.n_items):
            live.grow(
                self._user_keys[parameters.n_users : table.n_users],
                self._item_keys[parameters.n_items : table.n_items],
            )
        if len(self._touched):
            n = self._n_fitting(self._touched[:USERS_AT_ONCE])
            users, self._touched = self._touched[:n], self._touched[n:]
            live.touch(users)
        elif isinstance(self._waiting[0], int):
            user = self._waiting.popleft()
            assert isinstance(user, int)  # noqa: S101 - as just seen; this narrows the type
            live.forget(user)
            self._drop(user)
        else:
            batch = self._next_batch(min(CHANGES_AT_ONCE, live.most_changes or CHANGES_AT_ONCE))
            learned = np.clip(batch.new, *self.model.learned_scale).astype(np.float32, copy=False)  # NaN stays: deleted
            live.apply(batch.users, batch.items, learned, batch.positions)
        self._take_over(live)

    def _next_batch(self, most: int) -> Changes:
        """All changes that wait in a row, or as many as may be learned at once, `most` of them."""
        parts: list[Changes] = []
        while self._waiting and not isinstance(self._waiting[0], int) and _length(parts) < most:
            part = self._waiting.popleft()
            assert not isinstance(part, int)  # noqa: S101 - as above
            parts.append(part)
        batch = Changes.joined(parts)
        n = self._n_fitting(batch.users[:most])
        if n < len(batch.users):
            self._waiting.appendleft(batch.part(slice(n, None)))
        return batch.part(slice(n))

    def _n_fitting(self, users: NDArray[np.integer]) -> int:
        """How many of `users`, who may occur several times, are refitted at once; one at least."""
        _, firsts = np.unique(users, return_index=True)
        params, samples = self.model.params, np.zeros(len(users), dtype=np.int64)
        samples[firsts] = self._table.rows.lengths[users[firsts]]
        if isinstance(params, CulshImplicitParams):
            samples *= 1 + params.n_negatives
        return min(len(users), 1 + int(np.searchsorted(np.cumsum(samples), SAMPLES_AT_ONCE)))

    def _take_over(self, live: LiveModel) -> None:
        """Bring what was refitted to the host's model and the index; waits for it."""
        users, items = live.refitted
        arrays = (
            [getattr(live.parameters, name) for name in OF_USERS],
            [getattr(live.parameters, name) for name in OF_ITEMS],
        )
        widths = [1 + sum(map(_width, side)) for side in arrays]
        ends = np.cumsum([len(users) * widths[0], len(items) * widths[1]]).tolist()
        out = cupy.empty(ends[1], dtype=cupy.int32)
        _pack(arrays[0], users, widths[0], out[: ends[0]])
        _pack(arrays[1], items, widths[1], out[ends[0] :])
        found: NDArray[np.int32] = out.get()
        self._store(OF_USERS, found[: ends[0]].reshape(-1, widths[0]))
        changed = self._store(OF_ITEMS, found[ends[0] :].reshape(-1, widths[1]))
        if len(changed):
            self.model.item_counts[changed] = self._table.item_counts[changed]  # what still waits refits them again
            self.index.refresh(changed)

    def _store(self, names: tuple[str, ...], found: NDArray[np.int32]) -> NDArray[np.int64]:
        """Write rows, as kernels/mirror.cu lays them out, into the model; returns which."""
        rows, at = found[:, 0].astype(np.int64), 1
        for name in names:
            array = getattr(self.model, name)
            width = _width(array)
            array[rows] = found[:, at : at + width].view(array.dtype).reshape(len(rows), *array.shape[1:])
            at += width
        return rows

    def _drop(self, user: int) -> None:
        for name in (*OF_USERS, "user_trained"):
            getattr(self.model, name)[user] = 0


def rehearse(model: Model, backend: Backend) -> None:
    """Compile, or load from CuPy's cache, all that models of this shape call, by letting a small one learn."""
    small = Model.zeros(model.params, model.mean, model.scale, 2, 2, n_bits=model.projections.shape[1])
    small.user_trained[:], small.item_trained[:] = True, True
    keys, table = np.arange(3, dtype=np.uint64), RatingTable(2, 2)
    columns = np.array([0, 1]), np.array([0, 1]), np.ones(2, dtype=np.float32)
    table.apply(*columns, np.zeros(2), np.arange(2))
    follower = Placed(small, table, keys, keys, backend, is_rehearsed=False).follow(keys, keys)
    follower.settle()
    table.grow(3, 3)
    follower.grow(keys, keys)
    columns = np.array([0, 2]), np.array([2, 2]), np.ones(2, dtype=np.float32)
    follower.note(table.apply(*columns, np.zeros(2), np.arange(2, 4)))
    follower.touch(np.array([0]))
    follower.settle()
    follower.agreement(2, np.array([0]))
    follower.forget(2, *table.drop_user(2))
    follower.settle()


def _shape_of(model: Model) -> tuple[Params, int]:
    """What kernels are compiled for, and more."""
    return model.params, model.projections.shape[1]


def _pack(arrays: list[Any], rows: Any, width: int, out: Any) -> None:
    if not len(rows):
        return
    n_unused = MOST_COLUMNS - len(arrays)
    widths = [np.int32(_width(array)) for array in arrays] + [np.int32(0)] * (n_unused + 1)
    columns = structure(*arrays, *[np.uint64(0)] * n_unused, *widths)
    arguments = columns, rows, np.int32(rows.dtype.itemsize == 8), np.int32(len(rows)), np.int32(width), out
    kernel(NAME, "pack_rows", {})((-(-len(rows) * WARP // THREADS),), (THREADS,), arguments)


def _width(array: Any) -> int:
    return int(array.shape[1]) if array.ndim > 1 else 1


def _length(parts: list[Changes]) -> int:
    return sum(len(part.users) for part in parts)
