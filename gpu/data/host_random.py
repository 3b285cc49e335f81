"""Keyed random words on the host: the finaliser of SplitMix64."""

from __future__ import annotations

import numpy as np

from gpu.base.host import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def mix(word: np.uint64) -> np.uint64:
    """Finalizer of splitmix64: a bijection of uint64 in which every output bit depends on every input bit."""
    word = (word ^ (word >> np.uint64(30))) * MIX_1
    word = (word ^ (word >> np.uint64(27))) * MIX_2
    return word ^ (word >> np.uint64(31))
