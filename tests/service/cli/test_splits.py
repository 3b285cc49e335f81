"""Held-out ratings: random ones, the newest, and the last of each user."""

from typing import get_args

import numpy as np
import pytest

from gpu.base.errors import InvalidInput
from service.cli.files.ratings_file import RatingsFile
from service.cli.offline import Data, order_of
from service.cli.options import Split


def file_of(users: str, times: list[float] | None) -> RatingsFile:
    n = len(users)
    stamps = None if times is None else np.array(times)
    return RatingsFile(list(users), [f"i{k}" for k in range(n)], np.ones(n, np.float32), stamps, [])


@pytest.mark.parametrize("split", get_args(Split))
def test_each_rating_is_in_one_part(split: str) -> None:
    rng = np.random.default_rng(1)
    file = file_of("".join(rng.choice(list("abcdefg"), 200)), rng.integers(0, 50, 200).tolist())
    order, n_test = order_of(file, split, 0.2, 3)  # type: ignore[arg-type]
    assert sorted(order.tolist()) == list(range(200))
    assert n_test == (7 if split == "last" else 40)


def test_the_newest_are_held_out_and_the_later_line_is_newer() -> None:
    order, n_test = order_of(file_of("aabbb", [5, 9, 9, 1, 7]), "time", 0.4, 0)
    assert order[:n_test].tolist() == [2, 1]


def test_the_last_rating_of_each_user_with_two_is_held_out() -> None:
    order, n_test = order_of(file_of("ababcb", [5, 2, 5, 1, 9, 2]), "last", 0.0, 0)
    assert sorted(order[:n_test].tolist()) == [2, 5]  # of equal times the later line; not the only one of c


@pytest.mark.parametrize("split", ["time", "last"])
def test_a_file_without_times_has_no_newest(split: str) -> None:
    with pytest.raises(InvalidInput, match=f"Invalid split {split}: expected ratings with times, got a file without"):
        order_of(file_of("aab", None), split, 0.5, 0)  # type: ignore[arg-type]


def test_training_ratings_keep_their_times() -> None:
    """In the order of the ratings, also where a pair comes twice: its last line counts."""
    users, times = list("bacab"), [5e8 + 40.0, 1e9, 7e8, 9e8, 6e8]
    file = RatingsFile(users, ["x", "y", "x", "y", "x"], np.ones(5, np.float32), np.array(times), [])
    data = Data.split(file, 0.2, 0, "time")
    assert data.times is not None
    assert data.is_newer
    users_of, items_of = (table.ids(range(len(table))) for table in (data.users, data.items))
    rows, columns, _ = data.train.coo()
    pairs = zip(rows.tolist(), columns.tolist(), data.times.seconds.tolist(), strict=True)
    times_of = {(users_of[row], items_of[column]): seconds for row, column, seconds in pairs}
    assert times_of == pytest.approx({("b", "x"): 6e8, ("c", "x"): 7e8, ("a", "y"): 9e8}, abs=64)
    assert data.times.as_of_s == 9e8
    assert not Data.split(file, 0.2, 0).is_newer
