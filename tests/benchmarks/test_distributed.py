"""Trainings on several ranks are timed, and compared with one rank."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import distributed
from benchmarks.distributed import Extent
from benchmarks.make_ratings import Matrix, Shape, write_matrix
from gpu.training.als_halves import GATHER


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("ratings")
    write_matrix(Matrix(Shape(300, 40, 4000, 400, 1.0, 5.0, 1.0, 3.5, 0.8, 4, 1.0, 20.0)), "small", found)
    return found


def rows(folder: Path, algorithm: str, extent: Extent) -> list[distributed.Row]:
    given = {"n_epochs": 3}
    return list(distributed.run(folder, algorithm, [4], given, [1, 2], "host", GATHER, extent))


def test_ranks_give_the_bits_and_errors_of_one(folder: Path) -> None:
    one, two = rows(folder, "als", Extent(target=1.5))
    assert (one.ranks, two.ranks, one.times) == (1, 2, 1)
    assert one.digest == two.digest
    assert one.error == pytest.approx(two.error)
    assert one.target_ms == one.epoch_ms, "the first epoch is as good"


def test_copies_are_users_of_their_own(folder: Path) -> None:
    one, two = rows(folder, "nmf", Extent(copies=3, target=0.01))
    assert one.n_ratings == two.n_ratings == 3 * 4000
    assert one.digest == two.digest
    assert 0 < one.error < 1
    assert math.isnan(one.target_ms)
