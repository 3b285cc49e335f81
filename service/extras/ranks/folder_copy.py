"""Copies a folder of arrays (`service.extras.ranks.array_folder`) to and from another machine by a connection.

The files follow each other without any framing: both sides know their names and sizes beforehand. The receiver writes
under a temporary name, checks all SHA-256 and renames, so that a torn or altered copy is never seen.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from service.extras.ranks import array_folder
from service.extras.ranks.errors import CorruptWorkFile, WorkFolderUnavailable
from service.storage import files

CHUNK = 1 << 20  # bytes received at once
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # no path, nothing hidden


def sizes(path: Path) -> dict[str, int]:
    """Names and bytes of the files of a folder, in the order of sending."""
    return {entry.name: entry.stat().st_size for entry in sorted(path.iterdir())}


def send(
    path: Path,
    expected: Mapping[str, int],
    connection: socket.socket,
    on_moved: Callable[[int], None] = lambda n_bytes: None,
) -> None:
    """Send the files of a folder.

    Args:
        path: the folder.
        expected: its `sizes`.
        connection: to the receiver.
        on_moved: called with the number of bytes after each file.

    Raises:
        OSError: the other side is gone, or a file cannot be read.
    """
    for name in expected:
        with files.open_regular(path / name) as file:
            on_moved(connection.sendfile(file))


def receive(
    path: Path,
    expected: Mapping[str, int],
    connection: socket.socket,
    on_moved: Callable[[int], None] = lambda n_bytes: None,
) -> None:
    """Receive a folder; an earlier one of this name is replaced.

    Args:
        path: the folder.
        expected: `sizes` of the sender.
        connection: to the sender.
        on_moved: called with the number of bytes of each piece that has arrived.

    Raises:
        ConnectionError: the copy is torn or altered, or a name is not that of a file; nothing is left behind.
        WorkFolderUnavailable: the disk is full or broken; nothing is left behind.
    """
    if bad := [name for name in expected if not _FILE_NAME.fullmatch(name)]:
        raise ConnectionError(f"Invalid file of {path.name}: expected a plain name, got {bad[0]!r}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        for name, n_bytes in expected.items():
            with (temporary / name).open("wb") as file:
                missing = n_bytes
                while missing:
                    data = connection.recv(min(CHUNK, missing))
                    if not data:
                        raise ConnectionError(
                            f"the copy is torn: {missing:,} of {n_bytes:,} bytes of a file are missing"
                        )
                    file.write(data)
                    missing -= len(data)
                    on_moved(len(data))
        array_folder.read(temporary)
        shutil.rmtree(path, ignore_errors=True)
        files.rename(temporary, path)
    except CorruptWorkFile as error:
        raise ConnectionError(f"{path.name} arrived altered: {error}") from error
    except (ConnectionError, TimeoutError):
        raise
    except OSError as error:
        raise WorkFolderUnavailable.of(path.parent, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
