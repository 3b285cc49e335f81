"""`python -m tests.house`: the shape of `service/` and `gpu/` in numbers, such as rooms, floors, arrows and circles.

A room is a folder or a module directly below the package. An arrow leads from a room to one that it imports from, by
name too: `importlib.import_module("gpu.base.device")`, and `backend.twin(host.solve)`, which may mean `device.solve`.
What is imported for types alone does not count. The floor of a room is the longest way down from it. Extras are one
room here; their own arrows are counted apart, because each should know few rooms.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpu.algorithms import ALGORITHMS

ROOT = Path(__file__).resolve().parents[1]
ALL = "gpu", "service", "benchmarks", "loadtest"
SMALL = 60  # lines of a module that one other imports
SHORT = 6  # lines of a function that one other calls
Functions = ast.FunctionDef | ast.AsyncFunctionDef
Below = Mapping[str, set[str]]


class Shape(NamedTuple):
    """Numbers of a package.

    Attributes:
        rooms, floors, arrows: see this module.
        extras, extra_arrows: folders in `extras`, and the arrows from one of them to rooms and to others, on average.
        circles, in_circles: groups of modules that import each other, also through others; and these modules.
        small: modules of fewer than `SMALL` lines that exactly one other imports.
        modules, lines: of Python.
        half, most, longest: lines of a module that 50 %, 90 % and all of them do not exceed.
        functions, private: their number, and the share whose names start with an underscore.
        once: private functions of up to `SHORT` lines with one call and no other use.
    """

    rooms: int
    floors: int
    arrows: int
    extras: int
    extra_arrows: float
    circles: int
    in_circles: int
    small: int
    modules: int
    lines: int
    half: float
    most: float
    longest: int
    functions: int
    private: float
    once: int


@cache
def modules(package: str) -> Mapping[str, Path]:
    """The modules of a package by their dotted names."""
    paths = sorted((ROOT / package).rglob("*.py"))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax of a module."""
    return ast.parse(path.read_text("utf-8"))


@cache
def imports(package: str) -> Mapping[str, set[str]]:
    """The modules of the package that each module imports when it runs; the package itself is not one of them."""
    names = modules(package)
    below: dict[str, set[str]] = {}
    for name, path in names.items():
        asked = {other if other in names else other.rpartition(".")[0] for other in _asked(tree_of(path))}
        if any(_name_of(node) == "twin" for node in ast.walk(tree_of(path))):
            asked |= {other.replace("host", "device") for other in asked}
        below[name] = {other for other in asked if other in names} - {name, package}
    return below


def _asked(tree: ast.AST) -> Iterator[str]:
    """The modules, and names in modules, that a piece of code imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if node.func.attr == "import_module":
                yield from texts
        yield from _asked(node)


def room_of(module: str) -> str:
    """`service.engine` of `service.engine.state.history`."""
    return ".".join(module.split(".")[:2])


def extra_of(module: str) -> str:
    """The room of a module, where each extra is a room: `service.extras.webhooks`."""
    parts = module.split(".")
    return ".".join(parts[: 3 if parts[1:2] == ["extras"] else 2])


def arrows(package: str, extras: bool = False) -> dict[str, set[str]]:
    """The rooms that each room imports from; with `extras` each extra is a room."""
    group = extra_of if extras else room_of
    below: dict[str, set[str]] = {}
    for name, others in imports(package).items():
        if name != package:
            below.setdefault(group(name), set()).update(map(group, others))
    return {room: others - {room} for room, others in below.items()}


def circles(below: Below) -> set[frozenset[str]]:
    """Groups of rooms or modules that reach each other."""
    reached = {name: _reached(name, below) for name in below}
    groups = (frozenset(other for other in reached[name] if name in reached[other]) for name in below)
    return {group for group in groups if len(group) > 1}


def _reached(name: str, below: Below) -> set[str]:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        new = below.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def floors(below: Below) -> int:
    """The number of floors; rooms of a circle are on one."""
    circle_of = {room: circle for circle in circles(below) for room in circle}

    @cache
    def height(room: str) -> int:
        same = circle_of.get(room, frozenset((room,)))
        others = {other for one in same for other in below.get(one, ())} - same
        return 1 + max((height(other) for other in others), default=0)

    return max(map(height, below), default=0)


@cache
def small(package: str) -> list[str]:
    """The modules of fewer than `SMALL` lines that exactly one other imports."""
    names = modules(package)
    importers = Counter(other for others in imports(package).values() for other in others)
    return [
        name
        for name, path in names.items()
        if importers[name] == 1 and _lines(path) < SMALL and path.name != "__init__.py"
    ]


@cache
def called_once(path: Path) -> list[str]:
    """The private functions of a module with up to `SHORT` lines, one call and no other use."""
    nodes = list(ast.walk(tree_of(path)))
    uses = Counter(_name_of(node) for node in nodes)
    calls = Counter(_name_of(node.func) for node in nodes if isinstance(node, ast.Call))
    return [
        node.name
        for node in nodes
        if isinstance(node, Functions) and _is_private(node) and _length(node) <= SHORT
        if uses[node.name] == calls[node.name] == 1
    ]


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_private(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return node.name.startswith("_") and not node.name.startswith("__")


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module, without those that Python calls by their names."""
    nodes = (node for node in ast.walk(tree_of(path)) if isinstance(node, Functions))
    return [node for node in nodes if not node.name.startswith("__")]


def _share_private(functions: list[ast.FunctionDef | ast.AsyncFunctionDef]) -> float:
    return sum(map(_is_private, functions)) / max(1, len(functions))


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def shape(package: str) -> Shape:
    """The numbers of a package."""
    paths = list(modules(package).values())
    functions = [node for path in paths for node in _functions(path)]
    lengths = [_lines(path) for path in paths]
    below, apart = arrows(package), arrows(package, extras=True)
    extras = {name: others for name, others in apart.items() if name.count(".") == 2}
    groups = circles(imports(package))
    return Shape(
        rooms=len(below),
        floors=floors(below),
        arrows=sum(map(len, below.values())),
        extras=len(extras),
        extra_arrows=sum(map(len, extras.values())) / max(1, len(extras)),
        circles=len(groups),
        in_circles=sum(map(len, groups)),
        small=len(small(package)),
        modules=len(paths),
        lines=sum(lengths),
        half=statistics.median(lengths),
        most=statistics.quantiles(lengths * 2, n=10)[-1],
        longest=max(lengths),
        functions=len(functions),
        private=_share_private(functions),
        once=sum(len(called_once(path)) for path in paths),
    )


def room_lines(package: str) -> Iterator[str]:
    """A line for each room: some of its numbers, and the rooms that it imports from."""
    yield "modules  lines  small  private  once  room → rooms"
    for room, others in sorted(arrows(package, extras=True).items()):
        names = [name for name in modules(package) if name != package and extra_of(name) == room]
        paths = [modules(package)[name] for name in names]
        private = _share_private([node for path in paths for node in _functions(path)])
        n_small, n_once = len({*names} & {*small(package)}), sum(len(called_once(path)) for path in paths)
        numbers = f"{len(paths):7}{sum(map(_lines, paths)):7,}{n_small:7}{private:9.0%}{n_once:6}"
        yield f"{numbers}  {room} → {' '.join(sorted(other.removeprefix(f'{package}.') for other in others))}"


def kinds_asked(packages: Sequence[str]) -> list[str]:
    """Where code outside the folder of an algorithm asks which one it has: `file:line: code`.

    By the class of its hyperparameters (isinstance, issubclass, cast), by its name (a comparison, or a dictionary with
    nothing else as keys), or by whether it has a parameter (getattr, hasattr).
    """
    homes = {extra_of(record.params.__module__) for record in ALGORITHMS.values()}
    return [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)[:80]}"
        for package in packages
        for module, path in modules(package).items()
        if room_of(module) not in homes
        for node in ast.walk(tree_of(path))
        if _asks_for_a_kind(node)
    ]


def _asks_for_a_kind(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        texts = [ast.unparse(argument) for argument in node.args]
        if node.func.id in ("isinstance", "issubclass", "cast"):
            return any("Params" in text for text in texts)
        is_literal = len(texts) > 1 and isinstance(node.args[1], ast.Constant)
        return node.func.id in ("getattr", "hasattr") and is_literal and "params" in texts[0]
    names = {one.value for one in ast.iter_child_nodes(node) if isinstance(one, ast.Constant)} & {*ALGORITHMS}
    if isinstance(node, ast.Dict):
        return len(names) > 0 and {ast.unparse(key) for key in node.keys if key} <= {repr(name) for name in ALGORITHMS}
    inner = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return isinstance(node, ast.Compare) and bool(inner & {*ALGORITHMS})


def main() -> None:
    """Print the numbers of both packages, of each room, and the circles of modules."""
    packages = ("service", "gpu")
    columns = [map(_shown, shape(package)) for package in packages]
    rows = [("", *packages), *zip(Shape._fields, *columns, strict=True)]
    lines = ["  ".join(cell.rjust(14) for cell in row) for row in rows]
    for package in packages:
        lines += ["", *room_lines(package)]
        lines += [f"circle: {' '.join(circle)}" for circle in sorted(map(sorted, circles(imports(package))))]
    lines += ["", "outside the folder of an algorithm, asked which one it is:", *kinds_asked(ALL)]
    sys.stdout.write("\n".join(lines) + "\n")


def _shown(number: float) -> str:
    return f"{number:,.3f}".rstrip("0").rstrip(".") if isinstance(number, float) else f"{number:,}"


if __name__ == "__main__":
    main()
