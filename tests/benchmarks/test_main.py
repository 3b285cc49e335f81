"""All measurements answer to one command."""

import subprocess
import sys

import pytest

from benchmarks import __main__ as door
from benchmarks.rows import DEFAULT, OURS, Row, Store
from tests.test_project import ROOT


def call(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_all_commands_are_listed_together(arguments):
    listed = call(*arguments).stdout
    assert all(
        f" {name} " in listed for name in ("defaults", "scale", "dislikes", "stream", "als", "newcomers", "http")
    )


def test_a_file_that_is_not_there_is_named():
    done = call("sgd", "--ratings", "nowhere.csv")
    assert done.returncode == 2
    assert "nowhere.csv" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("defaults", "--data", ".", "--set", "netflix"), "'netflix'"),
        (("defaults", "--data", ".", "--part", "most"), "'most'"),
        (("scale", "--data", ".", "--algorithms", "magic"), "'magic'"),
        (("scale", "--data", ".", "--backend", "tpu"), "'tpu'"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(arguments, told):
    done = call(*arguments)
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_of_rows_is_shown_without_computing(tmp_path, capsys):
    row = Row("ml-1m", "estimates", "als", OURS, DEFAULT, {}, {"rmse": 0.85}, 1.0, "host")
    Store(tmp_path / "rows.json").get(row, lambda: row)
    door.table([tmp_path / "rows.json"])
    assert "| ml-1m | RMSE | **als** | 0.8500 |" in capsys.readouterr().out
