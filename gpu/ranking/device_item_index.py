"""Item side of the scores on a device: factors, bounds, neighbor lists and their inverse; see `gpu.ranking.item_index`.

The twin of `gpu.ranking.host_item_index`. Several devices may share the items of a model: each has a part of them
(`gpu.ranking.partition`), with factors and lists. As any row may be a neighbor, each device has the baselines of all
rows and the ends of all inverse lists.

Inverse lists name the items whose score may differ from the plain one. They may name
too many: each named item is scored from the lists themselves. So inverse lists only grow: flat lists from the time of
loading, and chains of later entries. Kernels: kernels/topn.cu, layouts: kernels/topn_items.cuh.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.device import TENSOR_CORES, compute_capability
from gpu.cuda.arrays import to_device
from gpu.cuda.kernels import kernel, module
from gpu.data.model import NO_NEIGHBOR, Model
from gpu.ranking.item_terms import ItemTerms
from gpu.ranking.partition import TILE, Part

NAME, SCAN = "topn", "topn_scan"
USER_TILES = 1, 4  # tiles of 16 users in a block of the scan, for few and for many users
WIDTH = 16  # factors; a row is padded to a multiple of it
PIECE = 64  # bytes; a row of small numbers is padded to a multiple of it
ZEROS = 2.0**60  # the bits of the scale and the bound of a row of zeros: `LARGEST_SCALE`, and 0
CHUNK = (
    1 << 13
)  # items that are gathered at a time: at 64 factors 2 MB, which stay in the cache (1 GB/s with 2^18, 3 with 2^13)
MOST_LATER = 1 << 20  # entries of chains; beyond it, and beyond the number in flat lists, lists are inverted again
THREADS, EIGHT = 256, 8  # as in kernels/topn.cu

POINTERS = (
    "factors", "rounded", "bounds", "fixed", "baselines", "largest", "hidden", "neighbors", "explicit_weights",
    "implicit_weights", "starts", "owners", "heads", "nexts", "later", "n_later",
)  # fmt: skip
NUMBERS = ("n_items", "n_rows", "n_listed", "n_slots", "part", "n_parts", "is_implicit")
OF_ALL_ROWS = ("baselines", "heads")  # the other arrays have the items of the part
ITEMS = np.dtype(
    [(name, "<u8") for name in POINTERS]
    + [(name, "<i4") for name in NUMBERS]
    + [(name, "<f4") for name in ("middle", "lift")],
    align=True,
)
FRESH_POINTERS = "items", "factors", "biases", "baselines", "neighbors", "explicit_weights", "implicit_weights"
FRESH = np.dtype(
    [(name, "<u8") for name in FRESH_POINTERS]
    + [("mean", "<f4"), ("n", "<i4"), ("n_factors", "<i4"), ("is_linked", "<i4")],
    align=True,
)


class RankedPart:
    """Items of one model on one device, with room to grow; names are those of `Catalog` in the kernels.

    Attributes:
        place: which items of the model it has; `part` and `n_parts` are its numbers.
        device: number of the device; it is the current one for all that reads or changes the arrays.
        width: G.
        n_items, n_rows: I, and items of the whole model; arrays are longer.
        kernels: addresses of kernels by name and tiles of users, since a lookup takes as long as a launch.
        structure: the argument that kernels take by value.
        terms: differences between estimates and list scores.
        start: the score of an item without parameters.
    """

    def __init__(self, model: Model, place: Part, device: int) -> None:
        """Arrays without items on the current device, which is `device`."""
        n_slots = model.neighbors.shape[1]
        self.place, self.device = place, device
        self.part, self.n_parts = place
        self.width, self.n_slots = width_of(model.params.width), n_slots
        self.kernels: dict[tuple[str, int], int] = {}
        self.n_items, self.n_rows, self.n_listed, self._capacity, self._most_later = 0, 0, 0, 0, 0
        self.mean, self.middle, self.lift = float(np.float32(model.mean)), model.middle, model.lift
        self.learned_scale = model.learned_scale
        self.is_implicit, self.terms = model.is_implicit, ItemTerms(model)
        self.start = float(self.terms.unrated + np.float32(model.mean))
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

    def grow(self, n_rows: int) -> None:
        """Grow to a model of `n_rows` items; new ones are not hidden and have no parameters."""
        if n_rows > self._capacity * self.n_parts:
            capacity = -(-max(n_rows, self._capacity * self.n_parts * 3 // 2) // (TILE * self.n_parts)) * TILE
            for name, (shape, dtype, fill) in self._fills.items():
                length, held = capacity * (self.n_parts if name in OF_ALL_ROWS else 1), self.arrays[name]
                longer = cupy.full((length, *shape), fill, dtype)
                longer[: len(held)] = held
                self.arrays[name] = longer
            self.arrays["bounds"][self._capacity :, 0] = -np.inf
            self._capacity = capacity
        n_items = self.place.length(n_rows)
        self.arrays["bounds"][self.n_items : n_items, 0] = self.start
        self.n_items, self.n_rows = n_items, n_rows
        self.structure = self._structure()

    def invert(self) -> None:
        """Rebuild the inverse of the present lists, and empty the chains."""
        flat = self.arrays["neighbors"][: self.n_items].ravel()
        order = cupy.argsort(flat)
        owners = (order // self.n_slots).astype(cupy.int32)
        starts = cupy.searchsorted(flat[order], cupy.arange(self.n_rows + 1, dtype=cupy.int32)).astype(cupy.int32)
        self.arrays["owners"], self.arrays["starts"], self.n_listed = owners, starts, self.n_rows
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
        structure = np.zeros((), dtype=ITEMS)
        for name in POINTERS:
            structure[name] = self.arrays[name].data.ptr
        for name in (*NUMBERS, "middle", "lift"):
            structure[name] = getattr(self, name)
        return structure.view(f"V{ITEMS.itemsize}")  # CuPy spells out the fields of a structure each time


RankedItems = tuple[RankedPart, ...]


def prepare(n_factors: int, *devices: int) -> None:
    """Compile, or load from CuPy's cache, the kernels for `n_factors` and those that CuPy generates for `hide`.

    Args:
        devices: those that will rank; by default the current one.
    """
    width = width_of(n_factors)
    for device in devices or (cupy.cuda.Device().id,):
        with cupy.cuda.Device(device):
            hidden, rows = cupy.zeros(1, dtype=cupy.uint8), cupy.zeros(1, dtype=cupy.int32)
            hidden[rows] = hidden
            module(NAME, {"G": width})
            for tiles in USER_TILES if compute_capability() >= TENSOR_CORES else ():
                module(SCAN, {"G": width, "MT": tiles})


def width_of(n_factors: int) -> int:
    """G, the factors of a row with its padding."""
    return max(-(-n_factors // WIDTH), 1) * WIDTH


def ranked_items_of(model: Model, *devices: int) -> RankedItems:
    """The items of `model`, divided among `devices` and copied to them; by default all on the current device.

    A device that is named several times has several parts. Parts are copied at the same time.
    """
    devices = devices or (cupy.cuda.Device().id,)

    def uploaded(n: int) -> RankedPart:
        """One part, on its device."""
        with cupy.cuda.Device(devices[n]):
            part = RankedPart(model, Part(n, len(devices)), devices[n])
            part.grow(model.n_items)
            for first in range(0, part.n_items, CHUNK):
                rows = part.place.rows(np.arange(first, min(first + CHUNK, part.n_items))).astype(np.int64, copy=False)
                _renew(part, model, rows, is_linked=False)
            _copy_baselines(part, model, np.arange(model.n_items))
            if part.n_slots and part.n_items:
                part.invert()
            cupy.cuda.get_current_stream().synchronize()  # of this thread; others may use another one
            return part

    with ThreadPoolExecutor(len(devices), "ranked-items") as pool:
        return tuple(pool.map(uploaded, range(len(devices))))


def refresh(ranked_items: RankedItems, model: Model, items: NDArray[np.int64]) -> None:
    """Grow to the model's length, and copy the parameters and lists of distinct `items` (B,)."""
    for part in ranked_items:
        with cupy.cuda.Device(part.device):
            if model.n_items > part.n_rows:
                part.grow(model.n_items)
            own = items[part.place.holds(items)]
            part.make_room(len(own) * part.n_slots)
            _renew(part, model, own, is_linked=True)
            _copy_baselines(part, model, items)


def hide(ranked_items: RankedItems, model: Model, items: NDArray[np.int64], hidden: NDArray[np.bool_]) -> None:
    """Hide those of `items` (B,) for which `hidden` (B,) is true from every list; show the others."""
    del model
    for part in ranked_items:
        are_own = part.place.holds(items)
        own = part.place.positions(items[are_own])
        if len(own):
            with cupy.cuda.Device(part.device):
                places = to_device(own.astype(np.int32))
                part.arrays["hidden"][places] = to_device(hidden[are_own].astype(np.uint8))
                _launch(part, "reopen", len(own), places, np.int32(len(own)))


def lift(ranked_items: RankedItems, model: Model, items: NDArray[np.int64], lifts: NDArray[np.float32]) -> None:
    """Set what is added to the scores of distinct `items` (B,), see `gpu.ranking.item_terms`."""
    for part in ranked_items:
        part.terms.lift(items, lifts)
        own = items[part.place.holds(items)]
        if len(own):
            with cupy.cuda.Device(part.device):
                places = to_device(part.place.positions(own).astype(np.int32))
                starts = to_device(part.terms.biases(model, own) + np.float32(part.mean))
                _launch(part, "restart", len(own), places, starts, np.int32(len(own)))


def _copy_baselines(part: RankedPart, model: Model, items: NDArray[np.int64]) -> None:
    """Copy the baselines of those of `items` that other parts have; items of this part may be neighbors of them."""
    if not part.n_slots or part.n_parts == 1:
        return
    others = items[~part.place.holds(items)]
    if len(others):
        baselines = model.item_baseline[others] + np.float32(part.mean)
        part.arrays["baselines"][to_device(others)] = to_device(baselines)


def _renew(part: RankedPart, model: Model, rows: NDArray[np.int64], *, is_linked: bool) -> None:
    """Copy the parameters and lists of distinct `rows` (B,), all of the part."""
    if not len(rows):
        return
    names = "item_baseline", "neighbors", "explicit_weights", "implicit_weights"
    biases = part.terms.biases(model, rows)
    columns = [
        part.place.positions(rows).astype(np.int32),
        model.item_factors[rows],
        biases,
        *(getattr(model, name)[rows] for name in names),
    ]
    together = to_device(np.concatenate([column.ravel().view(np.int32) for column in columns]))  # one copy: each costs
    starts = np.cumsum([0, *(column.size for column in columns)])
    fresh = np.zeros((), dtype=FRESH)
    for name, start in zip(FRESH_POINTERS, starts.tolist(), strict=False):
        fresh[name] = together.data.ptr + 4 * start
    fresh["mean"], fresh["n"], fresh["n_factors"] = part.mean, len(rows), model.params.width
    fresh["is_linked"] = is_linked
    _launch(part, "renew", len(rows), fresh.view(f"V{FRESH.itemsize}"))


def _launch(part: RankedPart, function: str, n_rows: int, *arguments: Any) -> None:
    """Run a kernel that gives each row eight lanes."""
    blocks = -(-n_rows * EIGHT // THREADS)
    kernel(NAME, function, {"G": part.width})((blocks,), (THREADS,), (part.structure, *arguments))
