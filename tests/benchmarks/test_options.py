"""What a measurement cannot use is said in one line, before anything is measured."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import run


@pytest.fixture
def few(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("u,a,1\nu,b,2\nv,a,3\n")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sgd", "--factors", "x"], "expected numbers with commas between, got 'x'"),
        (["sgd", "--factors", "1.5"], "expected whole numbers with commas between, got '1.5'"),
        (["sgd", "--algorithms", "magic"], "Invalid algorithm: expected one of"),
        (["sgd", "--set", "n_factors"], "expected NAME=VALUE, got 'n_factors'"),
        (["sgd", "--algorithms", "culsh-implicit", "--factors", "4"], "with 2 of 2 items rated"),
        (["ranking"], "expected 99 items that a user has not rated"),
        (["accuracy"], "of which a tenth can be held out, got 3"),
        (["prequential"], "expected a column of timestamps"),
        (["ab"], "expected a column of timestamps"),
        (
            ["online", "--algorithm", "als", "--places", "host"],
            "expected sgd, esgd, culsh or culsh-implicit, got 'als'",
        ),
        (["online", "--places", "moon"], "expected auto, host or device, got 'moon'"),
    ],
)
def test_what_a_measurement_of_ratings_cannot_use(arguments, complaint, few, capsys):
    command, *options = arguments
    assert run([command, "--ratings", few, *options]) == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["growth", "--n-ratings", "30000"], "Invalid n_ratings: expected 30,001 or more, got 30,000"),
        (["plant", "--data", "unused", "--users", "0"], "--users"),
        (["topn", "--items", "ten"], "got 'ten'"),
        (["topn", "--backend", "host", "--devices", "0,1"], "--devices needs the backend device"),
    ],
)
def test_what_a_measurement_without_a_file_cannot_use(arguments, complaint, capsys):
    assert run([*arguments]) == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]
