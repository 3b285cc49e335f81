"""`nearfield train --plan`: the example of docs/training.md, JSON, and trainings that several GPUs cannot share."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import gpu
from gpu.als.division import MEMORY_GB, size_of
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


@pytest.mark.parametrize(
    ("shape", "modes", "eq_8"),
    [
        ("660e6,2.4e6,3.5e9,10", ("gather", "reduce"), (1, 4)),
        ("229e6,195e6,38.5e9,5", ("gather", "gather"), (1, 1)),
        ("480189,17770,99072112,100", ("gather", "gather"), (1, 1)),
    ],
)
def test_a_shape_is_planned_without_a_file(capsys, shape, modes, eq_8):
    """SparkALS and Factorbird of table 5, as docs/algorithms.md has them, and Netflix."""
    arguments = ["train", "--algorithm", "als", "--plan", "--gpus", "4", "--memory", "12", "--json"]
    assert run([*arguments, "--shape", shape]) == 0
    record = json.loads(capsys.readouterr().out)
    assert tuple(record["plan"][side]["mode"] for side in ("users", "items")) == modes
    assert tuple(record["eq_8"][side]["p"] for side in ("users", "items")) == eq_8
    assert record["shape"]["n_users"] == int(float(shape.split(",")[0]))
    assert record["shape"]["n_factors"] == int(shape.split(",")[3])


def test_a_shape_gives_the_plan_of_a_file_of_that_shape(planned, capsys):
    by_file = planned("--algorithm", "als", "--set", "n_factors=16")
    assert run(["train", "--algorithm", "als", "--plan", "--shape", "1500,400,60876,16"]) == 0
    assert (0, capsys.readouterr().out) == by_file


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--shape 1,2,3", "expected four numbers, users,items,ratings,factors, got '1,2,3'"),
        ("--shape 1,2,3,4,5", "expected four numbers"),
        ("--shape a,5,5,8", "Invalid users of --shape: expected a number, got 'a'"),
        ("--shape 5,,5,8", "Invalid items of --shape: expected a number, got ''"),
        ("--shape 5,nan,5,8", "Invalid items of --shape: expected a finite number, got 'nan'"),
        ("--shape 5,5,2.5,8", "Invalid ratings of --shape: expected a whole number, got '2.5'"),
        ("--shape 1e999999999,5,5,8", "Invalid users of --shape: expected a number of at most 1e+30"),
        ("--shape 0,5,5,8", "expected 1 to 2,147,483,647 users in --shape, got 0"),
        ("--shape 5,3e9,5,8", "expected 1 to 2,147,483,647 items in --shape, got 3,000,000,000"),
        ("--shape 5,5,-1,8", "expected 1 to 25 ratings in --shape, got -1"),
        ("--shape 5,5,26,8", "expected 1 to 25 ratings in --shape, got 26"),
        ("--shape 5,5,25,3", "Invalid n_factors: expected 4 to 1024, got 3"),
        ("--shape 5,5,25,8 --set n_factors=8", "expected the number of factors by --shape or by --set, got both"),
        ("--shape 5,5,25,8 --ratings ratings.csv", "expected --shape or --ratings, got both"),
        ("--shape 5,5,25,8 --test-fraction 0.1", "expected --shape or --test-fraction, got both"),
        ("", "expected --ratings or --events, or --plan with --shape, got none"),
    ],
)
def test_bad_shapes_are_refused(capsys, arguments, message):
    assert run(["train", "--algorithm", "als", "--plan", *shlex.split(arguments)]) != 0
    assert message in capsys.readouterr().err


def test_a_shape_needs_a_plan(capsys):
    assert run(["train", "--algorithm", "als", "--shape", "5,5,5,8"]) == 2
    assert "expected --plan with --shape, got none" in capsys.readouterr().err


@pytest.mark.parametrize("algorithm", ["sgd", "ease"])
def test_a_shape_of_an_algorithm_without_plan_says_so(capsys, algorithm):
    assert run(["train", "--algorithm", algorithm, "--plan", "--shape", "5,5,5,8"]) == 0
    assert f"no plan: expected als or als-implicit, got {algorithm}" in capsys.readouterr().out


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
    record, text = shown(size_of(ratings), gpu.AlsParams(n_factors=256, n_epochs=10_000), 2, 80)
    assert record["plan"]["items"]["p"] == 2
    assert record["reason"].startswith("2 GPUs: an epoch takes ")
    assert "GPU 0 50%, GPU 1 50%; everything stays on the GPUs" in text
    assert f"{record['plan']['items']['ms']['moves']:.3f}" in text
