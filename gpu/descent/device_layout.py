"""Parameters of descent on the device, and how the lanes of a warp share one rating; see kernels/sgd.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import InvalidParams
from gpu.cuda.arrays import to_device
from gpu.data.model import Model
from gpu.data.views import Shares
from gpu.descent import device_neighbors as descent_neighbors
from gpu.descent.device_item_changes import THREADS, blocks_of, run
from gpu.descent.device_tiles import Tiles
from gpu.descent.params import SgdParams

WARP = 32
MOST_THREADS = 1024  # threads of a block, at most
PIECE = 4  # factors of a lane, at least; a lane loads and adds them as one vector
LEAST_LANES = 8  # lanes of a group, if F has enough pieces: with fewer ratings in flight parameters are fresher
LANE_FACTORS, LANE_NEIGHBORS = 16, 16  # factors and neighbors of a lane, at most, until a group has 32 lanes
MOST_NEIGHBORS = 256
ITEM_NAMES = "factors", "bias", "explicit_weights", "implicit_weights", "neighbors", "shares"
ITEMS = np.dtype([(name, "<u8") for name in ITEM_NAMES])
PULLED = np.dtype([("words", "<u8", 6), ("ends", "<i8", 6), ("kept", "<f4", 6), ("are_halves", "<i4", 6)])


@dataclass(frozen=True)
class Geometry:
    """How lanes share a rating; `n_factors` and `n_neighbors` are padded to multiples of the lanes."""

    lanes: int
    n_factors: int
    n_neighbors: int
    is_half: bool
    is_implicit: bool
    has_dislikes: bool
    most_groups: int  # upper bound of the lane groups in a block, rounded to whole warps

    @classmethod
    def of(cls, params: SgdParams, most_groups: int = MOST_THREADS, has_dislikes: bool = True) -> Geometry:
        """The geometry with the fewest lanes whose registers hold an item's parameters.

        Args:
            has_dislikes: whether ratings may be dislikes, for implicit models. The default needs more memory.

        Raises:
            InvalidParams: more neighbors than a device takes.
        """
        n_neighbors = params.n_neighbors
        if n_neighbors > MOST_NEIGHBORS:
            raise InvalidParams(
                f"Invalid n_neighbors on the device: expected at most {MOST_NEIGHBORS}, got {n_neighbors}; use host"
            )
        wanted = max(params.n_factors / LANE_FACTORS, n_neighbors / LANE_NEIGHBORS, 1)
        lanes = min(WARP, 1 << int(np.ceil(np.log2(wanted))))
        is_half = params.precision == "float16"
        lanes = max(lanes, min(LEAST_LANES, params.n_factors // PIECE))
        lanes = 1 << (lanes.bit_length() - 1)
        unit = lanes * PIECE
        of_lane = max(2, 1 << int(np.ceil(np.log2(max(n_neighbors / lanes, 1))))) if n_neighbors else 0
        n_factors = -(-params.n_factors // unit) * unit
        k = max(descent_neighbors.CHUNK, of_lane * lanes) if of_lane else 0
        has_dislikes = has_dislikes and params.is_implicit
        return cls(lanes, n_factors, k, is_half, params.is_implicit, has_dislikes, most_groups)

    @property
    def row_bytes(self) -> int:
        """Bytes of a user's factors and bias."""
        return self.n_factors * (2 if self.is_half else 4) + 4

    @property
    def near_bytes(self) -> int:
        """Bytes per sample for the user's ratings of the item's neighbors."""
        words = descent_neighbors.mask_words(self.n_neighbors, self.has_dislikes)
        return 4 * words if self.is_implicit else 2 * self.n_neighbors

    @property
    def threads(self) -> int:
        """Threads of a block: limited by the registers of a multiprocessor, estimated high, and by `most_groups`."""
        held, of_lane = self.n_factors / self.lanes, self.n_neighbors / self.lanes
        wanted = 46 + 3.2 * held + (5 if self.is_implicit else 8) * of_lane
        fitting = next((n for n in (MOST_THREADS, 768, 640, 512, 448, 384) if 65536 // n >= wanted), 256)
        return min(fitting, max(WARP, 1 << ((self.most_groups * self.lanes).bit_length() - 1)))

    def macros(self, *, learn: bool) -> dict[str, int]:
        """The macros of kernels/sgd.cu."""
        return {
            "F": self.n_factors,
            "LANES": self.lanes,
            "K": self.n_neighbors,
            "HALF": int(self.is_half),
            "IMPLICIT": int(self.is_implicit),
            "DISLIKES": int(self.has_dislikes),
            "LEARN": int(learn),
            "THREADS": self.threads,
        }


class DescentParameters:
    """The learned parameters on the device; after `settle` users are in the order of the tiles."""

    def __init__(self, model: Model, geometry: Geometry) -> None:
        """Copy the parameters of `model`, with users in the model's order."""
        n, k = geometry.n_factors, geometry.n_neighbors
        self._number = cupy.float16 if geometry.is_half else cupy.float32
        self.users, self.user_bias = to_device(_wide(model.user_factors, n)), to_device(model.user_bias)
        self.items, self.item_bias = to_device(_wide(model.item_factors, n)), to_device(model.item_bias)
        self.shares = cupy.ones(model.n_items, dtype=cupy.float32)
        self.neighbors = to_device(_wide(model.neighbors, k, -1))
        self.explicit, self.implicit = (
            to_device(_wide(model.explicit_weights, k)),
            to_device(_wide(model.implicit_weights, k)),
        )

    def settle(self, at: Tiles) -> None:
        """Move users to their positions in the tiles."""
        users, bias = self.users, self.user_bias
        self.users = cupy.zeros((len(at.users), users.shape[1]), dtype=self._number)
        self.user_bias = cupy.zeros(len(at.users), dtype=cupy.float32)
        self.users[at.places], self.user_bias[at.places] = users, bias

    def struct(self) -> Any:
        """`Items` of the kernels, passed by value."""
        struct = np.zeros((), dtype=ITEMS)
        arrays = self.items, self.item_bias, self.explicit, self.implicit, self.neighbors, self.shares
        for name, array in zip(ITEM_NAMES, arrays, strict=True):
            struct[name] = array.data.ptr
        return struct.view(f"V{ITEMS.itemsize}")

    def shrink(self, shares: Shares) -> None:
        """Pull all parameters toward zero by these shares: one launch, whose threads read four bytes each."""
        of_factors, of_biases, of_weights = shares
        pulled, n_words = np.zeros((), dtype=PULLED), 0
        for k, (array, share) in enumerate((
            (self.users, of_factors), (self.items, of_factors), (self.user_bias, of_biases),
            (self.item_bias, of_biases), (self.explicit, of_weights), (self.implicit, of_weights),
        )):  # fmt: skip
            n_words += array.nbytes // 4
            pulled["words"][k], pulled["ends"][k] = array.data.ptr, n_words
            pulled["kept"][k], pulled["are_halves"][k] = array.dtype.type(1 - share), array.itemsize == 2
        run("pull", blocks_of(n_words), THREADS, pulled.view(f"V{PULLED.itemsize}"))

    def is_finite(self) -> bool:
        """Whether all parameters are finite."""
        learned = self.users, self.user_bias, self.items, self.item_bias, self.explicit, self.implicit
        return bool(np.isfinite(sum(float(x.sum(dtype=cupy.float64)) for x in learned)))

    def fetch(self, model: Model, at: Tiles) -> None:
        """Copy the parameters to `model`, in the model's order of users."""
        n, k = model.user_factors.shape[1], model.neighbors.shape[1]
        model.user_factors[:] = self.users[at.places, :n].astype(cupy.float32).get()
        model.user_bias[:] = self.user_bias[at.places].get()
        model.item_factors[:], model.item_bias[:] = self.items[:, :n].get(), self.item_bias.get()
        model.explicit_weights[:], model.implicit_weights[:] = self.explicit[:, :k].get(), self.implicit[:, :k].get()


def _wide(table: NDArray[Any], width: int, fill: int = 0) -> NDArray[Any]:
    """The table with columns of `fill` appended up to `width`."""
    out = np.full((len(table), width), fill, dtype=table.dtype)
    out[:, : table.shape[1]] = table
    return out
