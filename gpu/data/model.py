"""`Model`: the named arrays of one trained model. It holds parameters only: no ids, no ratings, no behavior.

Arrays live in buffers that may be longer than the model, so that new users and items cost no copy (`gpu.base.growing`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import InvalidInput
from gpu.base.growing import Growing
from gpu.data.param_kinds import Params
from gpu.data.signals import NEUTRAL, Calibration

NO_NEIGHBOR = NO_SLOT = -1
Index = slice | NDArray[Any]
MAX_WEIGHTED = 20_000  # items with weights: a model of 1.6 GB, some minutes of training on a few cores
MAX_WEIGHTED_ON_DEVICE = 100_000  # the same where a device has trained it: 40 GB, some minutes there

# name -> (axes, dtype). U users, I items, F factors, K neighbors, H hash bits, T items with weights, L listed items.
ARRAYS: dict[str, tuple[str, type[np.generic]]] = {
    "user_factors": ("UF", np.float32),
    "item_factors": ("IF", np.float32),
    "user_bias": ("U", np.float32),
    "item_bias": ("I", np.float32),
    "user_baseline": ("U", np.float32),
    "item_baseline": ("I", np.float32),
    "user_trained": ("U", np.bool_),
    "item_trained": ("I", np.bool_),
    "neighbors": ("IK", np.int32),
    "explicit_weights": ("IK", np.float32),
    "implicit_weights": ("IK", np.float32),
    "projections": ("IH", np.int32),
    "item_counts": ("I", np.int32),
    "item_slots": ("I", np.int32),
    "item_weights": ("TT", np.float32),
    "listed": ("IL", np.int32),
    "listed_weights": ("IL", np.float32),
}
LEARNED_USERS = "user_factors", "user_bias"  # what descent learns
LEARNED_ITEMS = "item_factors", "item_bias", "explicit_weights", "implicit_weights"
LEARNED = LEARNED_USERS + LEARNED_ITEMS
HOST_ONLY = "item_counts", "item_slots", "item_weights", "listed", "listed_weights"  # arrays that no device reads


class Model:
    """One model: `r̂ = mean + user_bias + item_bias + neighbor terms + user_factors · item_factors` ([004] eq. 1).

    Attributes:
        params: hyperparameters it was trained with; `params.algorithm` names it.
        mean: μ; for implicit models the fixed logit of the positive rate.
        scale: (smallest, largest) training rating; estimates are clipped to it. (0, 1) for implicit models.
        calibration: figures of the training data (`gpu.data.calibration`).
        user_factors (U, F), item_factors (I, F), user_bias (U,), item_bias (I,): float32, learned.
        user_baseline (U,), item_baseline (I,): float32, the fixed baselines inside the neighbor residuals
            r − (mean + user_baseline + item_baseline); 0 for rows unknown at training.
        user_trained (U,), item_trained (I,): bool, whether the row took part in training (false: newer, folded in).
        neighbors (I, K): int32 item rows, best first, padded with `NO_NEIGHBOR`.
        explicit_weights, implicit_weights (I, K): float32, W and C.
        projections (I, H): int32, saved sums of simLSH in fixed point; their signs are the signature.
            H = 0 for models without hashing.
        item_counts (I,): int32, ratings of each item in training, or present ratings of newer items. All 0 in snapshots
            of versions without counts.
        item_slots (I,): int32, the row of each item in `item_weights`; `NO_SLOT` for items without weights.
        item_weights (T, T): float32, the weight of a rating of the row's item in the score of the column's item
            (`gpu.ranking.weighted`). T = 0 for models without item weights. Never changed: if items move, only
            `item_slots` changes.
        listed (I, L): int32, the items whose scores a rating of the row's item changes, in no order, padded with
            `NO_NEIGHBOR` (`gpu.hashing.host_cooccurrence`). L = 0 for models without such lists.
        listed_weights (I, L): float32, by how much.
    """

    user_factors: NDArray[np.float32]
    item_factors: NDArray[np.float32]
    user_bias: NDArray[np.float32]
    item_bias: NDArray[np.float32]
    user_baseline: NDArray[np.float32]
    item_baseline: NDArray[np.float32]
    user_trained: NDArray[np.bool_]
    item_trained: NDArray[np.bool_]
    neighbors: NDArray[np.int32]
    explicit_weights: NDArray[np.float32]
    implicit_weights: NDArray[np.float32]
    projections: NDArray[np.int32]
    item_counts: NDArray[np.int32]
    item_slots: NDArray[np.int32]
    item_weights: NDArray[np.float32]
    listed: NDArray[np.int32]
    listed_weights: NDArray[np.float32]

    def __init__(
        self,
        params: Params,
        mean: float,
        scale: tuple[float, float],
        arrays: dict[str, NDArray[Any]],
        calibration: Calibration = NEUTRAL,
    ) -> None:
        """Take over `arrays`, one per name of `ARRAYS`, without copying.

        Raises:
            InvalidInput: an array is missing, unknown, or of the wrong dtype or shape.
        """
        if arrays.keys() != ARRAYS.keys():
            raise InvalidInput(f"Invalid arrays of model: expected {sorted(ARRAYS)}, got {sorted(arrays)}")
        sizes: dict[str, int] = {}
        for name, (axes, dtype) in ARRAYS.items():
            array = arrays[name]
            if array.dtype != dtype or array.ndim != len(axes):
                given = f"{array.dtype} {array.shape}"
                raise InvalidInput(f"Invalid {name}: expected {dtype.__name__} ({axes}), got {given}")
            for axis, size in zip(axes, array.shape, strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise InvalidInput(f"Invalid shape of {name}: expected {axis} = {sizes[axis]}, got {array.shape}")
        self.params, self.mean, self.scale = params, float(mean), (float(scale[0]), float(scale[1]))
        self.calibration = calibration
        self._adopt({name: Growing(array, _fill(name)) for name, array in arrays.items()})

    @classmethod
    def zeros(
        cls,
        params: Params,
        mean: float,
        scale: tuple[float, float],
        n_users: int,
        n_items: int,
        n_bits: int = 0,
        calibration: Calibration = NEUTRAL,
    ) -> Model:
        """A model of zeros, without neighbors and trained rows."""
        shapes = _shapes(params, n_users, n_items, n_bits)
        arrays = {name: np.full(shapes[name], _fill(name), dtype=dtype) for name, (_, dtype) in ARRAYS.items()}
        return cls(params, mean, scale, arrays, calibration)

    @property
    def n_users(self) -> int:
        """U."""
        return len(self.user_bias)

    @property
    def n_items(self) -> int:
        """I."""
        return len(self.item_bias)

    @property
    def is_implicit(self) -> bool:
        """Whether it learned which pairs have a rating, rather than the ratings."""
        return self.params.is_implicit

    @property
    def middle(self) -> float:
        """For implicit models ratings below it are dislikes, and all others are likes."""
        return self.calibration.middle

    @property
    def lift(self) -> float:
        """See `Calibration.lift`."""
        return self.calibration.lift

    @property
    def error_scale(self) -> tuple[float, float]:
        """(lowest, highest) estimate of a rating when an error is taken; without calibration none is clipped."""
        return self.scale if self.params.is_calibrated else (-math.inf, math.inf)

    @property
    def learned_scale(self) -> tuple[float, float]:
        """(lowest, highest) rating that the model learns online; ratings beyond are clipped.

        Without it a single absurd rating would decide the parameters of its user and its item, and so the lists of
        other users. Implicit models have their own bounds (`gpu.data.calibration.signals`). Models from versions
        without calibration have none.
        """
        is_bounded = not self.is_implicit and self.calibration.values == "ratings"
        return self.scale if is_bounded else (-math.inf, math.inf)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every named array at its present length."""
        return {name: getattr(self, name) for name in ARRAYS}

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays at their present length."""
        return sum(buffer.n_bytes for buffer in self._buffers.values())

    def mark_trained(self, user_counts: NDArray[np.integer], item_counts: NDArray[np.integer]) -> None:
        """Mark the rows with ratings, by their counts (U,) and (I,), as trained, and store the counts of the items."""
        self.user_trained[:], self.item_trained[:] = user_counts > 0, item_counts > 0
        self.item_counts[:] = item_counts

    def to_ratings(self, calibration: Calibration, scale: tuple[float, float]) -> None:
        """Convert a model of ratings in multiples of `calibration.unit` to one of the ratings themselves, in place.

        `scale` is that of the ratings: computed from the model's scale, its ends would have rounding errors.

        Biases and the weights C of unrated neighbors are multiplied by the unit, factors of both sides by its root;
        the weights W multiply residuals and stay.
        """
        self.calibration, self.mean, self.scale = calibration, self.mean * calibration.unit, scale
        powers = dict.fromkeys(("user_factors", "item_factors"), 0.5)
        names = "user_bias", "item_bias", "user_baseline", "item_baseline", "implicit_weights"
        for name, power in (powers | dict.fromkeys(names, 1.0)).items():
            getattr(self, name)[:] *= np.float32(calibration.unit**power)

    def grow(self, n_users: int, n_items: int) -> None:
        """Grow to at least (n_users, n_items); new rows are zero, without neighbors and not trained."""
        lengths = {"U": n_users, "I": n_items, "T": 0}
        for name, (axes, _) in ARRAYS.items():
            self._buffers[name].grow(lengths[axes[0]])
        self._point()

    def mapped(self, user_rows: NDArray[np.int64], item_rows: NDArray[np.int64], n_users: int, n_items: int) -> Model:
        """This model with its row x moved to row `user_rows[x]` / `item_rows[x]`; neighbor lists follow.

        The result grows without copying its arrays. Both models share `item_weights`, which never change.

        Args:
            user_rows (U,), item_rows (I,): distinct new rows; a negative one drops the row, also as a neighbor.
            n_users, n_items: length of the result; rows without a source are new.
        """
        moved, shapes = Model.__new__(Model), _shapes(self.params, n_users, n_items, self.projections.shape[1])
        moved.params, moved.mean, moved.scale, moved.calibration = self.params, self.mean, self.scale, self.calibration
        moved._adopt(
            {
                name: Growing(getattr(self, name)) if axes == "TT" else Growing.filled(shapes[name], dtype, _fill(name))
                for name, (axes, dtype) in ARRAYS.items()
            }
        )
        moves = {"U": _move_of(user_rows), "I": _move_of(item_rows)}
        for name, (axes, _) in ARRAYS.items():
            if axes[0] in moves:
                sources, targets = moves[axes[0]]
                getattr(moved, name)[targets] = getattr(self, name)[sources]
        sources, targets = moves["I"]
        if not isinstance(targets, slice):
            renamed = np.append(item_rows, NO_NEIGHBOR)  # NO_NEIGHBOR (-1) reads the last entry
            for name in ("neighbors", "listed"):
                rows = getattr(self, name)[sources]
                getattr(moved, name)[targets] = np.maximum(renamed[rows], NO_NEIGHBOR)
        return moved

    def _adopt(self, buffers: dict[str, Growing]) -> None:
        self._buffers = buffers
        self._point()

    def _point(self) -> None:
        for name, buffer in self._buffers.items():
            setattr(self, name, buffer.values)


def _move_of(rows: NDArray[np.int64]) -> tuple[Index, Index]:
    """Where rows are read and written that move to `rows`, or nowhere if negative: slices where these suffice.

    A model that nobody has left keeps its rows. Its arrays are then copied whole, which is several times as fast.
    """
    if np.array_equal(rows, np.arange(len(rows))):
        return slice(None), slice(len(rows))
    stays = rows >= 0
    return (slice(None), rows) if stays.all() else (stays, rows[stays])


def _shapes(params: Params, n_users: int, n_items: int, n_bits: int) -> dict[str, tuple[int, ...]]:
    sizes = {"U": n_users, "I": n_items, "H": n_bits, "T": 0, **widths_of(params)}
    return {name: tuple(sizes[axis] for axis in axes) for name, (axes, _) in ARRAYS.items()}


def widths_of(params: Params) -> dict[str, int]:
    """Length of the axes that the parameters decide."""
    has_lists = params.has_item_lists
    return {"F": params.width, "K": 0 if has_lists else params.n_neighbors, "L": params.n_neighbors * has_lists}


def bytes_of(params: Params, n_users: int, n_items: int) -> tuple[int, int]:
    """(bytes of the users' arrays, bytes of the items' arrays) of a model of this size, without `weight_bytes`."""
    shapes = _shapes(params, n_users, n_items, params.n_bits)
    sizes = {"U": 0, "I": 0, "T": 0}
    for name, (axes, dtype) in ARRAYS.items():
        sizes[axes[0]] += math.prod(shapes[name]) * np.dtype(dtype).itemsize
    return sizes["U"], sizes["I"]


def weight_bytes(params: Params, n_items: int) -> int:
    """Bytes, at most, of the item weights of a model of `n_items` from the host: there is one copy, on the host."""
    return np.dtype(np.float32).itemsize * min(most_weighted(params, n_items), MAX_WEIGHTED) ** 2


def most_weighted(params: Params, n_items: int) -> int:
    """T, at most, of a model of `n_items`."""
    return min(n_items, MAX_WEIGHTED_ON_DEVICE) if params.has_item_weights and not params.has_item_lists else 0


def _fill(name: str) -> int:
    """The value of new rows."""
    return {"neighbors": NO_NEIGHBOR, "item_slots": NO_SLOT, "listed": NO_NEIGHBOR}.get(name, 0)
