"""`DATA/exports/<job>.parquet`: the lists of all users that a job has made. The newest five stay."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from service.base.errors import NotFound
from service.storage import files

FOLDER, SUFFIX = "exports", ".parquet"
N_KEPT = 5
_JOB = re.compile(r"[0-9a-f]{12}")


class UnknownLists(NotFound):
    """No job of that id has made lists, or they were removed."""

    slug, title = "unknown-lists", "Unknown lists"


class ListFile(msgspec.Struct):
    """One file: the job that has made it, its bytes, and when it was written, in Unix milliseconds."""

    job: str
    bytes: int
    created_ms: int


def path_of(data: Path, job: str) -> Path:
    """Where the lists of a job are, or will be."""
    return data / FOLDER / f"{job}{SUFFIX}"


def existing(data: Path, job: str) -> Path:
    """The file of a job.

    Raises:
        UnknownLists: there is none.
    """
    path = path_of(data, job)
    if not _JOB.fullmatch(job) or not path.is_file():
        raise UnknownLists(f"there are no lists of a job {job[:64]!r}")
    return path


def listed(data: Path) -> list[ListFile]:
    """All files, newest first."""
    paths = [(path, path.stat()) for path in (data / FOLDER).glob(f"*{SUFFIX}") if _JOB.fullmatch(path.stem)]
    list_files = [ListFile(path.stem, status.st_size, status.st_mtime_ns // 1_000_000) for path, status in paths]
    return sorted(list_files, key=lambda file: (-file.created_ms, file.job))


def prune(data: Path) -> None:
    """Remove all but the newest `N_KEPT` files, and what killed processes have left."""
    for file in listed(data)[N_KEPT:]:
        path_of(data, file.job).unlink(missing_ok=True)


def remove_all(data: Path) -> None:
    """Remove all files, half-written ones too: each names all users, and can be made again.

    No power cut brings one back. Raises OSError: the disk failed, and some may come back; call it again.
    """
    folder = data / FOLDER
    for path in (*folder.glob(f"*{SUFFIX}*"), *folder.glob(".*.tmp")):
        path.unlink(missing_ok=True)
    if folder.is_dir():
        files.sync(folder)
