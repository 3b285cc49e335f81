"""What a half-iteration must move and compute, counted by hand on a matrix of three rows."""

import dataclasses

import numpy as np
import pytest

import gpu
from benchmarks.als_cost import H100, Ceilings, Work, row_bytes, work_of
from gpu.params import AlsImplicitParams, AlsParams
from gpu.signals import NEUTRAL
from gpu.training.als import problem_of

RATINGS = gpu.Ratings.from_coo(np.array([0, 0, 0, 1]), np.array([0, 1, 3, 2]), np.ones(4), (3, 5))  # user 2 has none


def problem(params):
    return problem_of(RATINGS, params, NEUTRAL)


PLAIN = AlsParams(n_factors=100, biases=False, n_cg_steps=6)


def test_rows_of_the_gathered_table_are_whole_chunks_of_16_bytes():
    assert row_bytes(problem(PLAIN)) == 208
    assert row_bytes(problem(dataclasses.replace(PLAIN, biases=True))) == 208  # 100 + 3 columns fit as well
    assert row_bytes(problem(dataclasses.replace(PLAIN, n_factors=128, biases=True))) == 272
    assert row_bytes(problem(dataclasses.replace(PLAIN, precision="float32"))) == 400


def test_an_explicit_half_is_counted():
    work = work_of(RATINGS.by_user, 5, problem(PLAIN))
    assert work.bytes == 4 * (208 + 8) + 2 * 3 * 400  # four ratings; three users read and written
    assert work.flop == 4 * 100 * 101 + 2 * 6 * 2 * 100**2  # four ratings; two users that have any
    assert work.table_bytes == 5 * 208
    exact = work_of(RATINGS.by_user, 5, problem(dataclasses.replace(PLAIN, solver="cholesky")))
    assert exact.flop == 4 * 100 * 101 + 2 * 333_333


def test_an_implicit_half_has_the_product_of_the_other_table_as_well():
    work = work_of(RATINGS.by_item, 3, problem(AlsImplicitParams(n_factors=8, n_cg_steps=3)))
    assert work.flop == 4 * 8 * 9 + 4 * 3 * 2 * 64 + 3 * 8 * 9
    assert work.bytes == 4 * (16 + 8) + 2 * 5 * 32


def test_a_bias_is_one_more_unknown():
    work = work_of(RATINGS.by_user, 5, problem(AlsParams(n_factors=8, n_cg_steps=1)))
    assert work.flop == 4 * 9 * 10 + 2 * 2 * 81


@pytest.mark.parametrize(
    ("work", "floor"),
    [
        (Work(2_000, 10, 100, "float16"), (200.0, "memory")),
        (Work(2_000, 10, 101, "float16"), (400.0, "memory")),  # the table no longer stays in the cache
        (Work(2_000, 90, 100, "float16"), (900.0, "arithmetic")),
        (Work(2_000, 90, 100, "float32"), (9_000.0, "arithmetic")),
    ],
)
def test_the_floor_is_what_takes_longer(work, floor):
    card = Ceilings(cached=10e3, cached_bytes=100, gathered=5e3, float16=100, float32=10)
    assert work.floor_ms(card) == pytest.approx((floor[0], floor[1]))


def test_the_floor_of_the_netflix_shape_is_about_nine_milliseconds():
    """Both halves of 99.07 million ratings with F = 100, from the lengths alone."""
    halves = ((480_189, 17_770), (17_770, 480_189))
    floors = []
    for n_rows, n_columns in halves:
        lengths = np.full(n_rows, 99_072_112 // n_rows)
        rows = gpu.Rows(np.zeros(0, np.int64), lengths, np.zeros(0, np.int32), np.zeros(0, np.float32))
        floors.append(work_of(rows, n_columns, problem(PLAIN)).floor_ms(H100))
    assert [limit for _, limit in floors] == ["memory", "memory"]
    assert sum(ms for ms, _ in floors) == pytest.approx(9.6, abs=0.5)
