"""Measures the free memory of the host: that of the machine, or less under the limit of a control group.

Control groups are those of Linux, version 2 (`memory.max`) or 1 (`memory.limit_in_bytes`). A limit of any group above
ours applies to us too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MEMORY, OWN_GROUPS, GROUPS = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


class _Version(NamedTuple):
    """Names of one version: its controller in `OWN_GROUPS`, its folder below `GROUPS`, and its files."""

    controller: str
    folder: str
    limit: str
    used: str
    droppable: str  # field of memory.stat: pages of files, which the system drops on demand


_VERSIONS = (
    _Version("", "", "memory.max", "memory.current", "inactive_file"),
    _Version("memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_bytes() -> int:
    """Bytes that can be allocated now without taking memory from another process."""
    available = next(line for line in MEMORY.read_text("ascii").splitlines() if line.startswith("MemAvailable:"))
    left = (_left(folder, version) for version in _VERSIONS for folder in _folders(version))
    return min([int(available.split()[1]) * 1024, *left])


def _folders(version: _Version) -> Iterator[Path]:
    """Folders of our group and those above it. A container may see only a root folder: that is our group."""
    root = GROUPS / version.folder
    yield root
    try:
        lines = OWN_GROUPS.read_text("utf-8").splitlines()
    except OSError:
        return
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if version.controller in controllers.split(","):
            own = PurePosixPath(path.lstrip("/"))
            yield from (root / group for group in (own, *own.parents) if ".." not in group.parts)


def _left(folder: Path, version: _Version) -> int:
    """Bytes left under the limit of one group; `sys.maxsize` if the group has no limit or does not exist."""
    try:
        limit, used = ((folder / name).read_text("ascii").strip() for name in (version.limit, version.used))
        lines = [line.split() for line in (folder / "memory.stat").read_text("ascii").splitlines()]
    except OSError:
        return sys.maxsize
    droppable = next((int(value) for name, value in lines if name == version.droppable), 0)
    return sys.maxsize if limit == "max" else max(0, int(limit) - int(used) + droppable)
