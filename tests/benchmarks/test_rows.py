"""What has been computed is not computed again."""

import dataclasses
import math
from functools import partial

import pytest

from benchmarks.rows import DEFAULT, GRID, Row, Store

WANTED = Row("ml-1m", "estimates", "als", "ours", DEFAULT, {}, {"rmse": math.nan}, math.nan, "host", {"n_factors": 8})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.json"


def done(row, rmse):
    return dataclasses.replace(row, metrics={"rmse": rmse}, seconds=0.5)


def never():
    raise AssertionError("computed again")


def test_a_row_of_the_file_is_not_computed_again(path):
    assert Store(path).get(WANTED, lambda: done(WANTED, 0.9)).metrics == {"rmse": 0.9}
    again = Store(path)
    assert again.get(WANTED, never) == done(WANTED, 0.9)
    assert len(again.machines) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "jester"},
        {"method": "sgd"},
        {"stage": GRID},
        {"settings": {"seed": 1}},
        {"parameters": {"n_factors": 9}},
    ],
)
def test_another_row_is(path, change):
    Store(path).get(WANTED, lambda: done(WANTED, 0.9))
    other = dataclasses.replace(WANTED, **change)
    assert Store(path).get(other, lambda: done(other, 0.8)).metrics == {"rmse": 0.8}


def test_a_failed_row_is_kept_with_its_reason(path):
    Store(path).get(WANTED, lambda: dataclasses.replace(WANTED, note="over 600 s"))
    assert "NaN" not in path.read_text("utf-8")
    found = Store(path).get(WANTED, never)
    assert found.note == "over 600 s"
    assert math.isnan(found.metrics["rmse"])
    assert math.isnan(found.seconds)


def test_a_run_that_computes_nothing_leaves_the_file_alone(path):
    Store(path).get(WANTED, lambda: done(WANTED, 0.9))
    before = path.read_bytes()
    Store(path).get(WANTED, never)
    assert path.read_bytes() == before


def test_files_are_put_together(tmp_path):
    for name, rmse in (("als", 0.9), ("sgd", 0.8)):
        row = dataclasses.replace(WANTED, method=name)
        Store(tmp_path / name).get(row, partial(done, row, rmse))
    joined = Store.joined([tmp_path / "als", tmp_path / "sgd"])
    assert [row.method for row in joined.rows] == ["als", "sgd"]
    assert len(joined.machines) == 2
