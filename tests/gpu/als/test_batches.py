"""ALS with ratings in batches: the bits of a training in memory, on every backend; and what fits."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpu
from gpu.als import host, host_stream
from gpu.als.batches import Batches, cut
from gpu.als.halves import Modes, bounds_of, own_of
from gpu.als.objective import AlsObjective, Extent, width
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.trainer import AlsTrainer
from gpu.base.backend import HOST, Backend
from gpu.base.errors import NotEnoughMemory
from gpu.data.calibration import calibrate
from gpu.data.ratings import Ratings, Rows
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.threads import run_threads
from gpu.training.loop import train
from tests import reference
from tests.gpu.als.test_ranks import ratings_of
from tests.gpu.als.test_trainer import (
    EXPLICIT,
    IMPLICIT,
    UNCENTERED,
    assert_rows_agree,
    near,
    pairs,
    rows_of,
    signed,
    table_of,
    tolerance,
)
from tests.gpu.twins import twin_of

PARAMS: dict[str, Any] = {
    "explicit": AlsParams(n_factors=8, n_epochs=3, seed=7),
    "no biases, Cholesky": AlsParams(n_factors=5, n_epochs=2, biases=False, solver="cholesky"),
    "float32": AlsParams(n_factors=8, n_epochs=2, precision="float32"),
    "implicit": AlsImplicitParams(n_factors=8, n_epochs=3),
}
PROBLEMS = {"biases": EXPLICIT, "plain": UNCENTERED, "implicit": IMPLICIT, "signed": IMPLICIT}


def even(n_rows: int, q: int) -> np.ndarray:
    """Bounds of q batches with about equally many rows; some are empty if there are fewer rows."""
    return np.arange(q + 1, dtype=np.int64) * n_rows // q


def streamed_half(
    backend: Backend,
    rows: Rows,
    start: np.ndarray,
    fixed: np.ndarray,
    problem: AlsObjective,
    bounds: np.ndarray,
    n_turns: int = 1,
) -> tuple[np.ndarray, Any, Any, Any]:
    """(the solved table, the batches, both tables on the backend) after `n_turns` half-iterations from `start`."""
    als, stream = twin_of(host, backend), twin_of(host_stream, backend)
    side = stream.prepare(rows, len(fixed), problem, len(fixed), bounds, stream.Feed(), als.load(start, problem))
    still = als.load(fixed, problem)
    for _ in range(n_turns):
        solved = als.load(start.copy(), problem)
        stream.solve(side, solved, still, problem)
        als.finish()
    return np.asarray(als.fetch(solved)), side, solved, still


def resident_half(
    backend: Backend, rows: Rows, start: np.ndarray, fixed: np.ndarray, problem: AlsObjective
) -> tuple[np.ndarray, Any, Any, Any]:
    """The same without batches."""
    als = twin_of(host, backend)
    side = als.prepare(rows, len(fixed), problem)
    solved, still = als.load(start.copy(), problem), als.load(fixed, problem)
    als.solve(side, solved, still, problem)
    als.finish()
    return np.asarray(als.fetch(solved)), side, solved, still


# --- one half-iteration ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("solver", ["cg", "cholesky"])
@given(
    lengths=st.lists(st.one_of(st.just(0), st.integers(0, 70)), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_ragged_rows_in_any_batches_have_the_bits_of_one_batch_and_agree_with_the_oracle(
    kind, solver, backend, lengths, cuts, seed
):
    problem = PROBLEMS[kind]._replace(solver=solver, cg_tolerance=0.0)
    rows, fixed = rows_of(lengths, 70, seed), table_of(70, problem, seed)
    rows = signed(rows) if kind == "signed" else rows
    start = near(rows, fixed, problem, seed)
    bounds = np.array([0, *sorted(min(one, len(lengths)) for one in cuts), len(lengths)], dtype=np.int64)
    found, *_ = streamed_half(backend, rows, start, fixed, problem, bounds, n_turns=2)
    whole, *_ = resident_half(backend, rows, start, fixed, problem)
    np.testing.assert_array_equal(found, whole)
    expected = reference.als_half(pairs(rows), start, fixed, problem)
    median, worst = tolerance(backend, problem)
    assert_rows_agree(found, expected, (10 * median, 10 * worst))


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("q", [1, 2, 3, 7])
def test_long_rows_errors_and_penalties_in_batches(kind, precision, q, backend):
    problem = PROBLEMS[kind]._replace(precision=precision)
    lengths = [0, 40_000, 1, 9000, 0, 33, 20_000, 17, 8193, 0]
    rows, fixed = rows_of(lengths, 50_000), table_of(50_000, problem)
    rows = signed(rows) if kind == "signed" else rows
    start = np.full((len(lengths), fixed.shape[1]), 0.1, dtype=np.float32)
    als, stream = twin_of(host, backend), twin_of(host_stream, backend)
    found, batches, *tables = streamed_half(backend, rows, start, fixed, problem, even(len(lengths), q), n_turns=3)
    whole, side, *_ = resident_half(backend, rows, start, fixed, problem)
    np.testing.assert_array_equal(found, whole)
    errors = stream.errors(batches, *tables, problem, (1.0, 5.0))
    assert errors == pytest.approx(als.errors(side, *tables, problem, (1.0, 5.0)), rel=1e-9)
    penalty = stream.penalty(batches, tables[0], problem)
    assert penalty == pytest.approx(als.penalty(side, tables[0], problem), rel=1e-9)
    stream.solve(batches, *tables, problem)  # after errors, which load in another order


@pytest.mark.parametrize("n_factors", [256, 300])
def test_many_factors_in_batches(n_factors, backend):
    problem, lengths = EXPLICIT._replace(n_factors=n_factors, precision="float16"), [300, 0, 9000, 5, 40]
    rows, fixed = rows_of(lengths, 20_000), table_of(20_000, problem)
    start = np.zeros((len(lengths), fixed.shape[1]), dtype=np.float32)
    if not twin_of(host_stream, backend).can_stream(problem):
        with pytest.raises(gpu.InvalidParams, match="expected at most 256 with batches, got 300"):
            streamed_half(backend, rows, start, fixed, problem, even(5, 2))
        return
    found, *_ = streamed_half(backend, rows, start, fixed, problem, even(5, 3))
    np.testing.assert_array_equal(found, resident_half(backend, rows, start, fixed, problem)[0])


# --- a training ------------------------------------------------------------------------------------------------------


def trained(
    params: Any,
    ratings: Ratings,
    backend: Backend,
    batches: Batches | None,
    exchange: Exchange = ALONE,
    modes: Modes | None = None,
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    reports: list[dict[str, Any]] = []
    calibration = calibrate(ratings, params)
    trainer = AlsTrainer(ratings, params, backend, ratings_of(n=100, seed=1), calibration, exchange, modes, batches)
    model = train(trainer, lambda report: reports.append(dict(report.metrics)))
    return model.arrays, reports


def in_batches(ratings: Ratings, q: int, exchange: Exchange = ALONE) -> Batches:
    """q batches of the users, and one more of the items, of a rank."""
    users, items = (own_of(bounds_of(rows, exchange.weights), exchange) for rows in (ratings.by_user, ratings.by_item))
    return Batches(even(users.stop - users.start, q), even(items.stop - items.start, q + 1))


def on_disk(ratings: Ratings, folder: Path) -> Ratings:
    """The same ratings in files that are mapped, not read."""
    folder.mkdir()

    def mapped(name: str, array: np.ndarray) -> np.ndarray:
        array.tofile(folder / name)
        return np.asarray(np.memmap(folder / name, array.dtype, "c", shape=array.shape))

    sides = [
        Rows(*(mapped(f"{side}.{name}", array) for name, array in rows._asdict().items()))
        for side, rows in (("user", ratings.by_user), ("item", ratings.by_item))
    ]
    return Ratings(sides[0], sides[1], ratings.user_keys, ratings.item_keys)


@pytest.mark.parametrize("kind", PARAMS)
@pytest.mark.parametrize("q", [1, 2, 5, 70])
def test_mapped_ratings_in_batches_give_the_bits_of_ratings_in_memory(kind, q, backend, tmp_path):
    ratings, params = ratings_of(), PARAMS[kind]
    expected, reports = trained(params, ratings, backend, None)
    found, metrics = trained(params, on_disk(ratings, tmp_path / "store"), backend, in_batches(ratings, q))
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    for one, other in zip(metrics, reports, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
@pytest.mark.parametrize("size", [2, 3])
def test_ranks_with_batches_give_the_bits_of_one_without(kind, size):
    ratings, params = ratings_of(), PARAMS[kind]
    expected, _ = trained(params, ratings, HOST, None)
    of_ranks = run_threads(size, lambda ring: trained(params, ratings, HOST, in_batches(ratings, 3, ring), ring))
    for name, array in expected.items():
        np.testing.assert_array_equal(of_ranks[0][0][name], array, err_msg=name)


@pytest.mark.parametrize("modes", [Modes("reduce", "gather"), Modes("gather", "reduce"), Modes("reduce", "reduce")])
@pytest.mark.parametrize("kind", ["explicit", "implicit"])
@pytest.mark.parametrize("q", [1, 4, 100])
def test_sums_of_mapped_ratings_in_batches_have_the_bits_of_ratings_in_memory(kind, modes, q, tmp_path, monkeypatch):
    ratings, params, size = ratings_of(), PARAMS[kind], 3

    def batches(ring: Exchange) -> Batches:
        (users, items), numbers = in_batches(ratings, q, ring)[:2], np.arange(q + 1)
        return Batches(numbers if modes.users == "reduce" else users, numbers if modes.items == "reduce" else items)

    monkeypatch.setattr("gpu.als.halves.fewest", lambda bounds, most: q)
    expected = run_threads(size, lambda ring: trained(params, ratings, HOST, None, ring, modes))
    mapped = on_disk(ratings, tmp_path / "store")
    for (arrays, metrics), (wanted, reports) in zip(
        run_threads(size, lambda ring: trained(params, mapped, HOST, batches(ring), ring, modes)), expected, strict=True
    ):
        for name, array in wanted.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        for one, other in zip(metrics, reports, strict=True):
            assert one == pytest.approx(other, rel=1e-9)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_sums_in_given_waves_give_the_model_of_one_wave(kind):
    ratings, params, modes = ratings_of(), PARAMS[kind], Modes("reduce", "gather")

    def run(ring: Exchange, w: int) -> Any:
        users, _ = in_batches(ratings, w, ring)[:2]
        given = Batches(in_batches(ratings, 2, ring).users, np.arange(4), waves=(None, users))
        return trained(params, ratings, HOST, given, ring, modes)

    for w in (2, 7):
        found, expected = (run_threads(2, partial(run, w=n)) for n in (w, 1))
        for name, array in expected[0][0].items():
            np.testing.assert_allclose(found[0][0][name], array, rtol=1e-4, atol=1e-6, err_msg=name)


# --- what fits -------------------------------------------------------------------------------------------------------


def extents(ratings: Ratings) -> list[Extent]:
    """Both sides, as one rank solves them."""
    return [Extent(len(rows.lengths), rows.lengths, True) for rows in (ratings.by_user, ratings.by_item)]


def sizes_of(
    ratings: Ratings, trainer: AlsTrainer, backend: Backend, *, on_host: bool = False
) -> tuple[int, int, list[np.ndarray]]:
    """(bytes with all ratings if memory has a bound, bytes without any, bytes of each row of both sides).

    With `on_host` float32 rows are loaded with the ratings.
    """
    stream, problem, (users, items) = twin_of(host_stream, backend), trainer.problem, extents(ratings)
    given = (users.lengths, items.n_rows, problem), (items.lengths, users.n_rows, problem)
    whole = twin_of(host, backend).base_bytes(users, items, problem) + sum(stream.side_bytes(*one) for one in given)
    of_row = 4 * width(problem) * on_host
    base = stream.base_bytes(users, items, problem, on_host=on_host)
    return whole, base, [stream.row_bytes(*one) + of_row for one in given]


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_less_memory_gives_more_batches_and_the_same_bits_until_the_longest_row_does_not_fit(kind, backend):
    ratings, params = ratings_of(600, 40, 200_000), PARAMS[kind]
    calibration = calibrate(ratings, params)

    def trainer(n_bytes: int | None) -> AlsTrainer:
        return AlsTrainer(ratings, params, replace(backend, limit_bytes=n_bytes), None, calibration)

    whole, base, rows = sizes_of(ratings, trainer(None), backend)
    n_buffers = twin_of(host_stream, backend).n_buffers()
    least = base + n_buffers * max(int(side.max()) for side in rows)
    assert base < least < whole
    assert trainer(None).batches is trainer(whole).batches is None
    expected, n_before = train(trainer(None)).arrays, 0
    for n_bytes in (whole - 1, (whole + least) // 2, least):
        limited = trainer(n_bytes)
        assert limited.batches is not None
        n_batches = sum(map(len, limited.batches[:2]))
        assert n_batches >= n_before
        n_before = n_batches
        for side, bounds in zip(rows, limited.batches[:2], strict=True):
            batches = [int(side[first:last].sum()) for first, last in pairwise(bounds)]
            assert base + n_buffers * max(batches) <= n_bytes
            assert sum(batches) == side.sum()
        for name, array in train(limited).arrays.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name)
    with pytest.raises(NotEnoughMemory, match=r"with ratings in batches of a row each, needs about") as caught:
        trainer(least - 1)
    assert (caught.value.needed_bytes, caught.value.free_bytes) == (least, least - 1)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
@pytest.mark.parametrize("modes", [Modes("reduce", "gather"), Modes("reduce", "reduce")])
def test_ranks_that_add_up_agree_on_batches_that_fit_into_the_least_memory(kind, modes):
    ratings, params = ratings_of(600, 40, 60_000), PARAMS[kind]
    calibration = calibrate(ratings, params)
    expected, _ = trained(replace(params, solver="cholesky"), ratings, HOST, None)

    def trainer(ring: Exchange, n_bytes: int) -> AlsTrainer:
        backend = HOST if ring.rank else HOST.within(n_bytes)
        return AlsTrainer(ratings, replace(params, solver="cholesky"), backend, None, calibration, ring, modes)

    def numbers(n_bytes: int) -> list[int]:
        """Of batches of the items on all ranks."""
        found = run_threads(3, lambda ring: trainer(ring, n_bytes).batches)
        return [0 if batches is None else len(batches.items) - 1 for batches in found]

    with pytest.raises(NotEnoughMemory) as caught:
        numbers(0)
    least, n_before = caught.value.needed_bytes, 40
    for n_bytes in (least, least + 20_000, least + 40_000):
        (n,) = set(numbers(n_bytes))
        assert 0 < n <= n_before
        n_before = n
    assert numbers(10**9) == [0] * 3
    with pytest.raises(NotEnoughMemory, match="with ratings in batches of a row each, needs about"):
        numbers(least - 1)
    for arrays in run_threads(3, lambda ring: train(trainer(ring, least)).arrays)[:1]:
        for name, array in expected.items():
            np.testing.assert_allclose(arrays[name], array, rtol=2e-4, atol=2e-5, err_msg=name)


def test_a_limit_holds_for_every_algorithm_and_counts_what_cuda_takes():
    small = HOST.within(1000)
    assert small.free_bytes() == small.limit_bytes == 1000
    with pytest.raises(NotEnoughMemory, match="1,000 are free"):
        gpu.fit(ratings_of(), gpu.SgdParams(n_factors=4), backend=small)
    assert Backend("device", "").within(8 * 10**9).limit_bytes == 7_500_000_000 - 2**26
    assert Backend("device", "").within(10**8).limit_bytes == 0


@given(sizes=st.lists(st.integers(0, 50), max_size=60), spare=st.integers(0, 200))
def test_runs_are_the_fewest_that_fit_and_about_equal(sizes, spare):
    array = np.array(sizes, dtype=np.int64)
    most = max([*sizes, 1]) + spare
    bounds = cut(array, most)
    assert bounds[0] == 0
    assert bounds[-1] == len(sizes)
    assert (np.diff(bounds) > 0).all()
    runs = [int(array[first:last].sum()) for first, last in pairwise(bounds)]
    assert max(runs, default=0) <= most
    n_greedy, total = min(len(sizes), 1), 0
    for size in sizes:
        n_greedy, total = (n_greedy + 1, size) if total + size > most else (n_greedy, total + size)
    assert len(runs) == n_greedy
    smallest = next(m for m in range(max([*sizes, 1]), most + 1) if len(cut(array, m)) == len(bounds))
    assert max(runs, default=0) <= smallest
