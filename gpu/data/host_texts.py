"""Kernels that write lists as text, so that no Python object is made of a line: names from an array, and numbers.

`decimal` gives the shortest digits that read as the same float64, and among these the closest ones: Giulietti, "The
Schubfach way to render doubles" (2021), section 9. `POWERS` has 10^k as 128 bits, rounded up. `write` gives them the
form that `msgspec.json` gives them, to the byte.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int

MOST_BYTES = 25  # of a number: a sign, 17 digits, a point, and e-308
MOST_FIXED, LEAST_FIXED = 16, -5  # places of the decimal point between which a number is written without exponent
FIRST_POWER, END_POWER = -292, 325  # of ten
N_BITS, BIAS = 52, 1075  # of the significand of a float64; and of its exponent, for a significand that is an integer
ZERO, POINT, MINUS, E = (ord(character) for character in "0.-e")
NULL = np.frombuffer(b"null", dtype=np.uint8)  # for infinities and NaN
U0, U1, U2, U4, U10, U32, U40 = (np.uint64(number) for number in (0, 1, 2, 4, 10, 32, 40))
LOW = np.uint64(2**32 - 1)


def _powers() -> NDArray[np.uint64]:
    """The upper and the lower half of 10^k · 2^s, rounded up, with the s that makes 128 bits of it, (617, 2)."""
    powers = []
    for k in range(FIRST_POWER, END_POWER):
        shift = 127 - (k * 1741647 >> 19)  # ⌊log2 10^k⌋
        above, below = 10 ** max(k, 0) << max(shift, 0), 10 ** max(-k, 0) << max(-shift, 0)
        power = -(-above // below)
        powers.append((power >> 64, power & (2**64 - 1)))
    return np.array(powers, dtype=np.uint64)


POWERS = _powers()


@njit(cache=True, nogil=True)
def product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """(upper, lower) 64 bits of a · b."""
    a1, a0, b1, b0 = a >> U32, a & LOW, b >> U32, b & LOW
    low, middle = a0 * b0, a1 * b0
    middle_low = (low >> U32) + (middle & LOW) + a0 * b1
    return a1 * b1 + (middle >> U32) + (middle_low >> U32), (middle_low << U32) | (low & LOW)


@njit(cache=True, nogil=True)
def scaled(upper: np.uint64, lower: np.uint64, value: np.uint64) -> np.uint64:
    """The value times a power of `POWERS`, without the last 128 bits, rounded to odd."""
    carried, _ = product(lower, value)
    above, below = product(upper, value)
    total = below + carried
    if total < below:
        above += U1
    return above | np.uint64(total > U1)


@njit(cache=True, nogil=True)
def decimal(bits: np.uint64) -> tuple[np.uint64, Int]:
    """(digits, exponent of ten) of a finite positive float64 with these bits."""
    fraction, exponent = bits & np.uint64(2**N_BITS - 1), np.int64(bits >> np.uint64(N_BITS))
    c, q = fraction, np.int64(1 - BIAS)
    if exponent:
        c, q = fraction | np.uint64(2**N_BITS), exponent - BIAS
        if -N_BITS <= q <= 0 and not c & ((U1 << np.uint64(-q)) - U1):
            return c >> np.uint64(-q), np.int64(0)
    is_odd, is_closer = c & U1, np.uint64(fraction == U0 and exponent > 1)
    k = (q * 1262611 - (524031 if is_closer else 0)) >> 22
    shift = np.uint64(q + ((-k * 1741647) >> 19) + 1)
    upper, lower = POWERS[-k - FIRST_POWER, 0], POWERS[-k - FIRST_POWER, 1]
    least = scaled(upper, lower, (U4 * c - U2 + is_closer) << shift) + is_odd
    value = scaled(upper, lower, (U4 * c) << shift)
    most = scaled(upper, lower, (U4 * c + U2) << shift) - is_odd
    digits = value // U4
    if digits >= U10:
        tens = digits // U10
        is_below, is_above = least <= U40 * tens, U40 * tens + U40 <= most
        if is_below != is_above:
            return tens + np.uint64(is_above), k + 1
    is_below, is_above = least <= U4 * digits, U4 * digits + U4 <= most
    if is_below != is_above:
        return digits + np.uint64(is_above), k
    middle = U4 * digits + U2
    return digits + np.uint64(value > middle or (value == middle and digits & U1 == U1)), k


@njit(cache=True, nogil=True)
def write_integer(digits: np.uint64, n_digits: Int, text: NDArray[np.uint8], at: Int) -> Int:
    """Write `n_digits` digits from `at` on, with zeros before them; returns where they end."""
    for n in range(n_digits):
        text[at + n_digits - 1 - n] = ZERO + np.int64(digits % U10)
        digits //= U10
    return at + n_digits


@njit(cache=True, nogil=True)
def write_fraction(digits: np.uint64, n_digits: Int, n_before: Int, text: NDArray[np.uint8], at: Int) -> Int:
    """Write `n_digits` with a point after the first `n_before`, at least one; returns where they end."""
    at = write_integer(digits, n_digits, text, at)
    for n in range(n_digits - n_before):
        text[at - n] = text[at - n - 1]
    text[at - n_digits + n_before] = POINT
    return at + 1


@njit(cache=True, nogil=True)
def write(bits: np.uint64, text: NDArray[np.uint8], at: Int) -> Int:
    """Write the float64 with these bits from `at` on; returns where it ends."""
    magnitude = bits & np.uint64(2**63 - 1)
    if magnitude >= np.uint64(0x7FF << N_BITS):
        text[at : at + len(NULL)] = NULL
        return at + len(NULL)
    if magnitude != bits:
        text[at] = MINUS
        at += 1
    digits, exponent = decimal(magnitude) if magnitude else (U0, np.int64(0))
    while digits and digits % U10 == U0:
        digits //= U10
        exponent += 1
    n_digits, rest = 1, digits // U10
    while rest:
        rest //= U10
        n_digits += 1
    point = n_digits + exponent  # digits before the point
    if n_digits <= point <= MOST_FIXED:  # 1200.0
        at = write_integer(U0, exponent, text, write_integer(digits, n_digits, text, at))
        text[at], text[at + 1] = POINT, ZERO
        return at + 2
    if 0 < point <= MOST_FIXED:  # 1.25
        return write_fraction(digits, n_digits, point, text, at)
    if LEAST_FIXED < point <= 0:  # 0.00125
        return write_fraction(digits, n_digits - point + 1, 1, text, at)
    at = write_fraction(digits, n_digits, 1, text, at) if n_digits > 1 else write_integer(digits, 1, text, at)
    text[at] = E
    at += 1
    power = point - 1
    if power < 0:
        text[at] = MINUS
        at += 1
    power = abs(power)
    return write_integer(np.uint64(power), 3 if power >= 100 else 2 if power >= 10 else 1, text, at)


@njit(cache=True, nogil=True)
def copy(place: Int, ends: NDArray[np.int64], texts: NDArray[np.uint8], text: NDArray[np.uint8], at: Int) -> Int:
    """Copy the text at `place` to `at`; returns where it ends."""
    first = ends[place - 1] if place else np.int64(0)
    for n in range(first, ends[place]):
        text[at] = texts[n]
        at += 1
    return at


@called_for(Use.ANSWERS)
@njit(cache=True, nogil=True)
def lines(
    rows: NDArray[np.int64],
    lengths: NDArray[np.int64],
    numbers: Annotated[NDArray[np.float64], 2],
    ends: NDArray[np.int64],
    texts: NDArray[np.uint8],
) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Write lists of lines. A line has text 0 if it is the first one of its list, else 1; then text `rows[n] + 4`; then
    each of its numbers, before which it has text 2, and 3.

    Args:
        rows: (L,), of all lists.
        lengths: (B,), lines of each list.
        numbers: (L, 1) or (L, 2).
        ends: where each text ends in `texts`, and the next one begins.

    Returns:
        the text; uint32 (B,), where each list ends in it.
    """
    bits, (n_lines, n_numbers) = numbers.view(np.uint64), numbers.shape
    longest = max(ends[0], ends[1] - ends[0]) + ends[3] - ends[1] + 2 * MOST_BYTES
    n_bytes, touched = n_lines * longest, np.int64(0)
    for row in rows:
        n_bytes += ends[row + 4] - ends[row + 3]
    for row in rows:  # few names are in the cache: here the loads of all overlap, in the loop below they cannot
        touched += texts[min(ends[row + 3], len(texts) - 1)]
    n_bytes += touched & 1  # so that no compiler leaves the loads out
    text, list_ends = np.empty(n_bytes, dtype=np.uint8), np.empty(len(lengths), dtype=np.uint32)
    at: Int = np.int64(0)
    line = 0
    for b in range(len(lengths)):
        for n in range(lengths[b]):
            at = copy(np.int64(n > 0), ends, texts, text, at)
            at = copy(rows[line] + 4, ends, texts, text, at)
            for k in range(n_numbers):
                at = copy(np.int64(2 + k), ends, texts, text, at)
                at = write(bits[line, k], text, at)
            line += 1
        list_ends[b] = at
    return text[:at], list_ends
