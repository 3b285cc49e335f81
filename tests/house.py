"""`python -m tests.house`: the shape of `service/` and `gpu/` in numbers, such as rooms, floors, arrows and circles.

A room is a folder directly below the package, and each extra is one. An arrow leads from a room to one that it imports
from, by name too (`importlib.import_module("…")`); what is imported for types alone does not count. The floor of a room
is the longest way down from it.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SMALL = 60  # lines of a module that one other imports
Functions = ast.FunctionDef | ast.AsyncFunctionDef


class Shape(NamedTuple):
    """Numbers of a package.

    Attributes:
        modules, lines: of Python, without `__init__.py` that only have a docstring.
        rooms, floors, arrows: see this module.
        circles: rooms that import each other, also through others.
        private: share of functions whose names start with an underscore.
        small: modules of fewer than `SMALL` lines that exactly one other imports.
        median, longest: lines of functions.
    """

    modules: int
    lines: int
    rooms: int
    floors: int
    arrows: int
    circles: int
    private: float
    small: int
    median: float
    longest: int


@cache
def modules(package: str) -> Mapping[str, Path]:
    """The modules of a package by their dotted names."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports_of(package: str, name: str) -> set[str]:
    """The modules of the package that a module imports when it runs."""
    known, found = modules(package), set()
    for asked in _asked(ast.parse(known[name].read_text("utf-8"))):
        module = asked if asked in known else asked.rpartition(".")[0]  # of a name in a module
        if module in known and module != name:
            found.add(module)
    return found


def _asked(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            yield from (
                each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )
        yield from _asked(node)


def room_of(module: str) -> str:
    """The room of a module: `service.engine`, `service.extras.webhooks`; a module of the ground floor is one itself."""
    parts = module.split(".")
    return ".".join(parts[: 3 if parts[1:2] == ["extras"] else 2])


def arrows(package: str) -> dict[str, set[str]]:
    """The rooms that each room imports from."""
    found: dict[str, set[str]] = {}
    for name in modules(package):
        if name != package:
            below = found.setdefault(room_of(name), set())
            below |= {room_of(other) for other in imports_of(package, name) if other != package}
            below.discard(room_of(name))
    return found


def circles(below: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Rooms that reach each other."""
    reached = {room: _reached(room, below) for room in below}
    groups = (frozenset(other for other in reached[room] if room in reached[other]) for room in below)
    return {group for group in groups if len(group) > 1}


def _reached(room: str, below: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [room]
    while waiting:
        new = below.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def floors(below: Mapping[str, set[str]]) -> int:
    """The number of floors; rooms of a circle are on one."""
    circle_of = {room: circle for circle in circles(below) for room in circle}

    @cache
    def height(room: str) -> int:
        same = circle_of.get(room, frozenset((room,)))
        others = {other for one in same for other in below.get(one, ())} - same
        return 1 + max((height(other) for other in others), default=0)

    return max(map(height, below), default=0)


def shape(package: str) -> Shape:
    """The numbers of a package."""
    known, below = modules(package), arrows(package)
    importers: dict[str, int] = {}
    for name in known:
        for other in imports_of(package, name):
            importers[other] = importers.get(other, 0) + 1
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in known.items()}
    functions = [
        node
        for path in known.values()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, Functions)
    ]
    named = [node for node in functions if not node.name.startswith("__")]
    packages = {name for name, path in known.items() if path.name == "__init__.py"}
    sizes = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]
    return Shape(
        modules=len(known),
        lines=sum(lengths.values()),
        rooms=len(below),
        floors=floors(below),
        arrows=sum(map(len, below.values())),
        circles=len(circles(below)),
        private=sum(node.name.startswith("_") for node in named) / len(named),
        small=sum(n == 1 and lengths[name] < SMALL and name not in packages for name, n in importers.items()),
        median=statistics.median(sizes),
        longest=max(sizes),
    )


def main() -> None:
    """Print a row for each package, and the circles of rooms."""
    rows = ["package | " + " | ".join(Shape._fields)]
    for package in ("service", "gpu"):
        rows.append(f"{package} | " + " | ".join(f"{number:,.3f}".removesuffix(".000") for number in shape(package)))
        rows += [f"circle: {', '.join(circle)}" for circle in sorted(map(sorted, circles(arrows(package))))]
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
