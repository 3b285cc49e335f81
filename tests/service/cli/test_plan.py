"""`nearfield train --plan`: the example of docs/training.md, JSON, and trainings that several GPUs cannot share."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import gpu
from gpu.training.als_plan import MEMORY_GB
from service.__main__ import run
from service.cli import synthetic
from service.cli.plan import gpus_of, shown

TRAINING = Path(__file__).parents[3] / "docs" / "training.md"
GB = 10**9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ratings of the demo in ratings.csv."""
    path = tmp_path_factory.mktemp("plan")
    synthetic.write(path / "ratings.csv", synthetic.planted())
    return path


@pytest.fixture
def planned(folder, monkeypatch, capsys):
    """Runs `nearfield train --plan` with more arguments; its status and stdout."""
    monkeypatch.chdir(folder)

    def call(*arguments: str) -> tuple[int, str]:
        code = run(["train", "--ratings", "ratings.csv", "--plan", *arguments])
        return code, capsys.readouterr().out

    return call


def test_the_example_of_the_documentation(folder, monkeypatch, capsys):
    text = TRAINING.read_text("utf-8")
    example = re.search(r"```\n\$ nearfield (train .*--plan.*)\n((?:.*\n)*?)```\n", text)
    assert example
    monkeypatch.chdir(folder)
    assert run(shlex.split(example[1])) == 0
    assert capsys.readouterr().out == example[2]


@pytest.mark.parametrize("memory", ["inf", "1e300", "nan", "0"])
def test_memory_has_bounds(planned, capsys, memory):
    assert planned("--algorithm", "als", "--memory", memory) == (2, "")


def test_a_plan_is_one_line_of_json_and_trains_nothing(planned, folder):
    code, out = planned("--algorithm", "als-implicit", "--gpus", "3", "--memory", "0.9", "--json", "--out", "models")
    plan = json.loads(out)
    assert (code, out.count("\n"), (folder / "models").exists()) == (0, 1, False)
    assert plan["reason"].startswith("one GPU: the training does not fit on several")
    assert [one["memory_bytes"] for one in plan["gpus"]] == [9 * GB // 10] * 3
    assert (plan["plan"]["items"]["mode"], plan["eq_8"]["items"]["p"]) == ("gather", 1)
    assert plan["shape"]["n_ratings"] == 60_876


def test_held_out_ratings_do_not_count(planned):
    _, out = planned("--algorithm", "als", "--json", "--test-fraction", "0.5")
    assert json.loads(out)["shape"]["n_ratings"] == 30_438


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["culsh"], "no plan: expected als or als-implicit, got culsh"),
        (["als", "--set", "n_factors=512"], "no plan: expected at most 256 factors"),
        (["als", "--set", "solver=cholesky"], "no plan: expected at most 256 factors, solver=cg"),
    ],
)
def test_what_cannot_be_planned_is_one_line(planned, arguments, reason):
    code, out = planned("--algorithm", *arguments)
    assert code == 0
    assert out.startswith(reason)
    assert out.count("\n") == 1


def test_too_little_memory_is_one_line_and_status_1(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert run(["train", "--ratings", "ratings.csv", "--plan", "--algorithm", "als", "--memory", "0.5"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "needs about" in printed.err.splitlines()[-1]
    assert printed.err.endswith("use GPUs with more memory\n")


def test_a_training_keeps_within_the_memory_of_its_plan_and_learns_the_same(folder, monkeypatch, capsys):
    """On the host, memory for ratings is counted too: with less they are read in batches."""
    monkeypatch.chdir(folder)

    def trained(*memory: str) -> tuple[int, str, str]:
        arguments = ("--algorithm", "als", "--backend", "host", "--set", "n_epochs=2", "--json", *memory)
        code = run(["train", "--ratings", "ratings.csv", *arguments])
        return code, *capsys.readouterr()

    code, _, complaint = trained("--memory", "0.001")
    needed = re.search(r"with ratings in batches of a row each, needs about ([\d,]+) bytes", complaint)
    assert needed
    assert code == 1
    enough = (int(needed[1].replace(",", "")) + 1000) / 1e9
    (code, limited, _), (_, whole, _) = trained("--memory", f"{enough:.9f}"), trained()
    assert code == 0
    found, wanted = (json.loads(out.splitlines()[-1]) for out in (limited, whole))
    assert found["train_rmse"] == pytest.approx(wanted["train_rmse"], rel=1e-9)
    assert found["train_loss"] == pytest.approx(wanted["train_loss"], rel=1e-9)


def test_gpus_are_those_of_a_plan(capsys):
    assert run(["train", "--ratings", "x", "--algorithm", "als", "--gpus", "2"]) == 2
    assert "expected --plan with --gpus, got none" in capsys.readouterr().err


def test_gpus_are_those_of_the_machine_or_one():
    here = gpus_of(None, None)
    assert len(here) >= 1
    assert len(gpus_of(70, None)) == 70
    assert [one.memory_bytes for one in gpus_of(2, 24)] == [24 * GB] * 2
    if gpu.choose().name == "host":
        assert [one.memory_bytes for one in here] == [MEMORY_GB * GB]


def test_numbers_of_a_plan_with_several_gpus_are_shown():
    """Many rows, factors and epochs, so that two GPUs are better."""
    users = np.arange(100_000)
    ratings = gpu.Ratings.from_coo(users, users % 50, np.ones(len(users)))
    record, text = shown(ratings, gpu.AlsParams(n_factors=256, n_epochs=10_000), 2, 80)
    assert record["plan"]["items"]["p"] == 2
    assert record["reason"].startswith("2 GPUs: an epoch takes ")
    assert "GPU 0 50%, GPU 1 50%; everything stays on the GPUs" in text
    assert f"{record['plan']['items']['ms']['moves']:.3f}" in text
