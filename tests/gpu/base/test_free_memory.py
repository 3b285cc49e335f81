"""Free memory under limits of control groups: of both versions, in our group or in one above it."""

import sys
from pathlib import Path

import pytest

from gpu.base import free_memory
from gpu.base.backend import HOST
from gpu.base.free_memory import free_bytes

AVAILABLE = 1_024_000


@pytest.fixture(autouse=True)
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without control groups."""
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal: 2000 kB\nMemFree: 10 kB\nMemAvailable:    1000 kB\n")
    monkeypatch.setattr(free_memory, "MEMORY", memory)
    monkeypatch.setattr(free_memory, "OWN_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(free_memory, "GROUPS", tmp_path / "groups")
    return tmp_path / "groups"


def write_v2(folder: Path, limit: str | int, used: int, droppable: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {droppable}\nactive_file 7\n")


def write_v1(folder: Path, limit: str | int, used: int, droppable: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"inactive_file 1\ntotal_rss 4\ntotal_inactive_file {droppable}\n")


def test_without_groups_it_is_what_the_machine_has() -> None:
    assert free_bytes() == AVAILABLE
    assert HOST.free_bytes() == AVAILABLE


@pytest.mark.parametrize(
    ("limit", "used", "droppable", "free"), [("max", 9, 0, AVAILABLE), ("600", 500, 50, 150), ("600", 700, 0, 0)]
)
def test_version_2(groups: Path, limit: str, used: int, droppable: int, free: int) -> None:
    write_v2(groups, limit, used, droppable)
    assert free_bytes() == free


def test_version_1_in_a_container_that_sees_its_own_group_alone(groups: Path, tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("4:memory:/docker/abc\n0::/\n")
    write_v1(groups / "memory", 9_223_372_036_854_771_712, 500)
    assert free_bytes() == AVAILABLE
    write_v1(groups / "memory", 600, 500, 50)
    assert free_bytes() == 150


@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_of_our_group_or_of_one_above_it_counts(groups: Path, tmp_path: Path, version: int) -> None:
    lines = "5:cpu,memory:/system.slice/nearfield.service\n" if version == 1 else "0::/system.slice/nearfield.service\n"
    (tmp_path / "cgroup").write_text(f"2:cpuset:/other\n{lines}")
    root, write = (groups / "memory", write_v1) if version == 1 else (groups, write_v2)
    write(root / "system.slice", "10000", 1000)
    assert free_bytes() == 9000
    write(root / "system.slice" / "nearfield.service", "700", 100)
    assert free_bytes() == 600
    write(root / "other", "1", 1)
    assert free_bytes() == 600


def test_free_memory_of_this_machine_is_plausible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert 10_000_000 < free_bytes() < sys.maxsize
