"""Layouts: what each GPU holds, the smallest number of batches, and the time of moves and loads."""

import pytest

from gpu.als.planner_costs import MEMORY_BYTES, MORE_SLOTS, NVLINK, Gpu, Shape
from gpu.als.planner_layout import Layout, Placement, batches, shares_of
from tests.gpu.als.test_planner_costs import netflix, shape

GB = 10**9


def hugewiki() -> Shape:
    return shape(50_082_603, 39_780, 3.1e9, 100)


def layout(one: Shape, p: int, placement: Placement = "resident", **modes) -> Layout:
    modes = {"items": "gather", "users": "gather"} | modes
    return Layout(one, p, placement=placement, part_limit=5 * GB, wave_limit=GB, **modes)


def times(one: Layout) -> list:
    """The times of both halves, with equal shares."""
    shares, weights = (1 / one.p,) * one.p, (1.0,) * one.p
    return [one.ms(half, shares, 1, weights, NVLINK) for half in one.shape.halves]


@pytest.mark.parametrize(("p", "forecast"), [(2, 405), (4, 222), (8, 131)])
def test_gathering_the_users_of_hugewiki(p, forecast):
    assert sum(half.total for half in times(layout(hugewiki(), p))) == pytest.approx(forecast, rel=0.03)


@pytest.mark.parametrize(("p", "moved"), [(2, 1.30), (4, 1.63)])
def test_reducing_the_sums_of_netflix_items(p, moved):
    """Four H100 reduced 366 MB in 1.17 ms, two in .93; 510 MB take as much longer."""
    moves = times(layout(netflix(100), p, items="reduce"))[0].moves
    there_and_back = 2 * netflix(100).slot_bytes * 17_770 / MEMORY_BYTES * 1e3
    assert moves - there_and_back == pytest.approx(moved, rel=0.13)


@pytest.mark.parametrize(("p", "load"), [(1, 992), (2, 496), (4, 248), (8, 124)])
def test_loading_the_ratings_of_hugewiki(p, load):
    """8 bytes a rating in both halves over 50 GB/s, and a work item for each row."""
    found = times(layout(hugewiki(), p, "ratings streamed"))
    assert sum(half.load for half in found) == pytest.approx(load, rel=0.04)
    assert found[0].total == found[0].load + found[0].moves


def test_the_mode_decides_which_rows_a_gpu_holds():
    items, users = hugewiki().halves
    whole, part = layout(hugewiki(), 4), layout(hugewiki(), 4, items="reduce")
    assert whole.held(items, 0.25, 1).fixed_table == 208 * 50_082_603
    assert part.held(items, 0.25, 1).fixed_table == pytest.approx(208 * 50_082_603 / 4, abs=1)
    assert part.held(users, 0.25, 1).solved_table == part.held(items, 0.25, 1).fixed_table
    assert part.held(items, 0.25, 1).slots == 28_672 * (39_780 + MORE_SLOTS)
    assert part.held(items, 0.25, 5).slots == 28_672 * (39_780 / 5 + MORE_SLOTS)
    assert whole.held(items, 0.25, 1).ratings == 2 * 8 * 3_100_000_000 / 4


def test_only_several_gpus_have_a_communicator():
    (items, _), one = hugewiki().halves, layout(hugewiki(), 1)
    several = layout(hugewiki(), 2).held(items, 0.5, 1, kept_bytes=GB)
    assert several.reserve - one.held(items, 1, 1).reserve == 1_600_000_000 + GB


@pytest.mark.parametrize("gb", [16, 20, 30, 40])
def test_batches_are_as_few_as_fit(gb):
    gpus, one = [Gpu(gb * GB)] * 4, layout(hugewiki(), 4, "ratings streamed", items="reduce")
    for half in hugewiki().halves:
        q = batches(one, half, gpus, (0.25,) * 4)
        assert one.held(half, 0.25, q).total <= gb * GB
        assert q == 1 or one.held(half, 0.25, q - 1).total > gb * GB - 100


def test_a_gpu_that_cannot_hold_its_share_gets_what_it_can():
    one = layout(hugewiki(), 3, items="reduce")
    gpus = [Gpu(100 * GB), Gpu(20 * GB), Gpu(100 * GB)]
    shares = shares_of(one, gpus)
    assert shares is not None
    assert shares[0] == shares[2] > shares[1] > 0.15
    held = max(one.held(half, shares[1], 1).total for half in hugewiki().halves)
    assert held == pytest.approx(20 * GB, rel=1e-6)
    assert shares_of(one, [Gpu(20 * GB)] * 3) is None


def test_shares_follow_weights_where_all_fit():
    assert shares_of(layout(netflix(64), 2), [Gpu(80 * GB, 0.5), Gpu(80 * GB)]) == pytest.approx((1 / 3, 2 / 3))
