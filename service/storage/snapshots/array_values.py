"""`ArrayValues`: which arrays the model of a snapshot must have, and which values kernels can take in them.

Kernels check no index and no number: a row number out of range reads foreign memory and ends the process, and one NaN
among the factors of items empties every list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import ARRAYS, NO_NEIGHBOR, NO_SLOT, most_weighted, widths_of
from gpu.data.param_kinds import Params
from service.storage.snapshots.array_file import OnPart, StoredArray

# Of any parameter; of factors of both sides; and of those of NMF, which has all of the size of ratings on one side.
# Those of models of the largest ratings, 1e6, are below 1e7, 1e5 and 1e10. With more, scores overflow float32.
MAX_PARAMETER, MAX_FACTOR, MAX_NONNEGATIVE = 1e8, 1e6, 1e12
LEAST_NONNEGATIVE = 1e-15  # of the largest factor of a side of NMF, whose square divides in refits
WITHOUT_WEIGHTS = "item_slots", "item_weights"  # files of models without item weights lack both
WITHOUT_LISTS = "listed", "listed_weights"  # and those of models without lists of items these
WORD_BITS = 64  # signatures are packed into words


class ArrayValues:
    """The arrays of a model of this size."""

    def __init__(
        self, params: Params, n_users: int, n_items: int, *, n_forgotten: int = 0, has_counts: bool = True
    ) -> None:
        """Prepare.

        Args:
            params: of its training.
            n_users, n_items: rows of its id tables.
            n_forgotten: users who were removed since its training; `item_counts` counts them still.
            has_counts: whether it must have `item_counts`; snapshots of format 1 may lack them.
        """
        self._params, self._needs = (
            params,
            set(ARRAYS) - set(WITHOUT_WEIGHTS + WITHOUT_LISTS * (not params.has_item_lists)),
        )
        if not has_counts:
            self._needs.discard("item_counts")
        self._sizes = {"U": n_users, "I": n_items, **widths_of(params)}
        self._n_slots, self._most_counted = 0, n_users + n_forgotten
        self._largest: dict[str, float] = {}
        self._slots: NDArray[np.int32] = np.zeros(0, dtype=np.int32)

    def check_header(self, stored: Mapping[str, StoredArray]) -> None:
        """Check names, dtypes and shapes of all arrays, before memory is taken for them; raises `ValueError`."""
        if missing := self._needs - stored.keys():
            raise ValueError(f"expected an array {min(missing)}, got none")
        for both in (WITHOUT_WEIGHTS, WITHOUT_LISTS):
            if (has := [name for name in both if name in stored]) and len(has) < len(both):
                raise ValueError(f"expected both of {' and '.join(both)} or none, got {has[0]}")
        axes_of_shapes = (("H", "projections"), ("T", "item_weights"))
        sizes = self._sizes | {axis: stored[name].shape[-1] if name in stored else 0 for axis, name in axes_of_shapes}
        if sizes["H"] % WORD_BITS or (sizes["H"] and not self._params.has_signatures):
            raise ValueError(f"expected a multiple of {WORD_BITS} bits in projections, got {sizes['H']}")
        most = most_weighted(self._params, sizes["I"])
        if sizes["T"] > most:
            raise ValueError(f"expected weights of at most {most} items, got {sizes['T']}")
        for name, (dtype, shape, _) in stored.items():
            if name not in ARRAYS:
                raise ValueError(f"expected arrays of a model, got one called {name[:64]!r}")
            axes, wanted = ARRAYS[name]
            expected = tuple(sizes[axis] for axis in axes)
            if dtype != wanted or shape != expected:
                raise ValueError(f"expected {name} of {wanted.__name__} {expected}, got {dtype} {shape}")
        self._n_slots = sizes["T"]

    def checker(self, name: str) -> OnPart:
        """What checks the parts of array `name`; it raises `ValueError` with the place of the first bad value."""
        low, high = -MAX_PARAMETER, MAX_PARAMETER
        if name.endswith("factors"):
            low, high = (0.0, MAX_NONNEGATIVE) if self._params.is_nonnegative else (-MAX_FACTOR, MAX_FACTOR)
        integers = np.iinfo(np.int32)
        ranges = {
            "neighbors": (NO_NEIGHBOR, self._sizes["I"] - 1),
            "listed": (NO_NEIGHBOR, self._sizes["I"] - 1),
            "item_slots": (NO_SLOT, self._n_slots - 1),
            "item_counts": (0, self._most_counted),
            "projections": (integers.min, integers.max),
            "user_trained": (0, 1),
            "item_trained": (0, 1),
        }
        low, high = ranges.get(name, (low, high))

        def check(part: NDArray[Any], first: int) -> None:
            numbers = part.view(np.uint8) if part.dtype == np.bool_ else part
            if not (numbers.min() >= low and numbers.max() <= high):  # as NaN is neither
                row, *columns = np.argwhere(~((numbers >= low) & (numbers <= high)))[0].tolist()
                place = ", ".join(map(str, (first + row, *columns)))
                raise ValueError(
                    f"expected {name} from {low:g} to {high:g}, got {numbers[(row, *columns)]} at [{place}]"
                )
            if name == "item_slots":
                self._slots = np.append(self._slots, part[part >= 0])
                if len(np.unique(self._slots)) < len(self._slots):
                    wanted = "expected each item to have weights of its own"
                    raise ValueError(f"{wanted}, got two items with the same item_slots")
            if low == 0.0 and name.endswith("factors"):
                largest = self._largest[name] = max(self._largest.get(name, 0.0), float(part.max()))
                is_last = first + len(part) == self._sizes[ARRAYS[name][0][0]]
                if is_last and largest < LEAST_NONNEGATIVE:
                    raise ValueError(f"expected some {name} above {LEAST_NONNEGATIVE:g}, got {largest:g} at most")

        return check
