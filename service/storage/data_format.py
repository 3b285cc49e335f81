"""The format of DATA and of stream entries: which version wrote the folder, and which versions can read it."""

from __future__ import annotations

from pathlib import Path

import msgspec

import service
from service.base.errors import ServiceError
from service.storage import files
from service.storage.events import Fields

FORMAT = 3  # grows when an earlier version could not read what this one writes: name the fields before in `_SINCE`
FORMAT_FILE, LOCK_FILE = "format.json", ".format.lock"
_FIRST = 1  # of folders without the file
_SINCE = {  # fields of entries before `FORMAT`
    **dict.fromkeys((b"v", b"ratings", b"forget", b"hide", b"show"), _FIRST),
    **dict.fromkeys((b"events", b"items", b"document", b"merge", b"unmark"), 2),
    **dict.fromkeys((b"source", b"owner", b"attributed", b"shown"), 2),
}


class NewerData(ServiceError):
    """A newer version of Nearfield wrote the data folder; the message names the version to install."""

    status, slug, title = 500, "newer-data", "Data of a newer version"


class _Written(msgspec.Struct):
    """Content of the file.

    Attributes:
        format: of the folder.
        nearfield: version that wrote it first.
    """

    format: int
    nearfield: str


def format_of(fields: Fields) -> int:
    """The first format that knows all fields of an entry."""
    return max(_SINCE.get(name, FORMAT) for name in fields)


def check(data: Path) -> int:
    """The format of the folder. Call it before anything else of the folder is read.

    Raises:
        NewerData: this version cannot read it, or the file is damaged.
    """
    path = data / FORMAT_FILE
    try:
        written = msgspec.json.decode(files.read_regular(path), type=_Written)
    except FileNotFoundError:
        return _FIRST
    except (OSError, msgspec.MsgspecError) as error:
        raise NewerData(
            f"Invalid {path}: expected the format of the data folder, got a damaged file ({error}); remove it if no"
            f" version above {service.__version__} has used the folder"
        ) from None
    if written.format > FORMAT:
        raise NewerData(
            f"{data} was written by format {written.format}; this version reads up to {FORMAT}: install Nearfield ≥"
            f" {written.nearfield}"
        )
    return written.format


def enter(data: Path) -> None:
    """Check the folder, which must exist, and write `FORMAT` into it if its own is lower. It is on disk on return.

    Raises:
        NewerData: see `check`. LockTimeout, OSError: the file cannot be written.
    """
    if check(data) < FORMAT:
        with files.FileLock.take(data / LOCK_FILE):
            if check(data) < FORMAT:
                files.replace(data / FORMAT_FILE, msgspec.json.encode(_Written(FORMAT, service.__version__)))
    files.sync(data)  # also when the file is there: an earlier start may have failed here
