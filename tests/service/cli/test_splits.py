"""Held-out ratings: random ones, the newest, and the last of each user."""

from typing import get_args

import numpy as np
import pytest

from gpu.base.errors import InvalidInput
from service.cli.files.ratings_file import RatingsFile
from service.cli.offline import Split, order_of


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
