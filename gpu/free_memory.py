"""Memory of the host that a computation can take: what the machine has, or less where a control group says so.

Groups are those of Linux, version 2 (`memory.max`) or 1 (`memory.limit_in_bytes`). A limit of any group above ours
holds for us too.
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
    droppable: str  # in memory.stat: pages of files, which are dropped where memory is wanted


_VERSIONS = (
    _Version("", "", "memory.max", "memory.current", "inactive_file"),
    _Version("memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_bytes() -> int:
    """Memory that can be taken now without any other process losing some."""
    available = next(line for line in MEMORY.read_text("ascii").splitlines() if line.startswith("MemAvailable:"))
    left = (_left(folder, version) for version in _VERSIONS for folder in _folders(version))
    return min([int(available.split()[1]) * 1024, *left])


def _folders(version: _Version) -> Iterator[Path]:
    """Our group and those above it. In a container only the root of what it sees may be there: that is our group."""
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
    """What the limit of one group leaves; `sys.maxsize` where it has none or is not there."""
    try:
        limit, used = ((folder / name).read_text("ascii").strip() for name in (version.limit, version.used))
        lines = [line.split() for line in (folder / "memory.stat").read_text("ascii").splitlines()]
    except OSError:
        return sys.maxsize
    droppable = next((int(value) for name, value in lines if name == version.droppable), 0)
    return sys.maxsize if limit == "max" else max(0, int(limit) - int(used) + droppable)
