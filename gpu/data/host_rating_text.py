"""Reads ratings from JSON into columns, without an object for each.

It knows the JSON that this program writes: an array of objects with the same four names in one order, without spaces,
escapes and exponents. Anything else is left to a general parser, so there is no JSON that it reads in another way.
Decimals are read exactly: the result is the number that is nearest to the text, and of two such numbers the even one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int
from gpu.data.host_ids import IdColumn

NAMES = tuple(
    np.frombuffer(name, dtype=np.uint8)
    for name in (b'{"user":"', b'","item":"', b'","rating":', b',"timestamp":', b"null")
)
_USER, _ITEM, _RATING, _TIME, _NULL = NAMES
SHORTEST = sum(map(len, NAMES[:4])) + 4  # bytes of a rating: names, and one for each value
MAX_ID = 256  # bytes
MAX_DIGITS, MAX_DECIMALS = 18, 9  # of a number that is read here
POWERS = 10 ** np.arange(MAX_DECIMALS + 1, dtype=np.int64)
EXACT = 2**53  # integers up to it are numbers of float64
OTHER = -1  # the text is something else
_QUOTE, _ESCAPE, _SPACE, _ZERO, _MINUS, _POINT = (np.uint8(ord(one)) for one in '"\\ 0-.')
_OPEN, _CLOSE, _COMMA, _END = (np.uint8(ord(one)) for one in "[],}")

Columns = tuple[IdColumn, IdColumn, NDArray[np.float64], NDArray[np.float64]]


@njit(cache=True, nogil=True)
def after(text: NDArray[np.uint8], at: Int, name: NDArray[np.uint8]) -> Int:
    """The place behind `name`, which is expected at `at`; `OTHER` if it is not there."""
    if at < 0 or at + len(name) > len(text):
        return OTHER
    for n in range(len(name)):
        if text[at + n] != name[n]:
            return OTHER
    return at + len(name)


@njit(cache=True, nogil=True)
def copied(text: NDArray[np.uint8], at: Int, ids: NDArray[np.uint8], n: Int) -> Int:
    """Copy the id at `at`, up to its quote, to place `n` of `ids`; its length, or `OTHER`."""
    length = 0
    while at >= 0 and at + length < len(text) and text[at + length] != _QUOTE:
        if length == MAX_ID or text[at + length] == _ESCAPE or text[at + length] < _SPACE:
            return OTHER
        ids[n + length] = text[at + length]
        length += 1
    return length if length and at + length < len(text) else OTHER


@njit(cache=True, nogil=True)
def number_at(text: NDArray[np.uint8], at: Int) -> tuple[float, Int]:
    """(the number at `at`, the place behind it), or the place is `OTHER`."""
    is_negative = 0 <= at < len(text) and text[at] == _MINUS
    at += is_negative
    digits, n_digits, n_decimals, has_point, first = np.int64(0), 0, 0, False, at
    while 0 <= at < len(text):
        digit = np.int64(text[at]) - np.int64(_ZERO)
        if 0 <= digit <= 9:
            digits = 10 * digits + digit
            n_digits += 1
            n_decimals += has_point
        elif text[at] == _POINT and n_digits and not has_point:
            has_point = True
        else:
            break
        if n_digits > MAX_DIGITS or n_decimals > MAX_DECIMALS:
            return 0.0, OTHER
        at += 1
    n_whole = n_digits - n_decimals
    if n_whole == 0 or (has_point and n_decimals == 0) or (n_whole > 1 and text[first] == _ZERO):
        return 0.0, OTHER
    power = POWERS[n_decimals]
    number = np.float64(digits) / np.float64(power)  # exact up to the division, which rounds once
    if digits > EXACT:
        whole, rest = digits // power, digits % power
        scale = np.int64(1)  # a power of 2 that makes a number of 53 bits of the whole
        while whole * scale < EXACT // 2:
            scale *= 2
        if whole > EXACT:
            return 0.0, OTHER
        bits, below = whole * scale + rest * scale // power, rest * scale % power
        if 2 * below > power or (2 * below == power and bits % 2 == 1):
            bits += 1
        number = np.float64(bits) / np.float64(scale)
    return (-number if is_negative else number), at


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def read(text: NDArray[np.uint8], largest: float) -> tuple[Int, Columns]:
    """Read an array of at least one rating.

    Args:
        text: UTF-8, which the caller has checked.
        largest: ratings are from -`largest` to `largest`.

    Returns:
        (number of ratings, or `OTHER` if there is anything else; users, items, ratings (NaN for null), timestamps).
    """
    most = len(text) // SHORTEST + 1
    user_ends, item_ends = np.zeros(most + 1, dtype=np.int32), np.zeros(most + 1, dtype=np.int32)
    users, items = np.empty(len(text), dtype=np.uint8), np.empty(len(text), dtype=np.uint8)
    ratings, times = np.empty(most), np.empty(most)
    n = 0
    at: Int = 1 if len(text) and text[0] == _OPEN else OTHER
    length: Int = 0
    while at >= 0:
        at = after(text, at, _USER)
        length = copied(text, at, users, user_ends[n])
        at = after(text, at + length, _ITEM) if length > 0 else OTHER
        user_ends[n + 1] = user_ends[n] + length
        length = copied(text, at, items, item_ends[n]) if at >= 0 else OTHER
        at = after(text, at + length, _RATING) if length > 0 else OTHER
        item_ends[n + 1] = item_ends[n] + length
        behind = after(text, at, _NULL)
        ratings[n] = np.nan
        if behind < 0:
            ratings[n], behind = number_at(text, at)
            if not -largest <= ratings[n] <= largest:
                behind = OTHER
        times[n], at = number_at(text, after(text, behind, _TIME))
        n += 1
        if at < 0 or at + 1 >= len(text) or text[at] != _END:
            at = OTHER
        elif text[at + 1] == _COMMA:
            at += 2
        else:
            at = at + 2 if text[at + 1] == _CLOSE else OTHER
            break
    if at != len(text):
        n = OTHER
    kept = max(n, 0)
    codes = np.arange(kept).astype(np.int32)
    of_users = IdColumn(codes, user_ends[: kept + 1].copy(), users[: user_ends[kept]].copy())
    of_items = IdColumn(codes, item_ends[: kept + 1].copy(), items[: item_ends[kept]].copy())
    return n, (of_users, of_items, ratings[:kept].copy(), times[:kept].copy())
