"""`merit`: what decides whether a pair is a like, of one number of a table; see `gpu.data.evidence`."""

from __future__ import annotations

import numpy as np

from gpu.base.host import njit

BOTH, UPPER, LOWER = np.float32(2.0**104), np.uint32(0xFFFF0000), np.uint32(0xFFFF)
OF_BOTH, HALF = np.float32(2.0**-117), np.float32(32)
# A float16 has its sign in bit 15; its other bits, moved to those of a float32, are the number over 2^112.
SIGN, REST, SHIFT, EXPONENT = np.uint32(0x8000), np.uint32(0x7FFF), np.uint32(13), np.float32(2.0**112)


@njit(cache=True, nogil=True, forceinline=True)
def merit(value: np.float32, lift: np.float32) -> np.float32:
    """`gpu.data.evidence.merits` of one number."""
    if not abs(value) >= BOTH:
        return value
    bits = np.float32(value).view(np.uint32)
    size = np.uint32((bits & REST) << SHIFT).view(np.float32) * EXPONENT * HALF
    rating = -size if bits & SIGN else size
    return np.float32(rating + lift * (np.uint32(bits & UPPER).view(np.float32) * OF_BOTH))
