"""Append-only files that an embedded Redis no longer uses: it was killed while it rewrote them, and they name users."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from service.storage import files

_MANIFEST = "appendonlydir/appendonly.aof.manifest"


def unused(folder: Path) -> list[Path]:
    """What the server does not use in its folder; empty where it keeps its files elsewhere.

    Ask while nothing is being rewritten, and remove after the next rewrite: only then is it clear that no process
    writes these files.
    """
    if not (folder / _MANIFEST).exists():
        return []
    parts = [path for path in (folder / "appendonlydir").glob("appendonly.aof.*.*") if path.name not in _used(folder)]
    return [*folder.glob("temp-*"), *(folder / "appendonlydir").glob("temp-*"), *parts]


def remove(folder: Path, paths: Iterable[Path]) -> None:
    """Remove those of `paths` that are still not used.

    Raises:
        OSError: one cannot be removed.
    """
    for path in paths:
        if path.name not in _used(folder):
            path.unlink(missing_ok=True)


def _used(folder: Path) -> set[str]:
    """Names in the manifest of the server, lines such as `file appendonly.aof.2.base.rdb seq 2 type b`, and its own."""
    names = {Path(_MANIFEST).name}
    with contextlib.suppress(FileNotFoundError):
        for line in files.read_regular(folder / _MANIFEST).decode(errors="replace").splitlines():
            names |= set(line.split()[1:2])
    return names
