"""`ReadyDeviceModel`: a model on the device before it follows ratings: their copy, and a rehearsal of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import Backend
from gpu.cuda.arrays import to_device
from gpu.cuda.growing import Growing
from gpu.data.model import Model
from gpu.data.param_kinds import Params, descending
from gpu.data.rating_table import RatingTable
from gpu.data.ratings import Rows
from gpu.online.device.learner import DeviceLearner
from gpu.online.device.parameters import LiveParameters
from gpu.online.device.rating_table import RatingTable as DeviceTable
from gpu.online.drift import AsTrained
from gpu.online.mirror import NOBODY, DeviceModel
from gpu.online.priors import Priors
from gpu.online.prolific import Prolific
from gpu.online.protocols import Keys
from gpu.online.sampled import SampledRefits
from gpu.ranking.item_index import ItemIndex

RATINGS_AT_ONCE, USERS_AT_ONCE = 100_000, 100_000  # ratings, and users, copied in a slice of about two milliseconds
COLUMNS = np.int32, np.float32, np.int64  # items, values, positions

_rehearsed: set[tuple[Params, int]] = set()


class ReadyDeviceModel:
    """A model on the device and its data on the host, before it follows any ratings; see `gpu.online.mirror`."""

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
        """Copy everything that does not depend on ratings; see `gpu.online.prepare_online`.

        Args:
            is_rehearsed: whether a small model of the same shape learns first, once a process, to compile the kernels.
        """
        if is_rehearsed:
            rehearse_once(model, backend)
        self.model, self.table = model, table
        self.index = ItemIndex(model, backend)
        self.as_trained = AsTrained(model)
        self.refits = SampledRefits(
            model,
            descending(model.params),
            table,
            self.as_trained,
            Prolific(model, table),
            user_keys,
            item_keys,
        )
        for _ in self.refits.prepare():
            pass
        self._parameters = LiveParameters(model, user_keys[: model.n_users], item_keys[: model.n_items])

    def follow(
        self,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        since: int | None = None,
        priors: Priors | None = None,
    ) -> DeviceModel:
        """See `gpu.online.ReadyModel.follow`."""
        del priors  # only models of ALS read them
        return DeviceModel(self, user_keys, item_keys, since)

    def load(self, keys: Callable[[], Keys]) -> Generator[None, None, DeviceLearner]:
        """See `gpu.online.protocols.ReadyDeviceModel.load`."""
        parameters = self._parameters
        table = yield from uploaded(self.table, self.model.learned_scale)
        (user_keys, item_keys), n_users, n_items = keys(), parameters.n_users, parameters.n_items
        parameters.grow(user_keys[n_users : table.n_users], item_keys[n_items : table.n_items])
        live = yield from DeviceLearner.of(self.model, parameters, table, self.refits.user_rules)
        yield
        live.touch(NOBODY)
        return live

    def finish(self) -> None:
        """Wait until the device is idle."""
        cupy.cuda.get_current_stream().synchronize()


def uploaded(table: RatingTable, scale: tuple[float, float]) -> Generator[None, None, DeviceTable]:
    """A device copy of `table`, in slices of some milliseconds, between which the table may grow and change.

    Ratings are clipped to `scale` (`Model.learned_scale`). The copy has each user's ratings from the time of the slice
    that read them. The caller then replays all changes since the first slice, in order, to reach the table's state.
    """
    n_users, n_ratings, n_expected = 0, 0, table.n_ratings
    columns = [Growing(cupy.zeros(n_expected, dtype=kind)) for kind in COLUMNS]
    lengths = Growing(cupy.zeros(table.n_users, dtype=cupy.int64))
    while n_users < table.n_users:
        counts = table.rows.lengths[n_users : n_users + USERS_AT_ONCE]
        counts = counts[: 1 + int(np.searchsorted(np.cumsum(counts), RATINGS_AT_ONCE))]
        starts, _, items, values = table.rows
        begins = starts[n_users : n_users + len(counts)] - np.cumsum(counts) + counts
        places = np.repeat(begins, counts) + np.arange(counts.sum())
        learned = np.clip(values[places], *scale).astype(np.float32, copy=False)
        for column, part in zip(columns, (items[places], learned, table.positions[places]), strict=True):
            _append(column, n_ratings, part)
        _append(lengths, n_users, counts)
        n_users, n_ratings = n_users + len(counts), n_ratings + len(places)
        yield
    items, values, positions = (column.values[:n_ratings] for column in columns)
    all_lengths = lengths.values[:n_users]
    rows = Rows(cupy.cumsum(all_lengths) - all_lengths, all_lengths, items, values)
    return (yield from DeviceTable.of(rows, positions, table.n_items))


def _append(to: Growing, held: int, values: NDArray[Any]) -> None:
    """Write `values` behind the first `held` entries, by copies, which need no compiled kernel."""
    to.grow(held + len(values))
    to.values[held : held + len(values)] = to_device(values)


def rehearse_once(model: Model, backend: Backend) -> None:
    """`rehearse`, if no model of this shape has been rehearsed in this process."""
    shape = model.params, model.projections.shape[1]  # it may tell models apart that share kernels
    if shape not in _rehearsed:
        rehearse(model, backend)
        _rehearsed.add(shape)


def rehearse(model: Model, backend: Backend) -> None:
    """Let a small model learn, to compile or load from CuPy's cache all kernels that models of this shape call."""
    small = Model.zeros(model.params, model.mean, model.scale, 2, 2, n_bits=model.projections.shape[1])
    small.user_trained[:], small.item_trained[:] = True, True
    keys, table = np.arange(3, dtype=np.uint64), RatingTable(2, 2)
    columns = np.array([0, 1]), np.array([0, 1]), np.ones(2, dtype=np.float32)
    table.apply(*columns, np.zeros(2), np.arange(2))
    online_model = ReadyDeviceModel(small, table, keys, keys, backend, is_rehearsed=False).follow(keys, keys, since=0)
    online_model.settle()  # both ratings are newer than the model: the items learn
    table.grow(3, 3)
    online_model.grow(keys, keys)
    columns = np.array([0, 2]), np.array([2, 2]), np.ones(2, dtype=np.float32)
    online_model.note(table.apply(*columns, np.zeros(2), np.arange(2, 4)))
    online_model.touch(np.array([0]))
    online_model.settle()
    online_model.agreement(2, np.array([0]))
    online_model.forget(2, *table.drop_user(2))
    online_model.settle()
