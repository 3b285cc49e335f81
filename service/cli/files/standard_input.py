"""Lets `nearfield import` read a file from standard input. Its suffix, as that of other files, names its format."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from service.cli.files.errors import InvalidRatingsFile
from service.settings.errors import InvalidSetting

DASH = Path("-")  # stands for standard input
FORMATS = ("csv", "jsonl", "parquet", "npz", "mat", "mtx")  # csv: any text; csv and jsonl may be compressed by gzip
_GZIP, _GZIP_WINDOW = b"\x1f\x8b", 31
_HEAD_BYTES = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# First bytes of formats, and their names.
_BEGINNINGS = {
    b"PAR1": "parquet",
    b"PK\x03\x04": "npz",
    b"MATLAB": "mat",
    b"%%MatrixMarket": "mtx",
    b"{": "jsonl",
    b"[": "jsonl",
}


def name_of(file: Path) -> str:
    """The name of a file in messages."""
    return "standard input" if file == DASH else str(file)


@contextlib.contextmanager
def opened(file: Path, format_: str | None) -> Iterator[Path]:
    """The path of `file`; if it is `DASH`, of a temporary file with all of standard input, as long as it is open.

    Args:
        file: the file, or `DASH`.
        format_: of standard input, one of `FORMATS`; default: by the first bytes.

    Raises:
        InvalidSetting: another format, or a format of a file, whose name has it.
    """
    if format_ is not None and (file != DASH or format_ not in FORMATS):
        expected = f"{', '.join(FORMATS)} of standard input, which is the file -"
        raise InvalidSetting(f"Invalid format: expected {expected}, got {format_} of {name_of(file)}")
    if file != DASH:
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="nearfield-import-") as folder:
        head = sys.stdin.buffer.read(_HEAD_BYTES)
        path = Path(folder) / f"input.{format_ or recognized(head)}"
        with path.open("wb") as copy:
            copy.write(head)
            shutil.copyfileobj(sys.stdin.buffer, copy)
        try:
            yield path
        except InvalidRatingsFile as error:
            raise InvalidRatingsFile(str(error).replace(str(path), name_of(file))) from None


def recognized(head: bytes) -> str:
    """The format, one of `FORMATS`, of what begins with `head`."""
    if head.startswith(_GZIP):
        with contextlib.suppress(zlib.error):  # reported later, like other damage
            head = zlib.decompressobj(_GZIP_WINDOW).decompress(head, _HEAD_BYTES)
    head = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    return next((name for beginning, name in _BEGINNINGS.items() if head.startswith(beginning)), "csv")
