"""Folders of arrays that processes of one training share: ratings, checkpoints and models.

A folder holds one file of raw little-endian numbers per array, `manifest.json` (name, dtype, shape and digest of each
array, and a record of the writer) and `manifest.sha256`. It is written under a temporary name and renamed, so readers
see all of it or nothing. Arrays are mapped, not read: ranks on one machine share the memory of their pages.

Billions of ratings take tens of gigabytes. So threads write and check pieces of files at the same time, and the digest
of an array is the SHA-256 of those of its pieces.

Nothing is synced. These folders serve processes of the same machine and go with them: a crash of the machine ends the
training, whose job then fails.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.extras.ranks.errors import CorruptWorkFile, WorkFolderUnavailable
from service.storage import files

MANIFEST_FILE, DIGEST_FILE = "manifest.json", "manifest.sha256"


PIECE_BYTES = 32 * 2**20  # of an array, which one thread writes or checks
MOST_THREADS = 16  # beyond it memory is the limit


class ArrayRecord(msgspec.Struct, frozen=True):
    """Dtype (as NumPy writes it, such as `<f4`), shape, and SHA-256 of the SHA-256 of all pieces of one array."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str


class Contents(msgspec.Struct, frozen=True):
    """The manifest of a folder: its arrays by name, and a record of the writer."""

    arrays: dict[str, ArrayRecord]
    record: dict[str, Any]


def write(path: Path, arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> str:
    """Write the folder `path`, and return the SHA-256 of its manifest.

    Args:
        path: the folder; an earlier one of this name is removed first.
        arrays: any dtypes, by names that are valid in file names.
        record: JSON values.

    Raises:
        WorkFolderUnavailable: the disk is full or broken; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        records = {}
        with threads() as pool:
            for name, array in arrays.items():
                content = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
                with (temporary / f"{name}.bin").open("wb", buffering=0) as file:

                    def write_piece(piece: memoryview, first: int, descriptor: int = file.fileno()) -> None:
                        """Write a piece of the file from byte `first` on."""
                        while len(piece):
                            n = os.pwrite(descriptor, piece, first)
                            piece, first = piece[n:], first + n

                    digest = digest_in_pieces(content, pool, write_piece)
                records[name] = ArrayRecord(content.dtype.str, array.shape, digest)
        manifest = msgspec.json.encode(Contents(records, dict(record)))
        digest = hashlib.sha256(manifest).hexdigest()
        (temporary / MANIFEST_FILE).write_bytes(manifest)
        (temporary / DIGEST_FILE).write_text(digest, "ascii")
        shutil.rmtree(path, ignore_errors=True)
        files.rename(temporary, path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise WorkFolderUnavailable.of(path.parent, error) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return digest


def read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the record of a folder, after checking every file.

    Changes of the arrays stay in this process.

    Raises:
        CorruptWorkFile: a file is missing, torn or altered; the message names it.
    """
    contents = contents_of(path)
    try:
        with threads() as pool:
            arrays = {name: mapped(path, name, stored, pool) for name, stored in contents.arrays.items()}
        return arrays, contents.record
    except (OSError, ValueError) as error:
        raise CorruptWorkFile(f"{path} cannot be read: {error}") from error


def contents_of(path: Path) -> Contents:
    """The manifest of a folder, without its arrays.

    Raises:
        CorruptWorkFile: it is missing, torn or altered.
    """
    try:
        manifest = files.read_regular(path / MANIFEST_FILE)
        if hashlib.sha256(manifest).hexdigest() != files.read_regular(path / DIGEST_FILE).decode():
            raise CorruptWorkFile(f"{path / MANIFEST_FILE} does not match {DIGEST_FILE}")
        return msgspec.json.decode(manifest, type=Contents)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise CorruptWorkFile(f"{path} cannot be read: {error}") from error


def digest_of(path: Path) -> str:
    """The SHA-256 of the manifest, and so of all content.

    Raises:
        CorruptWorkFile: it cannot be read.
    """
    try:
        return files.read_regular(path / DIGEST_FILE).decode()
    except (OSError, ValueError) as error:
        raise CorruptWorkFile(f"{path} cannot be read: {error}") from error


def mapped(folder: Path, name: str, stored: ArrayRecord, pool: ThreadPoolExecutor) -> NDArray[Any]:
    """The array in memory that is shared until a process changes it: kernels take no read-only arrays."""
    path, dtype = folder / f"{name}.bin", np.dtype(stored.dtype)
    n_bytes = int(np.prod(stored.shape, dtype=np.int64)) * dtype.itemsize
    if path.stat().st_size != n_bytes:
        raise CorruptWorkFile(f"{path}: expected {n_bytes:,} bytes, got {path.stat().st_size:,}")
    # An empty file cannot be mapped.
    array = np.asarray(np.memmap(path, dtype, "c", shape=stored.shape)) if n_bytes else np.empty(stored.shape, dtype)
    if digest_in_pieces(array, pool) != stored.sha256:
        raise CorruptWorkFile(f"{path} does not have the SHA-256 in {MANIFEST_FILE}")
    return array


def threads() -> ThreadPoolExecutor:
    """Threads that write or check pieces of arrays."""
    return ThreadPoolExecutor(min(MOST_THREADS, len(os.sched_getaffinity(0))), "array-folder")


def digest_in_pieces(
    array: NDArray[Any], pool: ThreadPoolExecutor, work: Callable[[memoryview, int], None] | None = None
) -> str:
    """SHA-256 of the SHA-256 of all pieces of a contiguous array; `work` gets each piece, and where it begins."""
    data = array.reshape(-1).view(np.uint8).data

    def digest_of_piece(first: int) -> bytes:
        piece = data[first : first + PIECE_BYTES]
        if work is not None:
            work(piece, first)
        return hashlib.sha256(piece).digest()

    return hashlib.sha256(b"".join(pool.map(digest_of_piece, range(0, len(data), PIECE_BYTES)))).hexdigest()
