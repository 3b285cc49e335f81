"""What a half-iteration costs, against times that were measured and sizes that kernels have."""

from __future__ import annotations

import pytest

from gpu.als.objective import WHOLE
from gpu.als.planner_costs import FIXED_MS, Gpu, Shape, start_seconds
from gpu.base.errors import InvalidInput


def shape(users: float, items: float, ratings: float, n_factors: int, **other) -> Shape:
    kind = {"is_implicit": False, "biases": False, "n_cg_steps": 6} | other
    return Shape(int(users), int(items), int(ratings), n_factors, **kind)


def netflix(n_factors: int, **other) -> Shape:
    return shape(480_189, 17_770, 99_072_112, n_factors, **other)


def ms(one: Shape) -> list[float]:
    """Milliseconds of the halves on one GPU: items, then users."""
    return [one.one_gpu_ms(half) + FIXED_MS for half in one.halves]


@pytest.mark.parametrize(
    ("n_factors", "items", "users"), [(32, 1.64, 2.36), (64, 2.91, 3.97), (100, 5.47, 7.71), (128, 6.68, 11.6)]
)
def test_halves_take_what_docs_kernels_measured(n_factors, items, users):
    assert ms(netflix(n_factors)) == pytest.approx([items, users], rel=0.16)


@pytest.mark.parametrize(
    ("one", "measured"),
    [
        (netflix(256), 52),
        (shape(480_189, 17_770, 99_072_112 / 4, 100), 6.8),
        (shape(480_189, 17_770, 99_072_112 / 2, 100), 8.9),
        (shape(480_189 / 4, 17_770, 99_072_112 / 4, 100), 3.5),
        (shape(480_189 / 2, 17_770, 99_072_112 / 2, 100), 6.8),
        (shape(69_878, 10_677, 9_900_054, 64), 1.05),
        (shape(69_878, 10_677, 9_900_054, 100), 1.79),
        (shape(69_878, 10_677, 9_900_054, 128), 2.45),
        (netflix(64, biases=True), 9.9),
        (netflix(100, biases=True), 13.3),
        (netflix(128, is_implicit=True, n_cg_steps=3), 22.0),
    ],
)
def test_an_epoch_takes_what_docs_kernels_measured(one, measured):
    assert sum(ms(one)) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(("n_factors", "expected"), [(5, 1024), (16, 3072), (64, 12_288), (100, 28_672), (128, 43_008)])
def test_sums_of_a_row_have_the_size_that_kernels_use(n_factors, expected):
    assert netflix(n_factors).slot_bytes == expected


def test_rows_have_the_size_that_kernels_use():
    assert (netflix(100).float16_bytes, netflix(100).float32_bytes) == (208, 400)
    assert (netflix(128, biases=True).float16_bytes, netflix(128, biases=True).float32_bytes) == (272, 516)


def test_rows_that_are_improved_in_blocks_are_refused():
    with pytest.raises(InvalidInput, match=f"expected at most {WHOLE}, got {WHOLE + 1}"):
        netflix(WHOLE + 1)


def test_one_gpu_starts_without_a_communicator():
    assert start_seconds(1) == 0
    assert [start_seconds(p) for p in (2, 4)] == pytest.approx([0.62, 0.76])


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: shape(0, 1, 1, 4), "Invalid n_users of Shape: expected at least 1, got 0"),
        (lambda: Gpu(0), "Invalid memory_bytes of Gpu"),
        (lambda: Gpu(10**9, weight=2), "Invalid weight of Gpu: expected more than 0 and at most 1, got 2"),
    ],
)
def test_impossible_sizes_are_refused(make, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        make()
