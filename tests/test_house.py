"""The rooms of the service: few, on few floors, without circles. `python -m tests.house` prints all numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import house

FLOORS, ARROWS, SMALL = 9, 81, 46  # at most


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `toy` with three rooms: `top` imports `middle`, which imports `low`, one of them by name."""
    monkeypatch.setattr(house, "ROOT", tmp_path)
    house.modules.cache_clear()
    for name, text in {
        "top/a.py": "from toy.middle import b\n",
        "middle/b.py": 'import importlib\nc = importlib.import_module("toy.low.c")\n',
        "low/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy.top import a\n",
    }.items():
        path = tmp_path / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()
    (tmp_path / "toy" / "__init__.py").touch()
    yield tmp_path / "toy"
    house.modules.cache_clear()


def test_rooms_of_the_service_stay_few_and_in_order() -> None:
    found = house.shape("service")
    assert found.circles == 0
    assert (found.floors <= FLOORS, found.arrows <= ARROWS, found.small <= SMALL) == (True, True, True), found


def test_arrows_follow_names_and_leave_out_types(package: Path) -> None:
    below = house.arrows("toy")
    assert below == {"toy.top": {"toy.middle"}, "toy.middle": {"toy.low"}, "toy.low": set()}
    assert (house.floors(below), house.circles(below)) == (3, set())


def test_circles_are_seen(package: Path) -> None:
    (package / "low" / "c.py").write_text("def later():\n    from toy.top import a\n")
    assert house.circles(house.arrows("toy")) == {frozenset(("toy.top", "toy.middle", "toy.low"))}
    assert house.floors(house.arrows("toy")) == 1
