"""`Eligible`: the items that pass a filter, as a set that many requests share."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WORD = 32  # items of a word of `bits`


@dataclass(frozen=True, eq=False)
class Eligible:
    """A set of item rows. Make it once and pass the same object with every request: a device keeps a copy by object.

    Attributes:
        bits: uint32 (W,), never changed: bit i % 32 of word i // 32 is set if item i is eligible. Items beyond the end
            are not eligible, so a set stays valid while items are added.
        count: eligible items, the set bits of `bits`.
    """

    bits: NDArray[np.uint32]
    count: int

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> Eligible:
        """The items that are true in `mask`, bool (I,)."""
        n_words = -(-len(mask) // WORD)
        padded = np.pad(mask, (0, n_words * WORD - len(mask)))
        bits = np.packbits(padded, bitorder="little").view("<u4").astype(np.uint32, copy=False)
        return cls(bits, int(np.count_nonzero(mask)))

    @functools.cached_property
    def rows(self) -> NDArray[np.int32]:
        """The eligible rows, ascending, int32 (count,)."""
        words = np.flatnonzero(self.bits)
        some = np.unpackbits(self.bits[words].astype("<u4").view(np.uint8), bitorder="little")
        places = np.flatnonzero(some)
        return (words[places // WORD] * WORD + places % WORD).astype(np.int32)

    def mask(self, n_items: int) -> NDArray[np.bool_]:
        """Whether each of the first `n_items` rows is eligible, bool (n_items,)."""
        octets = self.bits[: -(-n_items // WORD)].astype("<u4", copy=False).view(np.uint8)
        mask = np.unpackbits(octets, count=min(n_items, len(octets) * 8), bitorder="little").view(np.bool_)
        return np.pad(mask, (0, n_items - len(mask)))

    def among(self, items: NDArray[np.integer]) -> NDArray[np.integer]:
        """Those of `items` (B,), rows of at least 0, that are eligible."""
        within = items[items < len(self.bits) * WORD]
        are_set: NDArray[np.bool_] = self.bits[within // WORD] >> (within % WORD).astype(np.uint32) & np.uint32(1) == 1
        return within[are_set]
