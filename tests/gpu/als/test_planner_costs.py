"""What a half-iteration costs, against times that were measured and sizes that kernels have."""

import pytest

from gpu.als.objective import WHOLE
from gpu.als.planner_costs import FIXED_MS, NVLINK, Gpu, Shape, start_seconds
from gpu.als.planner_layout import Layout
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


def hugewiki(copies: float) -> Shape:
    """So many copies of 500,826 users."""
    return shape(500_826 * copies, 39_780, 31e6 * copies, 100)


@pytest.mark.parametrize(
    ("one", "p", "items", "measured"),
    [
        (netflix(100), 2, "gather", 7.3),
        (netflix(100), 4, "gather", 3.76),
        (netflix(128, is_implicit=True, n_cg_steps=3), 2, "gather", 12.2),
        (netflix(128, is_implicit=True, n_cg_steps=3), 4, "gather", 6.69),
        (netflix(100), 2, "reduce", 8.45),
        (hugewiki(10), 1, "gather", 73.5),
        (hugewiki(10), 2, "gather", 38.2),
        (hugewiki(10), 4, "reduce", 22.4),
        (hugewiki(25), 4, "reduce", 54.9),
    ],
)
def test_an_epoch_takes_what_several_gpus_measured(one, p, items, measured):
    """Of H100 and H200; docs/performance.md and docs/lab/several-gpus.md."""
    layout, shares = Layout(one, p, items, "gather", "resident", 5 * 10**9, 0), (1 / p,) * p
    found = sum(layout.ms(half, shares, 1, (1.0,) * p, NVLINK).total for half in one.halves)
    assert found == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize(("gb", "ns"), [(0.65, 0.056), (1.04, 0.064), (2.6, 0.066), (5.2, 0.067), (10.4, 0.068)])
def test_ratings_take_what_reading_large_tables_measured(gb, ns):
    """On an H200, rows of 6,000 to 20,000 ratings at random that are solved whole."""
    one = shape(gb * 1e9 / 208, 4e7 / 6000, 4e7, 100)
    assert one.one_gpu_ms(one.halves[0]) * 1e6 / 4e7 == pytest.approx(ns, rel=0.25)


@pytest.mark.parametrize(("p", "gb", "measured"), [(2, 0.366, 0.93), (4, 0.366, 1.17), (4, 1.14, 2.55)])
def test_reductions_take_what_was_measured(p, gb, measured):
    assert NVLINK.reduce_ms(gb * 1e9 * (1 - 1 / p)) == pytest.approx(measured, rel=0.12)


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
