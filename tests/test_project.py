"""The project's own promises: layers, sizes, documents that agree with the code."""

import ast
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.__main__ import COMMANDS
from clients.generate import document
from docs import api_reference
from docs.generate import GENERATED, REFERENCE, filled
from service.telemetry.metrics import Metrics
from tests.conftest import LONGEST

ROOT = Path(__file__).parents[1]
ROOMS = ("gpu", "service", "benchmarks", "loadtest", "clients")
NOT_OURS = {"generated", "node_modules"}  # written by tools
CODE = sorted(
    path for room in ROOMS for path in (ROOT / room).rglob("*.py") if NOT_OURS.isdisjoint(path.relative_to(ROOT).parts)
)
LONGEST_FUNCTION, MEDIAN_FUNCTION, LONGEST_MODULE = 60, 8, 600
# Library -> where alone it may be imported.
# The second is the start of a name: of a file or a folder below the first.
HOMES = {"numba": ("gpu/", "host"), "cupy": ("gpu/", "device")}

READS_THE_ENVIRONMENT = ("service/settings/settings.py", "service/storage/files.py")  # the latter its fault points


def test_modules_of_tests_that_begin_first_exist():
    assert [module for module in LONGEST if not (ROOT / module).is_file()] == []


def test_coverage_is_installed_where_it_is_measured_alone():
    """Numba imports it in every process of an environment that has it, which takes 70 ms."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["dev"]
    assert [tool for tool in tools if tool.startswith("coverage")] == []


def test_every_rename_and_fsync_is_a_fault_point():
    """So that a process can be killed at each: see tests/faults."""
    for path in CODE:
        if name_of(path).startswith("service/") and name_of(path) != "service/storage/files.py":
            text = path.read_text("utf-8")
            calls = r"os\.(fsync|rename|replace)\(|(?<!files)\.rename\(|temporary\.replace\("
            assert not re.search(calls, text), name_of(path)


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
            last = body[-1].end_lineno if body else None
            yield f"{name_of(path)}:{node.name}", 0 if last is None else last - body[0].lineno + 1


def test_libraries_stay_in_their_rooms():
    for path in CODE:
        for library in {name.split(".")[0] for name in imports(path)} & HOMES.keys():
            root, start = HOMES[library]
            parts = name_of(path).removeprefix(root).split("/")
            is_at_home = name_of(path).startswith(root) and any(part.startswith(start) for part in parts)
            assert is_at_home or (library == "cupy" and parts[0] == "cuda"), f"{name_of(path)} imports {library}"


def test_host_and_device_do_not_know_each_other():
    for path in (ROOT / "gpu").rglob("*.py"):
        asked = {part for name in imports(path) if name.startswith("gpu.") for part in name.split(".")}
        for one, other in (("host", "device"), ("device", "host")):
            if any(part.startswith(one) for part in path.relative_to(ROOT / "gpu").parts):
                assert not any(part.startswith(other) for part in asked), name_of(path)


def test_only_structs_of_plain_values_are_kept_from_the_garbage_collector():
    """A cycle through any other one would never be freed, and what it reaches with it, such as a model before."""
    plain = {"str", "float", "int", "bool", "None", "Id", "RatingValue", "TypeName", "EventTime", "EventId"}
    plain, found = plain | {"RecommendationId", "RatingTime", "EventValue"}, []
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and any(keyword.arg == "gc" for keyword in node.keywords):
                fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
                names = {name.strip() for part in fields for name in ast.unparse(part.annotation).split("|")}
                found.append(node.name)
                assert names <= plain, f"{node.name} of {name_of(path)}: {names - plain}"
    assert found


def test_the_map_of_the_architecture_has_every_extra_and_every_lock():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    extras = {path.parent.name for path in (ROOT / "service" / "extras").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", text.partition("### Extras")[2], re.MULTILINE)) == extras
    table = text.partition("## Locks\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `[\w/]*?(\.[\w.]+)` \|.*\| `(service/[\w/.]+)` \|$", table, re.MULTILINE))
    locks = {
        (lock, name_of(path))
        for path in CODE
        if name_of(path).startswith("service/") and "FileLock" in path.read_text("utf-8")
        for lock in re.findall(r'^[\w, ]*LOCK[\w, ]* = .*"(\.[\w.]*lock)"', path.read_text("utf-8"), re.MULTILINE)
    }
    assert {lock for lock in listed if lock[0] != ".training.lock"} == locks


def test_figures_of_the_front_page_are_those_of_the_page_of_figures():
    figures = (ROOT / "docs" / "performance.md").read_text("utf-8")
    table = (ROOT / "README.md").read_text("utf-8").partition("## Three figures\n")[2].partition("\n## ")[0]
    told = re.findall(r"(?<![\w.])(\d*[.,]\d+)(?= |$)", "\n".join(table.split("|")[5:]))
    assert len(told) > 5
    assert [figure for figure in told if figure not in figures] == []


def test_what_is_imported_by_name_is_there():
    """Device modules are imported by name, since CuPy may be missing: no type checker sees what is asked of them."""
    asked = re.compile(r'import_module\(\s*"((?:gpu|service)\.[\w.]+)"\s*\)\.(\w+)')
    missing = []
    for path in CODE:
        for module, name in asked.findall(path.read_text("utf-8")):
            home = ROOT / (module.replace(".", "/") + ".py")
            home = home if home.exists() else home.with_suffix("") / "__init__.py"
            if not re.search(rf"^(?:def|class) {name}\b|^{name}\b.*=", home.read_text("utf-8"), re.MULTILINE):
                missing.append(f"{name_of(path)}: {module}.{name}")
    assert missing == []


def test_the_engine_does_not_know_the_service():
    for path in CODE:
        if name_of(path).startswith("gpu/"):
            roots = {name.split(".")[0] for name in imports(path)}
            assert not roots & {"service", "redis", "fastapi", "starlette", "os", "httpx"}, name_of(path)


def test_the_load_test_knows_nothing_but_http():
    """Its own service, which it starts without an address, is started and trained as any program would do it."""
    for path in (ROOT / "loadtest").rglob("*.py"):
        allowed = {"service.cli.client", "service.cli.service_process"} if path.name == "private.py" else set()
        roots = {name.split(".")[0] for name in imports(path) - allowed}
        assert not roots & {"service", "gpu", "numba", "redis", "msgspec"}, name_of(path)


def test_the_clients_know_nothing_but_http():
    """They are installed without the service."""
    modules = [path for path in CODE if name_of(path).startswith("clients/python/")]
    assert len(modules) > 5
    for path in modules:
        roots = {name.split(".")[0] for name in imports(path)} - sys.stdlib_module_names
        assert roots <= {"nearfield_client", "httpx", "typing_extensions"}, name_of(path)


def test_what_is_installed_needs_no_measurement_and_no_library_of_development():
    """Nothing that is installed needs the measurements, the tests or a library of development."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    development = project["project"]["optional-dependencies"]["dev"]
    unwanted = {_package(one) for one in development}
    unwanted |= {"benchmarks", "loadtest", "tests", "docs"}
    for path in CODE:
        if name_of(path).startswith(("gpu/", "service/")):
            roots = {_normal(name.split(".")[0]) for name in imports(path)}
            assert not roots & unwanted, name_of(path)


def test_documents_name_commands_of_the_measurements_that_exist():
    for page in pages():
        text = page.read_text("utf-8")
        named = re.findall(r"(?:python -m benchmarks |make bench ARGS=\")([a-z][a-z-]*)", text)
        assert set(named) <= set(COMMANDS), page.name
        assert "nearfield bench " not in text, page.name


def test_performance_is_a_page_of_current_figures():
    """Reasons stand in kernels.md, and what is over in the history; what was drawn is called synthetic."""
    text = (ROOT / "docs" / "performance.md").read_text("utf-8")
    assert len(text.splitlines()) <= 150
    for section in text.split("\n## ")[1:]:
        if re.search(r"10M's shape|Netflix's shape|make-ratings|benchmarks plant|[Dd]rawn", section):
            assert "synthetic" in section, section.splitlines()[0]
        assert re.search(r"`(python -m benchmarks|make) ", section), f"no command: {section.splitlines()[0]}"


def test_only_settings_reads_the_environment():
    for path in CODE:
        if name_of(path).startswith("service/") and name_of(path) not in READS_THE_ENVIRONMENT:
            assert "os.environ.get" not in path.read_text("utf-8"), name_of(path)
            assert "os.getenv" not in path.read_text("utf-8"), name_of(path)


def test_threads_are_started_in_one_place():
    """So that none whose end matters can end in silence: see `service.base.threads`."""
    for path in CODE:
        if name_of(path).startswith("service/") and path.name != "threads.py":
            assert "threading.Thread(" not in path.read_text("utf-8"), name_of(path)


def test_functions_and_modules_are_short():
    lengths = dict(pair for path in CODE for pair in function_lengths(path))
    assert not {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION}
    assert statistics.median(lengths.values()) <= MEDIAN_FUNCTION
    n_lines = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in CODE}
    assert not {name: n for name, n in n_lines.items() if n > LONGEST_MODULE}


def test_generated_parts_match_what_they_are_made_from():
    for page in GENERATED:
        text = page.read_text("utf-8")
        assert "<!-- begin " in text, page.name
        assert text == filled(text), f"{page.name}: run `make docs`"


def test_the_reference_of_the_api_matches_the_service():
    assert REFERENCE.read_text("utf-8") == api_reference.page(), "run `make docs`"


def test_the_reference_of_the_api_has_every_route_and_every_schema():
    described, text = document(), REFERENCE.read_text("utf-8")
    routes = [f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods]
    headings = re.findall(r"^### `(.*)`$", text, re.MULTILINE)
    assert sorted(headings) == sorted([*routes, *described["components"]["schemas"]])


def test_the_reference_of_the_api_names_no_parts_of_the_program():
    """Docstrings of answers are read by clients, who know the names of schemas alone."""
    names = re.findall(r"`([A-Z]\w*[a-z]\w*|(?:service|gpu)\.[\w.]+)`", REFERENCE.read_text("utf-8"))
    headers = {"Accept"}
    assert set(names) - headers <= set(document()["components"]["schemas"])


def test_the_guide_to_the_api_is_short():
    assert len((ROOT / "docs" / "api.md").read_text("utf-8").splitlines()) <= 300


def test_metrics_named_in_the_documentation_exist():
    known = {family.name for family in Metrics().registry.collect()}
    names = ("operations.md", "monitoring.md", "faults.md", "training.md")
    text = "".join((ROOT / "docs" / name).read_text("utf-8") for name in names)
    named = set(re.findall(r"nearfield_[a-z_]+[a-z]", text))
    assert {re.sub(r"_total$", "", name) for name in named} <= known


def pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def anchors(page: Path) -> set[str]:
    """What a forge calls the headings of a page, so that links can name them."""
    found: list[str] = []
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.append(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return {f"{name}-{n}" if (n := found[:at].count(name)) else name for at, name in enumerate(found)}


def links(page: Path) -> set[str]:
    """Where a page leads to within the repository: `path`, `path#heading` or `#heading`."""
    text = page.read_text("utf-8")
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)
    return {target for target in found if ":" not in target}


def test_files_and_tests_that_documents_name_are_there():
    """A promise names its module and the test that holds it, and so does a decision."""
    checked = 0
    for page in (page for page in pages() if page.name != "CHANGELOG.md"):
        text = page.read_text("utf-8")
        for path in re.findall(r"`((?:service|gpu|tests|benchmarks|loadtest|docs)/[\w/.-]+\.(?:py|cu|cuh|md))`", text):
            assert (ROOT / path).exists(), f"{page.name}: {path}"
            checked += 1
        named = re.findall(r"`(test_\w+)` in\s+`(tests/[\w/.]+)`", text)
        named += [(test, path) for path, test in re.findall(r"(tests/[\w/]+\.py)::(test_\w+)", text)]
        for test, path in named:
            assert f"def {test}(" in (ROOT / path).read_text("utf-8"), f"{page.name}: {test} in {path}"
            checked += 1
    assert checked > 50


def test_recipes_and_the_table_of_sizes_name_what_is_there():
    """A name in capitals, of a class or a constant, is in a file, or in a module of a folder, that its line names."""
    recipes, kernels = ((ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("recipes", "kernels"))
    lines = re.findall(r"^(?:\d+\. |\| ).*$", recipes, re.MULTILINE)
    lines += re.findall(r"`[A-Z][A-Z_]+`(?:, `[A-Z_]+`)* in `[^`]*`", kernels)
    assert len(lines) > 50
    for line in lines:
        places = [ROOT / place for place in re.findall(r"`((?:gpu|service|tests|deploy|docs)/[\w/.]*)`", line)]
        assert [place for place in places if not place.exists()] == [], line
        modules = [module for place in places for module in ([place] if place.is_file() else place.glob("*.py"))]
        texts = "".join(module.read_text("utf-8") for module in modules)
        for name in re.findall(r"`([A-Z]\w+)[`(]", line) if modules else ():
            assert re.search(rf"\b{name}\b", texts), f"{name}: {line}"


def test_links_between_documents_lead_somewhere():
    for page in pages():
        for target in links(page):
            path, _, heading = target.partition("#")
            there = page.parent / path if path else page
            assert there.exists(), f"{page.name}: {target}"
            assert not heading or heading in anchors(there), f"{page.name}: {target}"


ALGORITHMS = ROOT / "docs" / "algorithms.md"
NUMBERS = r"\d+(?:\.\d+)?(?:(?:,| and| to) \d+(?:\.\d+)?)*"
PART = rf"(?:eq\. |alg\. |table |§ ?)(?:{NUMBERS})"
CITING = ("*.py", "*.cu", "*.cuh", "*.md")


def parts(text: str) -> set[str]:
    """`Alg. 1 and 2, §5.4` gives {"alg. 1", "alg. 2", "§5.4"}; `3 to 5` are three."""
    found: set[str] = set()
    for kind, numbers in re.findall(rf"(eq\. |alg\. |table |§) ?({NUMBERS})", text.lower()):
        ranges = re.sub(r"(\d+) to (\d+)", lambda m: ", ".join(map(str, range(int(m[1]), int(m[2]) + 1))), numbers)
        found |= {kind + number for number in re.findall(r"\d+(?:\.\d+)?", ranges)}
    return found


def stated() -> dict[str, set[str]]:
    """Paper -> what of it docs/algorithms.md states."""
    headings = re.findall(r"^#{2,4} \[(00\d)\](.*)$", ALGORITHMS.read_text("utf-8"), re.MULTILINE)
    return {paper: set().union(*(parts(text) for name, text in headings if name == paper)) for paper, _ in headings}


def citations(text: str) -> Iterator[tuple[str, set[str]]]:
    """(paper, parts of it) of every `[004] eq. 1` and `eq. 1 of [004]`; no paper where only a part is named."""
    flat = re.sub(r"\s*\n[\s#/*]*", " ", text)
    for before, paper, after in re.findall(rf"(?i)({PART} of )?\[(00\d)\]((?:,? {PART})*)", flat):
        yield paper, parts(before + after)
    alone = re.sub(rf"(?i)({PART} of )?\[00\d\](,? {PART})*", "", flat)
    for part in re.findall(r"(?i)(?<!\d{4}, )(?:eq\. |alg\. |§)" + NUMBERS, alone):
        yield "", parts(part)


def test_every_citation_of_a_paper_is_stated():
    """`[004] eq. 1` is in docs/algorithms.md; a bare `eq. 1` belongs to a paper that the same file names."""
    known = stated()
    assert set(known) == {"000", "001", "002", "003", "004"}
    rooms = [ROOT / name for name in ("gpu", "service", "benchmarks", "loadtest", "tests", "docs")]
    files = {path for room in rooms for glob in CITING for path in room.rglob(glob)} - {Path(__file__), ALGORITHMS}
    for path in sorted(files):
        found = list(citations(path.read_text("utf-8")))
        named = {paper for paper, _ in found if paper}
        assert named <= known.keys(), f"{name_of(path)} cites a paper that docs/algorithms.md lacks"
        for paper, of_it in found:
            there = known[paper] if paper else set().union(*(known[one] for one in named))
            assert of_it <= there, f"{name_of(path)}: [{paper or '?'}] {sorted(of_it - there)}: see docs/algorithms.md"


def test_pages_that_cite_a_paper_lead_to_it():
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text("utf-8")
        for paper in set(re.findall(r"\[(00\d)\]", text)) if page != ALGORITHMS else ():
            assert re.search(rf"^\[{paper}\]: \S*algorithms\.md#{paper}-", text, re.MULTILINE), f"{page.name}: {paper}"


def test_modules_named_beside_the_equations_exist():
    for name in re.findall(r"`((?:gpu|tests|benchmarks)/[\w/.]*)`", ALGORITHMS.read_text("utf-8")):
        assert (ROOT / name).exists(), name


NOTES = ROOT / "docs" / "decisions"


def test_decision_notes_have_their_parts():
    """`Tried` has what was tried and lost, with the figure that decided."""
    for note in NOTES.glob("[0-9]*.md"):
        headings = re.findall(r"^## (.*)$", note.read_text("utf-8"), re.MULTILINE)
        assert headings[:3] == ["Motivation", "Decision", "Consequences"], note.name
        assert headings[3:] in ([], ["Tried"]), note.name


def test_each_decision_note_is_in_one_of_eight_chapters():
    """By its number and its title: one line of README.md."""
    text = (NOTES / "README.md").read_text("utf-8")
    titles = {note.name: note.read_text("utf-8").partition("\n")[0] for note in NOTES.glob("[0-9]*.md")}
    listed = re.findall(r"^\* (\d+): \[(.*)\]\((.*)\)$", text, re.MULTILINE)
    assert sorted((f"{int(number):04}", f"# {title}", name) for number, title, name in listed) == sorted(
        (name[:4], title, name) for name, title in titles.items()
    )
    assert len({number for number, _, _ in listed}) == len(titles), "two notes have one number"
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == 8


def test_each_decision_note_is_cited_and_each_citation_leads_to_one():
    """A note that no page and no module needs is history, which git has."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    citing = [path for path in listed if path.endswith((".py", ".md", ".cu", ".cuh")) and "decisions/" not in path]
    texts = [(ROOT / path).read_text("utf-8") for path in citing if (ROOT / path).exists() and path != "CHANGELOG.md"]
    cited = {number for text in texts for number in re.findall(r"decisions/(\d{4})", text)}
    assert cited == {note.name[:4] for note in NOTES.glob("[0-9]*.md")}


def test_every_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = {_normal(line.split("==")[0]) for line in lines if "==" in line}
    assert not {_package(one) for one in wanted} - pins
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines if not line.startswith("#"))


def test_no_text_installs_what_is_not_published():
    """The publisher of a package of this name could run code on the machine of each reader."""
    told = re.compile(r"\b(?:pipx?|uv|uvx|npm|yarn|pnpm) (?:install|add|run) [^\n`;|&,]*(?<![\w/.-])@?nearfield")
    for hint in ("pip install nearfield[gpu]", "pip install -U 'nearfield-client'", "npm install nearfield"):
        assert told.search(hint)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    texts = [path for path in listed if path.endswith((".py", ".md", ".yml", ".yaml", ".ts", ".html", ".toml", "file"))]
    assert len(texts) > 500
    there = [ROOT / path for path in texts if (ROOT / path).exists() and ROOT / path != Path(__file__)]
    assert [name_of(path) for path in there if told.search(path.read_text("utf-8"))] == []


def test_make_lists_its_commands():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"demo", "test", "lint", "format", "bench", "loadtest"} <= set(re.findall(r"make (\w+)", done.stdout))


def _package(requirement: str) -> str:
    """The name at the head of a requirement."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return _normal(name[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_make_tells_other_systems_to_use_the_container(tmp_path: Path) -> None:
    python = tmp_path / "python3"  # the interpreter of a Mac
    lines = "#!/bin/sh", f"""exec {sys.executable} -c "import sys; sys.platform = 'darwin'; exec(sys.argv[1])" "$2\""""
    python.write_text("\n".join(lines))
    python.chmod(0o755)
    command = ["make", "--silent", "demo", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and not (tmp_path / "venv").exists()
    assert done.stdout == "Nearfield runs on Linux; on other systems use the container: docs/deployment.md#containers\n"
