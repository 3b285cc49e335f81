"""The shape of the packages gets no worse. `python -m tests.house` prints it; CONTRIBUTING.md gives the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import house

# The most that each package may have. Lower a bound when you improve its number. None is ever raised, but `arrows` by
# those of a new room, such as the folder of an algorithm.
BOUNDS = {
    "service": {
        "floors": 9,
        "arrows": 41,
        "extra_arrows": 4.8,
        "in_circles": 0,
        "small": 9,
        "private": 0.188,
        "once": 13,
    },
    "gpu": {"floors": 7, "arrows": 67, "in_circles": 0, "small": 3, "private": 0.22, "once": 20},
}
KINDS_ASKED = 9  # places that ask which algorithm something is, outside its folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `toy` with three rooms: `top` imports `middle`, which imports `low`, one of them by name."""
    monkeypatch.setattr(house, "ROOT", tmp_path)
    caches = house.modules, house.imports, house.small
    for cached in caches:
        cached.cache_clear()
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
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize("package", BOUNDS)
def test_the_shape_of_a_package_gets_no_worse(package: str) -> None:
    numbers = house.shape(package)._asdict()
    worse = {name: (numbers[name], bound) for name, bound in BOUNDS[package].items() if numbers[name] > bound}
    assert worse == {}, "(number, bound); `python -m tests.house` shows more"


def test_what_an_algorithm_is_others_ask_of_its_hyperparameters() -> None:
    asked = house.kinds_asked(house.ALL)
    assert len(asked) <= KINDS_ASKED, asked


def test_questions_for_an_algorithm_are_seen(package: Path) -> None:
    (package / "low" / "c.py").write_text(
        'isinstance(x, SgdParams)\ncast("EaseParams", x)\nif name in ("als", "ease"):\n    x = {"nmf": 1, "sgd": 2}\n'
        'getattr(params, "alpha", 0)\nhasattr(model.params, "alpha")\n'
        'getattr(params, name)\n{"als": 1, "other": 2}\nname in ALGORITHMS\nisinstance(x, str)\n'
    )
    lines = [int(line.split(":")[1]) for line in house.kinds_asked(["toy"])]
    assert sorted(lines) == [1, 2, 3, 4, 5, 6]


def test_arrows_follow_names_and_leave_out_types(package: Path) -> None:
    below = house.arrows("toy")
    assert below == {"toy.top": {"toy.middle"}, "toy.middle": {"toy.low"}, "toy.low": set()}
    assert (house.floors(below), house.circles(below)) == (3, set())


def test_circles_are_seen(package: Path) -> None:
    (package / "low" / "c.py").write_text("def later():\n    from toy.top import a\n")
    assert house.circles(house.arrows("toy")) == {frozenset(("toy.top", "toy.middle", "toy.low"))}
    assert house.floors(house.arrows("toy")) == 1
    assert house.circles(house.imports("toy")) == {frozenset(("toy.top.a", "toy.middle.b", "toy.low.c"))}


def test_who_asks_for_a_twin_imports_the_modules_of_host_and_device(package: Path) -> None:
    for name in ("host", "device"):
        (package / "low" / f"{name}.py").touch()
    for lines, below in (("host.rank()", {"toy.low.host"}), ("twin(host.rank)()", {"toy.low.host", "toy.low.device"})):
        (package / "middle" / "b.py").write_text(f"from toy.low import host\n{lines}\n")
        house.imports.cache_clear()
        house.tree_of.cache_clear()
        assert house.imports("toy")["toy.middle.b"] == below


def test_each_extra_has_arrows_of_its_own(package: Path) -> None:
    for name in ("one", "two"):
        (package / "extras" / name).mkdir(parents=True)
        (package / "extras" / name / "__init__.py").write_text("from toy.low import c\n")
    assert house.arrows("toy")["toy.extras"] == {"toy.low"}
    numbers = house.shape("toy")
    assert (numbers.extras, numbers.extra_arrows, numbers.arrows) == (2, 1, 3)


def test_small_modules_have_one_importer(package: Path) -> None:
    assert house.small("toy") == ["toy.low.c", "toy.middle.b"]
    (package / "middle" / "b.py").write_text("from toy.low import c\n" * house.SMALL)
    house.small.cache_clear()
    assert house.small("toy") == ["toy.low.c"]


def test_functions_that_one_call_uses_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "functions.py"
    path.write_text(
        "def _once():\n    pass\n\ndef _twice():\n    pass\n\ndef _given():\n    pass\n\ndef public():\n    pass\n\n"
        "def _long():\n" + "    pass\n" * house.SHORT + "\n"
        "class Owner:\n    def _method(self):\n        pass\n\n"
        "_once()\n_twice(_twice())\nThread(_given)\npublic()\n_long()\nOwner()._method()\n"
    )
    assert house.called_once(path) == ["_once", "_method"]
