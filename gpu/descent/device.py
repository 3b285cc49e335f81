"""Stochastic gradient descent on the device: tiles of users, the item side in registers; kernels/sgd.cu.

The default is fast, but the order of visits and the rounding differ from run to run. `params.deterministic` divides
users and items into a D × D grid of cells (the scheme of MCULSH-MF). One warp learns each cell, in the sub-steps of a
Latin square. This gives equal bits for equal seeds on equal devices, of any number, and is several times slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import WORKSPACE
from gpu.base.device import n_multiprocessors, shared_memory
from gpu.cuda.arrays import to_device
from gpu.cuda.kernels import kernel
from gpu.cuda.ratings import DeviceRatings, rows_of
from gpu.data.model import LEARNED, Model
from gpu.data.ratings import NO_MIDDLE, Ratings, are_likes
from gpu.data.views import Rates, Shares, balanced_bounds
from gpu.descent import device_neighbors as descent_neighbors
from gpu.descent.device_cells import Cells
from gpu.descent.device_layout import MOST_THREADS, WARP, DescentParameters, Geometry
from gpu.descent.device_tiles import Layout, Tiles, Tiling, deal, in_order, lay_out, segments_needed, tiling_of
from gpu.descent.params import SgdParams
from gpu.ranks.exchange import ALONE, Exchange
from gpu.training.loop import State

NAME = "sgd"
CONCURRENT_UPDATES = 0.5  # updates per item in flight besides one's own; lower is closer to sequential SGD, and slower
MOST_CELLS, CELL_RATINGS = 1024, 64  # D of the grid, at most; and the target number of ratings in a cell
STATIC_SHARED = 1024  # bytes, at most; shared memory of `learn_tiles` without the tile
N_SOME = 4096  # users whose factors stand for those of all
RATE_NAMES = "mean", "step", "shrink", "bias_step", "bias_shrink", "weight_step", "weight_decay", "low", "high"
RATES = np.dtype([(name, "<f4") for name in RATE_NAMES])
SAMPLES = np.dtype([("records", "<u8"), ("near", "<u8")])


@dataclass
class Visits:
    """Samples in tiles with their neighbor ratings: all inputs of one pass.

    Attributes:
        pairs: the samples by user.
        per_rating: samples of each rating; 0 if the samples are the ratings themselves.
        layout: the samples in tiles.
        near: neighbor residuals or masks of each sample; see `gpu.descent.device_neighbors`.
    """

    pairs: DeviceRatings
    per_rating: int
    layout: Layout
    near: Any

    @cached_property
    def n(self) -> int:
        """Samples."""
        return int(self.layout.tile_begin[-1]) if self.per_rating == 0 else int((self.layout.targets >= 0).sum())


class Descent:
    """One training on the device; see `gpu.descent.trainer.Descent`.

    Attributes:
        tiles: the users of each tile, once prepared.
        visits: the samples of the last epoch; without negatives, of every epoch.
    """

    tiles: Tiles
    visits: Visits

    def __init__(
        self,
        model: Model,
        params: SgdParams,
        ratings: Ratings,
        test: Ratings | None,
        exchange: Exchange = ALONE,
        geometry: Geometry | None = None,
    ) -> None:
        """Load the ratings. Several ranks need `params.deterministic`."""
        self._model, self._params, self._ratings, self._test, self._exchange = model, params, ratings, test, exchange
        self._n_negatives = params.n_absences
        self._n_samples = _n_samples(ratings, params)
        self._rows = rows_of(ratings)
        self._base = float(model.mean), to_device(model.user_baseline), to_device(model.item_baseline)
        self._tiling = _tiling(ratings, params)
        self._n_tiles = self._tiling.n_tiles
        most_groups = MOST_THREADS  # lane groups in flight; several tiles have no limit
        if self._n_tiles == 1:  # as many as `CONCURRENT_UPDATES` holds for
            counts = self._samples_of_items()
            most_groups = max(1, int(CONCURRENT_UPDATES * counts.sum() ** 2 / max(counts @ counts, 1)))
        self._geometry = geometry or Geometry.of(params, most_groups, model.middle > NO_MIDDLE)
        self._parameters = DescentParameters(model, self._geometry)
        self._item_bounds = balanced_bounds(ratings.by_item.lengths, self._n_tiles)
        self._cells = Cells(self._n_tiles, self._item_bounds, exchange)

    def compile(self) -> None:
        """Compile the kernels of all other methods, by training a model of two users."""
        params, like, n_items = self._params, self._model, self._model.n_items
        few = Ratings.from_coo(np.array([0, 1, 1]), np.array([0, 0, n_items - 1]), np.ones(3), (2, n_items))
        model = Model.zeros(params, 0.0, (0.0, 1.0), 2, n_items, calibration=like.calibration)
        rehearsal = Descent(model, params, few, None, geometry=self._geometry)
        rehearsal.prepare()
        rehearsal.learn(0, Rates.none())
        rehearsal.shrink(Shares(0.0, 0.0, 0.0))
        rehearsal.train_error()
        rehearsal.is_finite()
        rehearsal.fetch()

    def prepare(self) -> None:
        """Deal the users into tiles and lay their ratings out."""
        self.tiles = deal(self._rows.lengths, self._tiling)
        self._parameters.settle(self.tiles)
        # The share of its step that an update of each item takes: 1 / (1 + expected groups in flight).
        in_flight = self._n_blocks() * self._geometry.threads // self._geometry.lanes
        shares = 1 / (1 + in_flight / self._n_samples * self._samples_of_items())
        self._parameters.shares = to_device(shares.astype(np.float32))
        if self._params.n_absences:
            self._pairs, self._negatives = descent_neighbors.samples(self._rows, self._params.n_absences)
        else:
            self.visits = self._laid_out(self._rows, 0)

    def learn(self, epoch: int, rates: Rates, part: int = 0, n_parts: int = 1) -> None:
        """Part `part` of an epoch of [004] eq. 5, by default the whole; of `params.deterministic` there is one part."""
        if self._params.n_absences and part == 0:
            vars(self).pop("visits", None)  # frees the memory that the next ones take
            keys = self._params.seed, epoch, self._model.middle
            descent_neighbors.draw(self._rows, self._model.n_items, *keys, self._negatives)
            self.visits = self._laid_out(self._pairs, 1 + self._params.n_absences)
        salt, shifts = _drawn(self._params.seed, epoch, self.tiles.n_tiles)
        if self._params.deterministic:
            for shift in shifts:
                self._learn_cells(rates, salt, int(shift))
                self._cells.gather_items(int(shift), self.item_arrays())
        else:
            self._pass(self.visits, self._struct(rates), salt, None, part, n_parts)
        _drawn(self._params.seed, epoch + 1, self.tiles.n_tiles)  # while the device learns, for the next epoch

    def shrink(self, shares: Shares) -> None:
        """Pull parameters toward zero by these shares."""
        self._parameters.shrink(shares)

    def finish(self) -> None:
        """Wait for the device."""
        cupy.cuda.get_current_stream().synchronize()

    def complete(self) -> None:
        """Get the users of other ranks."""
        self._cells.gather_users(self.tiles.tile_users, (self._parameters.users, self._parameters.user_bias))

    def item_arrays(self) -> tuple[Any, ...]:
        """The learned arrays of items, `LEARNED_ITEMS`; changes to them count."""
        learned = self._parameters
        return learned.items, learned.item_bias, learned.explicit, learned.implicit

    def some_users(self) -> Any:
        """Factors of some users, float16 or float32 (n, F)."""
        return self._parameters.users[:N_SOME, : self._params.n_factors]

    def state(self) -> State:
        """The learned arrays."""
        model = self.fetch()
        return {name: getattr(model, name) for name in LEARNED}

    def restore(self, state: State) -> None:
        """Continue from `state`, once prepared."""
        for name in LEARNED:
            getattr(self._model, name)[...] = state[name]
        shares = self._parameters.shares
        self._parameters = DescentParameters(self._model, self._geometry)
        self._parameters.settle(self.tiles)
        self._parameters.shares = shares

    def fetch(self) -> Model:
        """The model with the present parameters."""
        self._parameters.fetch(self._model, self.tiles)
        return self._model

    def is_finite(self) -> bool:
        """Whether every learned parameter is, on all ranks."""
        return self._exchange.totals(not self._parameters.is_finite()) == (0,)

    def train_error(self) -> float:
        """RMSE of the training ratings; implicit: mean cross-entropy of the epoch's samples."""
        self.complete()
        mean = self._mean_loss(self.visits)
        return mean if self._geometry.is_implicit else float(np.sqrt(mean))

    def test_rmse(self) -> float:
        """RMSE of the test ratings, which must have been given."""
        self.complete()
        return float(np.sqrt(self._mean_loss(self._held_out)))

    @cached_property
    def _held_out(self) -> Visits:
        assert self._test is not None  # noqa: S101 - the caller's promise; this narrows the type
        return self._laid_out(rows_of(self._test), 0)

    def _samples_of_items(self) -> NDArray[np.float64]:
        n_likes = np.count_nonzero(are_likes(self._ratings.by_user.values, self._model.middle))
        drawn = self._n_negatives * n_likes / self._model.n_items
        return self._ratings.by_item.lengths.astype(np.float64) + drawn

    def _n_blocks(self) -> int:
        return min(self.tiles.n_tiles, n_multiprocessors())

    def _laid_out(self, pairs: DeviceRatings, per_rating: int) -> Visits:
        arguments = pairs, per_rating, self.tiles, self._model.n_items, self._model.middle
        layout = in_order(*arguments, self._item_bounds) if self._params.deterministic else lay_out(*arguments)
        neighbors, k, middle = self._parameters.neighbors, self._geometry.n_neighbors, self._model.middle
        if self._geometry.is_implicit and k:
            words = descent_neighbors.mask_words(k, self._geometry.has_dislikes)
            near = cupy.empty((len(pairs.entries), words), dtype=cupy.uint32)
            descent_neighbors.masks(self._rows, pairs, neighbors, layout.targets, near, middle)
        else:
            near = cupy.empty((len(pairs.entries), k), dtype=cupy.float16)
            if k:
                descent_neighbors.residuals(self._rows, pairs, neighbors, self._base, layout.targets, near)
        return Visits(pairs, per_rating, layout, near)

    def _struct(self, rates: Rates) -> Any:
        """`Rates` of the kernels, passed by value."""
        struct = np.zeros((), dtype=RATES)
        struct["mean"], struct["low"], struct["high"] = self._model.mean, *self._model.error_scale
        struct["step"], struct["bias_step"], struct["weight_step"] = rates.step, rates.bias_step, rates.weight_step
        struct["shrink"] = 1 - rates.step * rates.regularization
        struct["bias_shrink"] = 1 - rates.bias_step * rates.bias_regularization
        struct["weight_decay"] = rates.weight_step * rates.weight_regularization
        return struct.view(f"V{RATES.itemsize}")  # CuPy spells out the fields of a structure at each launch

    def _pass(
        self, visits: Visits, rates: Any, salt: np.uint32, losses: Any | None, part: int = 0, n_parts: int = 1
    ) -> None:
        """Visit the samples of a part: learn from them, or, given an array `losses`, only add up their losses."""
        at, layout, geometry = self.tiles, visits.layout, self._geometry
        shared = at.tile_users * geometry.row_bytes
        run = self._learner if losses is None else self._tile_kernel(learn=False)
        tiles = layout.tile_begin, np.int32(at.n_tiles), np.int32(at.tile_users)
        items, users = self._parameters.struct(), (self._parameters.users, self._parameters.user_bias)
        segments = layout.segments, layout.segment_begin, layout.n_segments
        which = salt, np.uint32(part), np.uint32(n_parts)
        arguments = *segments, *tiles, _samples(visits), items, *users, rates, *which, losses
        run((self._n_blocks(),), (geometry.threads,), arguments, shared_mem=shared)

    @cached_property
    def _learner(self) -> Any:
        return self._tile_kernel(learn=True)

    def _tile_kernel(self, *, learn: bool) -> Any:
        return kernel(NAME, "learn_tiles", self._geometry.macros(learn=learn), shared_memory() - STATIC_SHARED)

    def _learn_cells(self, rates: Rates, salt: np.uint32, shift: int) -> None:
        at, layout, own = self.tiles, self.visits.layout, self._cells.own
        first = own.start * at.tile_users
        run = kernel(NAME, "learn_cells", self._geometry.macros(learn=True))
        tiles = layout.tile_begin[own.start :], np.int32(at.n_tiles), np.int32(at.tile_users)
        items = self._parameters.struct()
        users = self._parameters.users[first:], self._parameters.user_bias[first:]
        segments = layout.segments, layout.cuts[own], np.int32(own.start + shift)
        arguments = *segments, *tiles, _samples(self.visits), items, *users, self._struct(rates), salt
        if own.stop > own.start:
            run((own.stop - own.start,), (WARP,), arguments)

    def _mean_loss(self, visits: Visits) -> float:
        losses = cupy.zeros(self._n_blocks(), dtype=cupy.float64)
        self._pass(visits, self._struct(Rates.none()), np.uint32(0), losses)
        return float(losses.sum()) / max(visits.n, 1)


def bytes_needed(ratings: Ratings, params: SgdParams) -> int:
    """Peak bytes of device memory that a training takes once neighbors are known.

    Ratings take 8 bytes each and 16 a user, and with neighbors as much again by item, plus the keys. A sample takes 18
    for item, position and record, its neighbor ratings, and 72 for a stable sort. A segment takes 16. Parameters of
    users are counted twice, as copied and in tiles. The rest is work space of sorts and sums.
    """
    geometry, n_users, n_items = Geometry.of(params), ratings.n_users, ratings.n_items
    n = _n_samples(ratings, params)
    sample_bytes = 18 + geometry.near_bytes + 72 * params.deterministic
    tiling = _tiling(ratings, params)
    segments = 16 * segments_needed(n, tiling.n_tiles, n_items)
    users = tiling.n_tiles * tiling.tile_users * geometry.row_bytes + n_users * (4 * geometry.n_factors + 64)
    items = n_items * (4 * geometry.n_factors + 16 * geometry.n_neighbors + 16)
    by_item = 8 * len(ratings) + 24 * (n_users + n_items) if geometry.n_neighbors else 0
    return 8 * len(ratings) + by_item + n * sample_bytes + segments + users + items + WORKSPACE


def _tiling(ratings: Ratings, params: SgdParams) -> Tiling:
    n = _n_samples(ratings, params)
    if params.deterministic:
        n_cells = min(MOST_CELLS, int(np.sqrt(n / CELL_RATINGS)), ratings.n_users, ratings.n_items)
        return Tiling.even(ratings.n_users, max(1, n_cells))
    room = (shared_memory() - STATIC_SHARED) // Geometry.of(params).row_bytes
    return tiling_of(ratings.by_user.lengths, n, room, n_multiprocessors())


@lru_cache(maxsize=2)
def _drawn(seed: int, epoch: int, n_tiles: int) -> tuple[np.uint32, NDArray[np.int64]]:
    """Random numbers of an epoch: a salt, and the order of sub-steps."""
    generator = np.random.default_rng((seed, epoch))
    return np.uint32(generator.integers(2**32, dtype=np.uint64)), generator.permutation(n_tiles)


def _n_samples(ratings: Ratings, params: SgdParams) -> int:
    return len(ratings) * (1 + params.n_absences)


def _samples(visits: Visits) -> Any:
    """`Samples` of the kernels, passed by value."""
    struct = np.zeros((), dtype=SAMPLES)
    struct["records"], struct["near"] = visits.layout.records.data.ptr, visits.near.data.ptr
    return struct.view(f"V{SAMPLES.itemsize}")
