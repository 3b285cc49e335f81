"""Folders of arrays that processes of one training share: ratings, checkpoints and models.

A folder holds one file of raw little-endian numbers per array, `manifest.json` (name, dtype, shape and SHA-256 of each
array, and a record of the writer) and `manifest.sha256`. It is written under a temporary name and renamed, so readers
see all of it or nothing. Arrays are mapped, not read: ranks on one machine share the memory of their pages.

Nothing is synced. These folders serve processes of the same machine and go with them: a crash of the machine ends the
training, whose job then fails.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.extras.ranks.errors import CorruptWorkFile, WorkFolderUnavailable
from service.storage import files

MANIFEST_FILE, DIGEST_FILE = "manifest.json", "manifest.sha256"


class ArrayRecord(msgspec.Struct, frozen=True):
    """Dtype (as NumPy writes it, such as `<f4`), shape and SHA-256 of one array."""

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
        for name, array in arrays.items():
            content = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            data = content.reshape(-1).view(np.uint8).data
            (temporary / f"{name}.bin").write_bytes(data)
            records[name] = ArrayRecord(content.dtype.str, array.shape, hashlib.sha256(data).hexdigest())
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
    try:
        manifest = files.read_regular(path / MANIFEST_FILE)
        if hashlib.sha256(manifest).hexdigest() != files.read_regular(path / DIGEST_FILE).decode():
            raise CorruptWorkFile(f"{path / MANIFEST_FILE} does not match {DIGEST_FILE}")
        contents = msgspec.json.decode(manifest, type=Contents)
        return {name: mapped(path, name, stored) for name, stored in contents.arrays.items()}, contents.record
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


def mapped(folder: Path, name: str, stored: ArrayRecord) -> NDArray[Any]:
    """The array in memory that is shared until a process changes it: kernels take no read-only arrays."""
    path, dtype = folder / f"{name}.bin", np.dtype(stored.dtype)
    n_bytes = int(np.prod(stored.shape, dtype=np.int64)) * dtype.itemsize
    if path.stat().st_size != n_bytes:
        raise CorruptWorkFile(f"{path}: expected {n_bytes:,} bytes, got {path.stat().st_size:,}")
    if files.sha256_of(path) != stored.sha256:
        raise CorruptWorkFile(f"{path} does not have the SHA-256 in {MANIFEST_FILE}")
    if n_bytes == 0:  # an empty file cannot be mapped
        return np.empty(stored.shape, dtype)
    return np.asarray(np.memmap(path, dtype, "c", shape=stored.shape))
