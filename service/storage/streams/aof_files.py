"""Removes append-only files that an embedded Redis left when it was killed during a rewrite: they name users."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from service.storage import files

_MANIFEST = "appendonlydir/appendonly.aof.manifest"


def unused(folder: Path) -> list[Path]:
    """Files in the server's folder that the server does not use; empty if it keeps its files elsewhere.

    Call it while no rewrite runs, and remove the files after the next rewrite: only then is it certain that no process
    writes them.
    """
    if not (folder / _MANIFEST).exists():
        return []
    parts = [path for path in (folder / "appendonlydir").glob("appendonly.aof.*.*") if path.name not in _used(folder)]
    return [*folder.glob("temp-*"), *(folder / "appendonlydir").glob("temp-*"), *parts]


def remove(folder: Path, paths: Iterable[Path]) -> None:
    """Remove those of `paths` that are still unused.

    Raises:
        OSError: a file cannot be removed.
    """
    for path in paths:
        if path.name not in _used(folder):
            path.unlink(missing_ok=True)


def _used(folder: Path) -> set[str]:
    """The manifest and the files it names, in lines such as `file appendonly.aof.2.base.rdb seq 2 type b`."""
    names = {Path(_MANIFEST).name}
    with contextlib.suppress(FileNotFoundError):
        for line in files.read_regular(folder / _MANIFEST).decode(errors="replace").splitlines():
            names |= set(line.split()[1:2])
    return names
