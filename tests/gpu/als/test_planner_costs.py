"""What a half-iteration costs, against times that were measured and sizes that kernels have."""

import pytest

from gpu.als.objective import WHOLE
from gpu.als.planner_costs import FIXED_MS, NVLINK, Gpu, Shape, far_seconds, start_seconds
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
    layout, shares = Layout(one, p, items, "gather", "resident", 5 * 10**9), (1 / p,) * p
    found = sum(layout.ms(half, shares, 1, (1.0,) * p, NVLINK).total for half in one.halves)
    assert found == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize(("copies", "measured"), [(25, 148), (50, 380), (100, 887)])
def test_rows_that_are_not_cut_wait_for_what_is_far(copies, measured):
    """Four H100 before rows were cut within reach: each read a quarter of the ratings' rows from the whole table."""
    one, layout = hugewiki(copies), Layout(hugewiki(copies), 4, "gather", "gather", "resident", 5 * 10**9)
    near = sum(layout.ms(half, (0.25,) * 4, 1, (1.0,) * 4, NVLINK).total for half in one.halves)
    far = one.n_ratings / 4 * far_seconds(one.n_users * one.float16_bytes) * 1e3
    assert near + far == pytest.approx(measured, rel=0.06)
    assert near < 0.45 * measured


def test_short_rows_are_not_cut_and_wait():
    """With 200 million rows on both sides, and 100 ratings in each."""
    square = shape(2e8, 2e8, 2e10, 16)
    items, _ = square.halves
    near = shape(2e6, 2e6, 2e8, 16)
    waits = square.n_ratings * far_seconds(2e8 * square.float16_bytes) * 1e3
    assert square.one_gpu_ms(items) == pytest.approx(100 * near.one_gpu_ms(near.halves[0]) + waits, rel=0.01)


def test_a_share_of_the_fixed_rows_is_read_in_waves_within_reach():
    one, (items, _) = hugewiki(100), hugewiki(100).halves
    assert [one.waves(items, share) for share in (1.0, 0.5, 0.25, 0.05)] == [17, 9, 5, 1]
    assert one.waves_ms(items, 0.05) == 0
    assert one.waves_ms(items, 0.25) == pytest.approx(4 * 4 * 39_780 * 28_672 / 3.35e12 * 1e3)


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
