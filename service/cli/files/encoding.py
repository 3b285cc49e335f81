"""Checks that the bytes of a file are text in UTF-8, and finds the line where they are not."""

from __future__ import annotations

import pyarrow as pa

from service.cli.files.errors import InvalidRatingsFile

_N_SHOWN = 40  # bytes around the fault


def is_utf8(data: bytes) -> bool:
    """Whether all of `data` is UTF-8; needs no memory for a decoded copy."""
    ends = pa.array([0, len(data)], pa.int64()).buffers()[1]
    try:
        pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def utf8_fault(line: bytes) -> str | None:
    """Why a line is not UTF-8; None if it is."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        around = line[max(0, error.start - _N_SHOWN // 2) : error.start + _N_SHOWN // 2]
        return (
            f"expected text in UTF-8, got the byte 0x{line[error.start]:02x} in {around.decode('latin-1')!r}"
            " (shown as Latin-1); save the file as UTF-8, or mend this line"
        )
    return None


def check_utf8(path: object, data: bytes) -> None:
    """Check that `data`, the content of the file `path`, is UTF-8.

    Raises:
        InvalidRatingsFile: it is not; the message has the number of the first bad line, from 1.
    """
    if is_utf8(data):
        return
    number, reason = next((n, why) for n, line in enumerate(data.splitlines(), start=1) if (why := utf8_fault(line)))
    raise InvalidRatingsFile(f"Invalid line {number} of {path}: {reason}")
