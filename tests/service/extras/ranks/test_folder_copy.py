"""Copies of folders of arrays over a connection: whole or not at all."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.extras.ranks import array_folder, folder_copy
from service.extras.ranks.errors import WorkFolderUnavailable
from tests.faults.small_disk import small_disk

__all__ = ["small_disk"]

ARRAYS: dict[str, NDArray[Any]] = {"users": np.arange(200_000, dtype=np.float32), "empty": np.empty((0, 3), np.int64)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    array_folder.write(tmp_path / "from" / "ratings", ARRAYS, {"of": "a test"})
    return tmp_path / "from" / "ratings"


@contextlib.contextmanager
def sending(send: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """The receiver's end of a connection whose other end sends."""
    ours, theirs = socket.socketpair()

    def run() -> None:
        with theirs, contextlib.suppress(OSError):
            send(theirs)

    thread = threading.Thread(target=run)
    thread.start()
    with ours:
        yield ours
    thread.join()


def copied(folder: Path, target: Path, n_lost: int = 0) -> int:
    """Copy over a connection that loses the last bytes; the number of bytes that arrived."""
    moved, sizes = [0], folder_copy.sizes(folder)

    def send(connection: socket.socket) -> None:
        content = b"".join((folder / name).read_bytes() for name in sizes)
        if n_lost:
            connection.sendall(content[:-n_lost])
        else:
            folder_copy.send(folder, sizes, connection, lambda n_bytes: None)

    with sending(send) as connection:
        folder_copy.receive(target, sizes, connection, lambda n_bytes: moved.__setitem__(0, moved[0] + n_bytes))
    return moved[0]


def test_a_copy_has_the_arrays_the_record_and_the_digest(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "to" / "ratings"
    assert copied(folder, target) == sum(folder_copy.sizes(folder).values())
    assert copied(folder, target) > 0, "it replaces an earlier copy"
    arrays, record = array_folder.read(target)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
    assert (record, array_folder.digest_of(target)) == ({"of": "a test"}, array_folder.digest_of(folder))


@pytest.mark.parametrize("n_lost", [1, 500_000])
def test_a_torn_copy_is_refused_and_leaves_nothing(folder: Path, tmp_path: Path, n_lost: int) -> None:
    target = tmp_path / "to" / "ratings"
    with pytest.raises(ConnectionError, match="bytes of a file are missing"):
        copied(folder, target, n_lost)
    assert list(target.parent.iterdir()) == []


def test_an_altered_copy_is_refused_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    content = bytearray((folder / "users.bin").read_bytes())
    content[1000] ^= 1
    (folder / "users.bin").write_bytes(content)
    with pytest.raises(ConnectionError, match=r"ratings arrived altered: .*users\.bin does not have the SHA-256"):
        copied(folder, tmp_path / "to" / "ratings")
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize("name", ["../users.bin", "/etc/passwd", ".hidden", "a/b", ""])
def test_no_file_leaves_the_folder(tmp_path: Path, name: str) -> None:
    with sending(lambda connection: None) as connection, pytest.raises(ConnectionError, match="expected a plain name"):
        folder_copy.receive(tmp_path / "to" / "ratings", {name: 0}, connection, lambda n_bytes: None)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_clear_error(folder: Path, small_disk: Path) -> None:
    array_folder.write(folder, {"large": np.zeros(64 << 20, np.uint8)}, {})
    with pytest.raises(WorkFolderUnavailable, match="No space left on device"):
        copied(folder, small_disk / "ratings")
    assert list(small_disk.iterdir()) == []
