"""Plans of trainings on several GPUs: modes, bytes and times of known shapes, and what no plan may violate."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.als.planner import Partitions, Plan, paper_partitions, plan
from gpu.als.planner_costs import Gpu, Shape
from gpu.base.errors import InvalidInput, NotEnoughMemory
from tests.gpu.als.test_planner_costs import netflix, shape
from tests.gpu.als.test_planner_layout import hugewiki

GB = 10**9
H200 = Gpu(141 * GB)
PAPER = 12 * GB  # of each of the four GPUs of [001] §5.5
# [001] Table 5: users, items, ratings, factors.
SPARKALS = (660e6, 2.4e6, 3.5e9, 10)
FACTORBIRD = (229e6, 195e6, 38.5e9, 5)
FACEBOOK = (1056e6, 48e6, 112e9, 16)


def modes(found: Plan) -> tuple[str, str]:
    return found.items.mode, found.users.mode


def by_paper(users: float, items: float, ratings: float, n_factors: int) -> list[Partitions]:
    """Eq. 8 for the half that solves X (users), and for the one that solves Θ (items)."""
    x, theta, n = int(users), int(items), int(ratings)
    found = [paper_partitions(*rows, n, n_factors, PAPER) for rows in ((x, theta), (theta, x))]
    return [one for one in found if one is not None]


def test_eq_8_divides_sparkals_as_the_paper_does():
    """§5.5: "apply model parallelism solving X, and apply data parallelism solving Θ", on four GPUs."""
    x, theta = by_paper(*SPARKALS)
    assert x.p == 1 < x.q
    assert theta.p == 4


def test_eq_8_divides_factorbird_as_the_paper_does():
    """§5.5: only model parallelism, because both sides fit into one GPU."""
    assert [half.p for half in by_paper(*FACTORBIRD)] == [1, 1]


def test_eq_8_divides_the_size_of_facebook():
    """§5.5: Θ in many sequential batches, because X does not fit into four GPUs. The paper divides Θ too, while X is
    solved; eq. 8 does so with F = 100, but not with F = 16."""
    x, theta = by_paper(*FACEBOOK)
    assert (x.p, theta.p) == (1, 11)
    x, theta = by_paper(*FACEBOOK[:3], 100)
    assert x.p == 3
    assert theta.p == 70


def test_eq_8_counts_bytes():
    """m = n = 1,000, f = 10, Nz = 10,000: 40,000 for Θ; for X and R 4 (120 + 1) m + 8 Nz = 564,000 by q."""
    room = 500_000_000 + 40_000
    assert paper_partitions(1000, 1000, 10_000, 10, room + 564_000) == Partitions(1, 1)
    assert paper_partitions(1000, 1000, 10_000, 10, room + 282_000) == Partitions(1, 2)
    assert paper_partitions(1000, 1000, 10_000, 10, 500_000_000) is None


def test_plans_of_the_papers_large_problems_on_its_gpus():
    """Gather is its model parallelism, reduce its data parallelism; batches follow each other."""
    gpus = [Gpu(PAPER)] * 4
    sparkals, factorbird, facebook = (plan(shape(*one), gpus) for one in (SPARKALS, FACTORBIRD, FACEBOOK))
    assert (modes(sparkals), sparkals.placement) == (("reduce", "gather"), "rows streamed")
    assert (modes(factorbird), factorbird.placement) == (("gather", "gather"), "ratings streamed")
    assert (modes(facebook), facebook.placement) == (("reduce", "reduce"), "rows streamed")
    assert (factorbird.items.q, facebook.items.q) == (206, 835)
    assert {one.items.p for one in (sparkals, factorbird, facebook)} == {4}


def test_plans_of_the_papers_large_problems_on_gpus_of_80_gb():
    gpus = [Gpu(80 * GB)] * 4
    found = [plan(shape(*one), gpus) for one in (SPARKALS, FACTORBIRD, FACEBOOK, (*FACEBOOK[:3], 100))]
    assert [one.placement for one in found] == ["resident", "ratings streamed", "ratings streamed", "rows streamed"]
    assert [one.items.q for one in found] == [1, 3, 20, 147]


def test_fixed_rows_that_do_not_fit_follow_each_other_in_waves():
    """[001] Alg. 3, line 9, with more parts than GPUs: SparkALS' users take 21 GB in float16, Facebook's 220."""
    found = plan(shape(*SPARKALS), [Gpu(PAPER)])
    assert (modes(found), found.placement) == (("reduce", "gather"), "waves")
    assert found.host_bytes == (16 + 8) * 3_500_000_000 + 3 * 40 * 662_400_000 + 32 * 660_000_000
    facebook = plan(shape(*FACEBOOK[:3], 100), [Gpu(PAPER)] * 4)
    assert (modes(facebook), facebook.placement) == (("reduce", "reduce"), "waves")
    assert max(facebook.gpu_bytes) <= PAPER
    assert plan(shape(*SPARKALS), [Gpu(24 * GB)]).placement == "rows streamed"  # waves are slower


def test_the_host_has_what_gpus_have_no_room_for():
    """Of SparkALS: ratings in both orders; one more copy of those that are added up; float32 rows; the model."""
    ratings, rows = 3_500_000_000, 40 * 662_400_000
    resident = plan(shape(*SPARKALS), [Gpu(80 * GB)] * 4)
    assert resident.host_bytes == 16 * ratings + 2 * rows
    assert plan(shape(*SPARKALS), [Gpu(PAPER)] * 4).host_bytes == (16 + 8) * ratings + 3 * rows


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize(
    ("n_factors", "forecast"),
    [(64, {2: 1.87, 4: 3.46, 8: 6.0}), (100, {2: 1.89, 4: 3.55, 8: 6.3}), (128, {2: 1.90, 4: 3.59, 8: 6.4})],
)
def test_netflix_is_gathered_in_both_halves(p, n_factors, forecast):
    found = plan(netflix(n_factors), [H200] * p)
    assert modes(found) == ("gather", "gather")
    assert (found.items.p, found.items.q, found.placement) == (p, 1, "resident")
    assert found.one_gpu_ms is not None
    assert found.one_gpu_ms / found.ms == pytest.approx(forecast[p], rel=0.15)


@pytest.mark.parametrize(("p", "gb", "ms"), [(2, 43, 390), (4, 22, 199), (8, 12, 104)])
def test_hugewiki_is_reduced_for_items(p, gb, ms):
    found = plan(hugewiki(), [H200] * p)
    assert modes(found) == ("reduce", "gather")
    assert found.ms == pytest.approx(ms, rel=0.03)
    held = [found.gpu_bytes[0] - half.gpu_bytes[0].reserve for half in (found.items, found.users)]
    assert max(held) / GB == pytest.approx(gb, rel=0.08)


def test_hugewiki_on_one_gpu():
    """Parts of long rows take up to a sixteenth of the memory."""
    found = plan(hugewiki(), [H200])
    held = found.items.gpu_bytes[0]
    assert (held.total - held.reserve - held.slots) / GB == pytest.approx(82, rel=0.05)
    assert found.ms == pytest.approx(760, rel=0.03)
    assert plan(hugewiki(), [Gpu(80 * GB)]).placement == "ratings streamed"


@pytest.mark.parametrize("p", [2, 4, 8])
def test_a_table_is_gathered_up_to_some_hundred_fixed_rows_for_a_solved_one(p):
    """Gathering costs 208 bytes a user, reducing 28,672 an item and the traffic of memory: equal at 138 or later."""
    near, far = (plan(shape(ratio * 40_000, 40_000, 1e9, 100), [H200] * p) for ratio in (135, 200))
    assert (near.items.mode, far.items.mode) == ("gather", "reduce")


def test_one_gpu_is_better_for_few_ratings():
    found = plan(shape(6040, 3706, 900_188, 100), [H200] * 2)
    assert found.gpus == (0,)
    assert found.reason.startswith("one GPU is better: an epoch takes ")
    assert "moves" in found.reason


def test_the_start_counts_if_the_number_of_epochs_is_known():
    few, many = (plan(netflix(100), [H200] * 4, n_epochs=n) for n in (20, 1000))
    assert few.gpus == (0,)
    assert "made up for in epoch" in few.reason
    assert many.gpus == (0, 1, 2, 3)
    assert plan(hugewiki(), [H200] * 4, n_epochs=8).gpus == (0, 1, 2, 3)


def test_a_gpu_that_serves_gets_half():
    serving = Gpu(80 * GB, weight=0.5)
    found = plan(netflix(100), [serving, Gpu(80 * GB), Gpu(80 * GB)])
    assert found.shares == pytest.approx([0.2, 0.4, 0.4])
    without = plan(netflix(100), [Gpu(80 * GB)] * 2)
    assert found.ms < without.ms
    assert serving.usable_bytes == 40 * GB


def test_a_small_gpu_gets_fewer_rows():
    found = plan(hugewiki(), [Gpu(24 * GB), Gpu(80 * GB), Gpu(48 * GB)])
    assert found.placement == "resident"
    small, *large = found.shares
    assert small < min(large)
    assert sum(found.shares) == pytest.approx(1)
    assert found.gpu_bytes[0] > 22 * GB


def test_a_gpu_too_small_for_a_whole_table_is_left_out():
    found = plan(netflix(100), [Gpu(2 * GB), H200, H200])
    assert found.gpus == (1, 2)
    assert found.reason.startswith("2 of 3 GPUs")


def test_kept_bytes_stay_free():
    gpus = [Gpu(80 * GB, kept_bytes=30 * GB)] * 2
    assert max(plan(hugewiki(), gpus).gpu_bytes) <= 80 * GB
    assert plan(hugewiki(), gpus).items.gpu_bytes[0].reserve > 30 * GB


def test_no_more_gpus_than_rows():
    found = plan(shape(10**6, 3, 3 * 10**6, 200), [H200] * 8)
    assert found.items.p <= 3
    assert plan(shape(10**6, 1, 10**6, 200), [H200] * 8).reason == "one GPU: one side has a single row"


def test_what_does_not_fit_says_what_would():
    size = 50e6, 50e6, 1e9
    with pytest.raises(NotEnoughMemory) as caught:
        plan(shape(*size, 100), [Gpu(3 * GB)])
    error = caught.value
    assert error.needed_bytes > error.free_bytes == 3 * GB
    assert "solved table takes 10,400,000,000 of these bytes" in str(error)
    assert str(error).endswith("; at most 8 factors fit, 64 such GPUs are enough")
    assert plan(shape(*size, 8), [Gpu(3 * GB)])


def test_a_gpu_without_room_for_cuda_is_refused():
    with pytest.raises(NotEnoughMemory, match=r"reserve takes .*; use GPUs with more memory"):
        plan(netflix(100), [Gpu(GB // 2)] * 2)
    with pytest.raises(InvalidInput, match="Invalid gpus: expected at least one, got none"):
        plan(netflix(100), [])


GPUS = st.builds(Gpu, st.integers(4 * GB, 100 * GB), st.sampled_from([0.5, 1.0]), st.integers(0, GB))
ROWS = st.integers(2, 10**8)


@settings(max_examples=80, deadline=None)
@given(st.lists(GPUS, min_size=1, max_size=4), ROWS, ROWS, st.integers(1, 10**11), st.integers(4, 256), st.booleans())
def test_every_plan_fits_and_uses_what_it_names(gpus, users, items, ratings, n_factors, is_implicit):
    try:
        found = plan(Shape(users, items, ratings, n_factors, is_implicit, not is_implicit, 3), gpus)
    except NotEnoughMemory as error:
        assert error.needed_bytes + error.kept_bytes > error.free_bytes
        return
    assert sum(found.shares) == pytest.approx(1)
    assert min(found.shares) > 0
    assert len(set(found.gpus)) == len(found.shares) == found.items.p == found.users.p
    for held, at in zip(found.gpu_bytes, found.gpus, strict=True):
        assert held <= gpus[at].usable_bytes
    assert 1 <= found.items.q <= items
    assert 1 <= found.users.q <= users
    assert found.one_gpu_ms is None or found.ms <= found.one_gpu_ms
