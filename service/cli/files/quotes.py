"""Tells quotes around fields from quotes within them, in the bytes of a whole file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_QUOTE, _ENDS = ord('"'), b"\r\n"
_BLOCK_BYTES = 1 << 22


def are_quotes(data: bytes, delimiter: str) -> bool:
    """Whether every quote in `data` opens a field, closes one, or stands doubled within one.

    So it is if each quote with an even number, from 0, follows a separator or another quote, and each other one
    precedes one: a doubled quote closes and opens again.
    """
    codes = np.frombuffer(data, dtype=np.uint8)
    is_edge = np.zeros(256, dtype=np.bool_)
    is_edge[[_QUOTE, ord(delimiter), *_ENDS]] = True
    n_before = 0
    for start in range(0, len(codes), _BLOCK_BYTES):
        places = np.flatnonzero(codes[start : start + _BLOCK_BYTES] == _QUOTE) + start
        is_opening = (np.arange(len(places)) + n_before) % 2 == 0
        opening, closing = places[is_opening], places[~is_opening]
        before = codes[opening[opening > 0] - 1]
        after = codes[closing[closing < len(codes) - 1] + 1]
        if not (is_edge[before].all() and is_edge[after].all()):
            return False
        n_before += len(places)
    return n_before % 2 == 0


def is_wrapped(field: str, quote: str = '"') -> bool:
    """Whether a field has quotes around."""
    return len(field) > 1 and field[0] == field[-1] == quote


def have_quotes(lines: Sequence[str], delimiter: str) -> bool:
    """Whether every line has a field within quotes."""
    return all(any(map(is_wrapped, line.split(delimiter))) for line in lines)
