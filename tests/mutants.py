"""`python -m tests.mutants PATH …`: change the code of these files at one place at a time, and count after how many
changes a test fails. What no test notices is printed, and is either a test that is missing or means the same.

Only bodies of functions are changed: the functions of a process that has imported everything get another `__code__`, in
a fork for each change. A first run notes how long each test takes and which functions it calls, so each fork runs only
those, the quickest first. Tests that take more than five seconds count as tests that notice nothing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import ctypes
import gc
import itertools
import os
import pickle
import random
import resource
import select
import signal
import sys
import tempfile
import threading
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

ROOT = Path(__file__).parents[1]
LONGEST_S, TOGETHER_S = 5.0, 30.0  # seconds of a test, and of all tests of a change
OPTIONS = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
OTHER: dict[type[ast.AST], type[Any]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
_PR_SET_CHILD_SUBREAPER = 36  # from sys/prctl.h
NOT_RUN = {"annotation", "returns", "decorator_list", "args", "format_spec"}  # of a function inside another, of text


class Mutant(NamedTuple):
    """A function with one change.

    Attributes:
        path: of the file, from the root.
        function: qualified name of the outermost function.
        line, change: what is changed, as code.
        code: of the whole file.
    """

    path: str
    function: str
    line: int
    change: str
    code: types.CodeType


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """All changes of the functions of a file."""
    tree = ast.parse(source)
    for function, body in functions_of(tree.body, ""):
        for node in nodes_of(body):
            for change in changes_of(node):
                before, present = ast.unparse(node), copy.copy(vars(node))
                change()
                what = f"{before} → {ast.unparse(ast.fix_missing_locations(node))}"
                yield Mutant(path, function, node.lineno, what, compile(tree, str(ROOT / path), "exec"))  # type: ignore[attr-defined]
                vars(node).update(present)


def functions_of(body: Iterable[ast.AST], within: str) -> Iterator[tuple[str, ast.AST]]:
    """Qualified names of functions that are in no other function."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from functions_of(node.body, f"{within}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + node.name, node


def nodes_of(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that decide what a function does: not what it logs, nor the texts of its errors."""
    for name, value in ast.iter_fields(node):
        if name in NOT_RUN:
            continue
        for child in value if isinstance(value, list) else [value]:
            is_text = isinstance(child, ast.Raise) or (isinstance(child, ast.Expr) and "_log." in ast.unparse(child))
            is_check = isinstance(child, ast.keyword) and child.arg == "strict"  # of lengths that are always equal
            if isinstance(child, ast.AST) and not is_text and not is_check:
                yield child
                yield from nodes_of(child)


def changes_of(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Calls that change a node."""
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield (
                    lambda place=place, op=op: setattr(  # type: ignore[misc]
                        node, "ops", [*ops[:place], OTHER[type(op)](), *ops[place + 1 :]]
                    )
                )
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) if type(op) in OTHER:
            yield lambda: setattr(node, "op", OTHER[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), operand))
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if isinstance(
            test, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr
        ):
            yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=value) if isinstance(value, bool):
            yield lambda: setattr(node, "value", not value)
        case ast.Constant(value=value) if isinstance(value, int | float):
            yield lambda: setattr(node, "value", value + 1)
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield lambda: setattr(node, "value", ast.Constant(None))


class Calls:
    """A plugin of pytest: of each test that passes how many seconds it takes, and which functions it calls."""

    def __init__(self) -> None:
        self.tests: dict[str, tuple[float, set[tuple[str, str]]]] = {}
        self._failed = set[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        called = set[tuple[str, str]]()

        def note(frame: types.FrameType, event: str, argument: object) -> None:
            if event == "call":
                called.add((frame.f_code.co_filename, frame.f_code.co_qualname.split(".<locals>")[0]))

        start_s = time.monotonic()
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self.tests[item.nodeid] = time.monotonic() - start_s, called

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        for nodeid in self._failed:
            del self.tests[nodeid]


class Chosen:
    """A plugin of pytest: runs these tests, in this order."""

    def __init__(self, ids: list[str]) -> None:
        self._places = {nodeid: place for place, nodeid in enumerate(ids)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._places]
        items.sort(key=lambda item: self._places[item.nodeid])


def in_a_fork(run: Callable[[], int], limit_s: float) -> int:
    """What `run` returns in a process of its own; -1 if that ended otherwise, or took more processor seconds.

    Afterward this process has no children any more: what the fork has started, such as an embedded Redis, ends too.
    """
    # Children of a process that ends become ours, also those with a session or a process group of their own.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if (pid := os.fork()) == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 1))
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os._exit(run())
    descriptor = os.pidfd_open(pid)
    select.select([descriptor], [], [], 10 * limit_s)  # a processor may be shared, and the process wait for ever
    os.close(descriptor)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while left := psutil.Process().children(recursive=True):
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="files and folders to change")
    parser.add_argument("--tests", nargs="+", required=True, help="files and folders of tests")
    parser.add_argument("--sample", type=int, default=300, help="how many changes to draw (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="which of them (default: 0)")
    given = parser.parse_args()
    files = [file for path in given.paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    every = [mutant for file in files for mutant in mutants_of(str(file), file.read_text())]
    drawn = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder  # what a change lets fail is no example for later
        pytest.main([*OPTIONS, "--collect-only", "-qq", *given.tests])  # imports everything

        def note() -> int:
            calls = Calls()
            pytest.main([*OPTIONS, "--maxfail=1000", *given.tests], plugins=[calls])
            return Path(folder, "calls").write_bytes(pickle.dumps(calls.tests)) and 0

        in_a_fork(note, 1800.0)
        tests: dict[str, tuple[float, set[tuple[str, str]]]] = pickle.loads(Path(folder, "calls").read_bytes())
        callers, found = defaultdict[tuple[str, str], list[str]](list), defaultdict[tuple[str, str], list[Any]](list)
        for nodeid, (took_s, called) in sorted(tests.items(), key=lambda test: test[1][0]):
            for each in called if took_s < LONGEST_S else ():
                callers[each].append(nodeid)
        gc.unfreeze()  # tests/conftest.py has frozen what was collected, and frozen objects are not listed
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType):
                found[one.__code__.co_filename, one.__code__.co_qualname].append(one)
        gc.freeze()  # what a fork need not look through
        survivors = []
        for n, mutant in enumerate(sorted(drawn, key=lambda one: one[:4]), 1):
            key = str(ROOT / mutant.path), mutant.function
            ids = callers[key]
            sums = itertools.accumulate(tests[nodeid][0] for nodeid in ids)
            ids = [nodeid for nodeid, sum_s in zip(ids, sums, strict=True) if sum_s < TOGETHER_S]

            def run(mutant: Mutant = mutant, key: tuple[str, str] = key, ids: list[str] = ids) -> int:
                for function in found[key]:
                    function.__code__ = next(code for code in codes_in(mutant.code) if code.co_qualname == key[1])
                # A test may wait for ever, or for a thread that does: then the whole process ends.
                waits = [f"--timeout={10 + 3 * max(tests[nodeid][0] for nodeid in ids)}", "--timeout-method=thread"]
                return pytest.main(
                    [*OPTIONS, *waits, *{nodeid.split("::")[0] for nodeid in ids}], plugins=[Chosen(ids)]
                )

            if not ids or in_a_fork(run, 20 + 3 * sum(tests[nodeid][0] for nodeid in ids)) == 0:
                survivors.append(mutant)
                tell(f"{n}: {mutant.path}:{mutant.line} {mutant.function}, {len(ids)} tests: {mutant.change}")
    share = 1 - len(survivors) / len(drawn)
    tell(
        f"{len(every):,} changes, {len(drawn):,} drawn, {len(survivors)} that no test notices: {share:.1%} are noticed"
    )
    return 0


def tell(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """All code inside a code."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from codes_in(each)


if __name__ == "__main__":
    sys.exit(main())
