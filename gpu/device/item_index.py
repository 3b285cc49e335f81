"""Item side of the scores on a device: factors, bounds, neighbor lists and their inverse; see `gpu.ranking.item_index`.

The twin of `gpu.host.item_index`. Inverse lists name the items whose score may differ from the plain one. They may name
too many: each named item is scored from the lists themselves. So inverse lists only grow: flat lists from the time of
loading, and chains of later entries. Kernels: kernels/topn.cu, layouts: kernels/topn_items.cuh.
"""

from __future__ import annotations

import contextlib
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.device import TENSOR_CORES, compute_capability
from gpu.device.cuda.arrays import to_device
from gpu.device.kernels import kernel, module
from gpu.model import NO_NEIGHBOR, Model
from gpu.ranking.deduction import Deduction

NAME, SCAN = "topn", "topn_scan"
USER_TILES = 1, 4  # tiles of 16 users in a block of the scan, for few and for many users
WIDTH = 16  # factors; a row is padded to a multiple of it
TILE = 32  # items; capacity is a multiple of it
PIECE = 64  # bytes; a row of small numbers is padded to a multiple of it
ZEROS = 2.0**60  # the bits of the scale and the bound of a row of zeros: `LARGEST_SCALE`, and 0
CHUNK = 1 << 18  # items that are copied at a time
MOST_LATER = 1 << 20  # entries of chains; beyond it, and beyond the number in flat lists, lists are inverted again
THREADS, EIGHT = 256, 8  # as in kernels/topn.cu

POINTERS = (
    "factors", "rounded", "bounds", "fixed", "baselines", "largest", "hidden", "neighbors", "explicit_weights",
    "implicit_weights", "starts", "owners", "heads", "nexts", "later", "n_later",
)  # fmt: skip
NUMBERS = ("n_items", "n_listed", "n_slots", "is_implicit")
ITEMS = np.dtype(
    [(name, "<u8") for name in POINTERS] + [(name, "<i4") for name in NUMBERS] + [("middle", "<f4")], align=True
)
FRESH_POINTERS = "items", "factors", "biases", "baselines", "neighbors", "explicit_weights", "implicit_weights"
FRESH = np.dtype(
    [(name, "<u8") for name in FRESH_POINTERS]
    + [("mean", "<f4"), ("n", "<i4"), ("n_factors", "<i4"), ("is_linked", "<i4")],
    align=True,
)


class RankedItems:
    """The item side of one model on the device, with room to grow; names are those of `RankedItems` in the kernels.

    Attributes:
        width: G.
        n_items: I; arrays are longer.
        kernels: cache of kernels by caller, since a lookup takes as long as a launch.
        structure: the argument that kernels take by value.
        deduction: differences between estimates and list scores.
        start: the score of an item without parameters.
    """

    def __init__(self, model: Model) -> None:
        n_slots = model.neighbors.shape[1]
        self.width, self.n_slots = width_of(model.params.width), n_slots
        self.kernels: dict[tuple[str, int], Any] = {}
        self.n_items, self.n_listed, self._capacity, self._most_later = 0, 0, 0, 0
        self.mean, self.middle = float(np.float32(model.mean)), model.middle
        self.learned_scale = model.learned_scale
        self.is_implicit, self.deduction = model.is_implicit, Deduction.of(model)
        self.start = float(self.deduction.unrated + np.float32(model.mean))
        self._fills: dict[str, tuple[tuple[int, ...], type, float]] = {
            "factors": ((self.width,), np.float32, 0),
            "rounded": ((-(-self.width // PIECE) * PIECE,), np.int8, 0), "bounds": ((2,), np.float32, ZEROS),
            "fixed": ((), np.float32, self.start), "baselines": ((), np.float32, self.mean),
            "hidden": ((), np.uint8, 0), "neighbors": ((n_slots,), np.int32, NO_NEIGHBOR),
            "explicit_weights": ((n_slots,), np.float32, 0), "implicit_weights": ((n_slots,), np.float32, 0),
            "heads": ((), np.int32, -1),
        }  # fmt: skip
        self.arrays = {name: cupy.empty((0, *shape), dtype) for name, (shape, dtype, _) in self._fills.items()}
        self.arrays["largest"] = cupy.full(1, abs(self.start), dtype=cupy.float32)
        self.arrays["n_later"] = cupy.zeros(1, dtype=cupy.int32)
        for name in ("starts", "owners", "nexts", "later"):
            self.arrays[name] = cupy.zeros(1, dtype=cupy.int32)
        self.structure = self._structure()

    def grow(self, n_items: int) -> None:
        """Grow to `n_items`; new items are not hidden and have no parameters."""
        if n_items > self._capacity:
            capacity = -(-max(n_items, self._capacity * 3 // 2) // TILE) * TILE
            for name, (shape, dtype, fill) in self._fills.items():
                longer = cupy.full((capacity, *shape), fill, dtype)
                longer[: self._capacity] = self.arrays[name]
                self.arrays[name] = longer
            self.arrays["bounds"][self._capacity :, 0] = -np.inf
            self._capacity = capacity
        if n_items > self.n_items:
            self.arrays["bounds"][self.n_items : n_items, 0] = self.start
            self.n_items = n_items
        self.structure = self._structure()

    def invert(self) -> None:
        """Rebuild the inverse of the present lists, and empty the chains."""
        flat = self.arrays["neighbors"][: self.n_items].ravel()
        order = cupy.argsort(flat)
        owners = (order // self.n_slots).astype(cupy.int32)
        starts = cupy.searchsorted(flat[order], cupy.arange(self.n_items + 1, dtype=cupy.int32)).astype(cupy.int32)
        self.arrays["owners"], self.arrays["starts"], self.n_listed = owners, starts, self.n_items
        self.arrays["heads"].fill(-1)
        self.arrays["n_later"].fill(0)
        self._most_later = 0
        self.structure = self._structure()

    def make_room(self, n_later: int) -> None:
        """Make room for `n_later` more entries in the chains."""
        held = len(self.arrays["later"])
        if self._most_later + n_later > held:
            self._most_later = int(self.arrays["n_later"][0])  # fewer entries than expected may have come
            if self._most_later > max(MOST_LATER, self.n_items * self.n_slots):
                with contextlib.suppress(MemoryError):  # chains that grow are better than a service that ends
                    self.invert()  # entries of lists that are no more would pile up for as long as the model lives
        if self._most_later + n_later > held:
            for name in ("nexts", "later"):
                longer = cupy.empty(2 * (self._most_later + n_later), dtype=cupy.int32)
                longer[:held] = self.arrays[name]
                self.arrays[name] = longer
            self.structure = self._structure()
        self._most_later += n_later

    def _structure(self) -> Any:
        found = np.zeros((), dtype=ITEMS)
        for name in POINTERS:
            found[name] = self.arrays[name].data.ptr
        for name in (*NUMBERS, "middle"):
            found[name] = getattr(self, name)
        return found.view(f"V{ITEMS.itemsize}")  # CuPy spells out the fields of a structure each time


def prepare(n_factors: int) -> None:
    """Compile, or load from CuPy's cache, the kernels for `n_factors` and those that CuPy generates for `hide`."""
    hidden, rows = cupy.zeros(1, dtype=cupy.uint8), cupy.zeros(1, dtype=cupy.int32)
    hidden[rows] = hidden
    width = width_of(n_factors)
    module(NAME, {"G": width})
    for tiles in USER_TILES if compute_capability() >= TENSOR_CORES else ():
        module(SCAN, {"G": width, "MT": tiles})


def width_of(n_factors: int) -> int:
    """G, the factors of a row with its padding."""
    return max(-(-n_factors // WIDTH), 1) * WIDTH


def ranked_items_of(model: Model) -> RankedItems:
    """The items of `model`, copied to the device."""
    ranked_items = RankedItems(model)
    ranked_items.grow(model.n_items)
    for first in range(0, model.n_items, CHUNK):
        _renew(ranked_items, model, np.arange(first, min(first + CHUNK, model.n_items)), is_linked=False)
    if ranked_items.n_slots and model.n_items:
        ranked_items.invert()
    return ranked_items


def refresh(ranked_items: RankedItems, model: Model, items: NDArray[np.int64]) -> None:
    """Grow to the model's length, and copy the parameters and lists of distinct `items` (B,)."""
    if model.n_items > ranked_items.n_items:
        ranked_items.grow(model.n_items)
    ranked_items.make_room(len(items) * ranked_items.n_slots)
    _renew(ranked_items, model, items, is_linked=True)


def hide(ranked_items: RankedItems, model: Model, items: NDArray[np.int64], hidden: NDArray[np.bool_]) -> None:
    """Hide those of `items` (B,) for which `hidden` (B,) is true from every list; show the others."""
    del model
    rows = to_device(items.astype(np.int32))
    ranked_items.arrays["hidden"][rows] = to_device(hidden.astype(np.uint8))
    _launch(ranked_items, "reopen", len(items), rows, np.int32(len(items)))


def _renew(ranked_items: RankedItems, model: Model, items: NDArray[np.int64], *, is_linked: bool) -> None:
    if not len(items):
        return
    names = "item_baseline", "neighbors", "explicit_weights", "implicit_weights"
    biases = ranked_items.deduction.biases(model, items)
    parts = [
        items.astype(np.int32),
        model.item_factors[items],
        biases,
        *(getattr(model, name)[items] for name in names),
    ]
    together = to_device(np.concatenate([part.ravel().view(np.int32) for part in parts]))  # one copy: a call costs more
    starts = np.cumsum([0, *(part.size for part in parts)])
    fresh = np.zeros((), dtype=FRESH)
    for name, start in zip(FRESH_POINTERS, starts.tolist(), strict=False):
        fresh[name] = together.data.ptr + 4 * start
    fresh["mean"], fresh["n"], fresh["n_factors"] = ranked_items.mean, len(items), model.params.width
    fresh["is_linked"] = is_linked
    _launch(ranked_items, "renew", len(items), fresh.view(f"V{FRESH.itemsize}"))


def _launch(ranked_items: RankedItems, function: str, n_rows: int, *arguments: Any) -> None:
    """Run a kernel that gives each row eight lanes."""
    blocks = -(-n_rows * EIGHT // THREADS)
    kernel(NAME, function, {"G": ranked_items.width})((blocks,), (THREADS,), (ranked_items.structure, *arguments))
