"""The project's own promises: layers, sizes, documents that agree with the code."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from docs.generate import OPERATIONS, filled
from service.metrics import Metrics

ROOT = Path(__file__).parents[1]
CODE = sorted(path for room in ("gpu", "service", "benchmarks", "loadtest") for path in (ROOT / room).rglob("*.py"))
LONGEST_FUNCTION, MEDIAN_FUNCTION, LONGEST_MODULE = 60, 8, 330
# Library -> where alone it may be imported.
HOMES = {"numba": ("gpu/host/",), "cupy": ("gpu/device/",)}

READS_THE_ENVIRONMENT = ("service/settings.py", "service/storage/files.py")  # the latter its fault points


def test_every_rename_and_fsync_is_a_fault_point():
    """So that a process can be killed at each: see tests/faults."""
    for path in CODE:
        if name_of(path).startswith("service/") and name_of(path) != "service/storage/files.py":
            text = path.read_text("utf-8")
            assert not re.search(r"os\.(fsync|rename|replace)\(|(?<!files)\.rename\(", text), name_of(path)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def function_lengths(path: Path) -> Iterator[tuple[str, int]]:
    """Every function and the lines of its body, docstring excluded."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield f"{name_of(path)}:{node.name}", (body[-1].end_lineno - body[0].lineno + 1) if body else 0


def test_libraries_stay_in_their_rooms():
    for path in CODE:
        for library in {name.split(".")[0] for name in imports(path)} & HOMES.keys():
            assert name_of(path).startswith(HOMES[library]), f"{name_of(path)} imports {library}"


def test_the_engine_does_not_know_the_service():
    for path in CODE:
        if name_of(path).startswith("gpu/"):
            roots = {name.split(".")[0] for name in imports(path)}
            assert not roots & {"service", "redis", "fastapi", "starlette", "os", "httpx"}, name_of(path)


def test_the_load_test_knows_nothing_but_http():
    for path in (ROOT / "loadtest").rglob("*.py"):
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & {"service", "gpu", "numba", "redis", "msgspec"}, name_of(path)


def test_only_settings_reads_the_environment():
    for path in CODE:
        if name_of(path).startswith("service/") and name_of(path) not in READS_THE_ENVIRONMENT:
            assert "os.environ.get" not in path.read_text("utf-8"), name_of(path)
            assert "os.getenv" not in path.read_text("utf-8"), name_of(path)


def test_threads_are_started_in_one_place():
    """So that none whose end matters can end in silence: see `service.threads`."""
    for path in CODE:
        if name_of(path).startswith("service/") and path.name != "threads.py":
            assert "threading.Thread(" not in path.read_text("utf-8"), name_of(path)


def test_functions_and_modules_are_short():
    lengths = dict(pair for path in CODE for pair in function_lengths(path))
    assert not {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION}
    assert statistics.median(lengths.values()) <= MEDIAN_FUNCTION
    n_lines = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in CODE}
    assert not {name: n for name, n in n_lines.items() if n > LONGEST_MODULE}


def test_operations_tables_match_the_code():
    text = OPERATIONS.read_text("utf-8")
    assert text == filled(text), "run: make docs"


def test_metrics_named_in_the_documentation_exist():
    known = {family.name for family in Metrics().registry.collect()}
    named = set(re.findall(r"nearfield_[a-z_]+[a-z]", OPERATIONS.read_text("utf-8")))
    assert {re.sub(r"_total$", "", name) for name in named} <= known


def test_links_between_documents_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_decision_notes_have_their_three_parts():
    for note in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        headings = re.findall(r"^## (.*)$", note.read_text("utf-8"), re.MULTILINE)
        assert headings == ["Motivation", "Decision", "Consequences"], note.name


def test_every_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = {_normal(line.split("==")[0]) for line in lines if "==" in line}
    assert not {_normal(re.match(r"[\w.-]+", one)[0]) for one in wanted} - pins
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines if not line.startswith("#"))


def test_make_lists_its_commands():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"demo", "test", "lint", "format", "bench", "loadtest"} <= set(re.findall(r"make (\w+)", done.stdout))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
