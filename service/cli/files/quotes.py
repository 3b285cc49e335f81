"""Tells quotes around fields from quotes within them, and newlines within quotes, in the bytes of a whole file."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import numpy as np

_QUOTE, _ENDS = ord('"'), b"\r\n"
_BLOCK_BYTES = 1 << 22
_MOST_LINES = 10_000  # of one field


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


def without_newlines(data: bytes, delimiter: str, n_columns: int, newline: bytes) -> bytes:
    """`data` with `newline` in the place of each newline within quotes, and no line with another number.

    A line whose quotes are not closed is joined with those behind it up to the one that closes them, if together they
    have `n_columns`. Else it stays, as a line that lacks a quote. Empty lines follow a joined one, as many as it took.
    """
    codes = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(codes == _ENDS[1])
    n_quotes = np.diff(np.searchsorted(np.flatnonzero(codes == _QUOTE), np.append(ends, len(codes))), prepend=0)
    open_lines = np.flatnonzero(n_quotes % 2)
    starts = np.append(0, ends + 1)
    parts, done = list[bytes](), 0
    for first, last in zip(open_lines[:-1].tolist(), open_lines[1:].tolist(), strict=True):
        start, end = int(starts[first]), int(ends[last]) if last < len(ends) else len(data)
        if start < done or last - first > _MOST_LINES:
            continue
        text = data[start:end].rstrip(b"\r")
        joined = text.replace(b"\r\n", newline).replace(b"\n", newline)
        try:
            fields = next(csv.reader([joined.decode(errors="replace")], delimiter=delimiter, strict=True))
        except csv.Error:
            continue
        if len(fields) == n_columns:
            parts += data[done:start], joined, b"\n" * (last - first)
            done = start + len(text)
    return b"".join((*parts, data[done:])) if parts else data
