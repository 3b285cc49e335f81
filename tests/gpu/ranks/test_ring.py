"""The ring of ranks against sums and copies of NumPy, as threads and over TCP; lost, silent and foreign ranks."""

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.base.errors import RankLost
from gpu.data.views import balanced_bounds
from gpu.ranks import ring as exchange
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.ring import Ring
from gpu.ranks.threads import run_threads, threads
from gpu.ranks.traffic import Traffic

KEY = b"key of a test"
Run = Callable[[int, Callable[[Exchange], Any]], list[Any]]


def run_sockets(size: int, work: Callable[[Ring], Any], timeout_s: float = 10.0) -> list[Any]:
    """As `run_threads`, but over TCP."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]
    addresses = [listener.getsockname()[:2] for listener in listeners]
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        ring = exchange.connect(rank, addresses, listeners[rank], KEY, timeout_s)
        try:
            results[rank] = work(ring)
        except RankLost as error:
            results[rank] = error
        finally:
            ring.close()

    started = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return results


@pytest.fixture(params=[run_threads, run_sockets], ids=["threads", "sockets"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=12), size=st.integers(1, 4), width=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_every_rank_gets_all_rows(lengths, size, width):
    bounds = balanced_bounds(np.array(lengths, dtype=np.int64), size) if sum(lengths) else np.arange(size + 1) * 0
    bounds[-1] = len(lengths)
    whole = np.random.default_rng(size).standard_normal((len(lengths), width), dtype=np.float32)

    def work(ring: Exchange) -> Any:
        table = np.full_like(whole, np.nan)
        own = slice(bounds[ring.rank], bounds[ring.rank + 1])
        table[own] = whole[own]
        ring.gather(table, bounds)
        return table

    for table in run_threads(size, work):
        np.testing.assert_array_equal(table, whole)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_sums_have_equal_bits_on_all_ranks_and_in_every_run(run, size):
    rng = np.random.default_rng(size)
    parts = rng.standard_normal((size, 7, 3), dtype=np.float32)
    bounds = np.arange(size + 1, dtype=np.int64) * 7 // size

    def work(ring: Exchange) -> Any:
        scattered, reduced = parts[ring.rank].copy(), parts[ring.rank].copy()
        ring.reduce_scatter(scattered, bounds)
        ring.reduce(reduced)
        ring.barrier()
        return scattered[bounds[ring.rank] : bounds[ring.rank + 1]], reduced, ring.totals(ring.rank + 0.5, 1.0)

    results, again = run(size, work), run(size, work)
    expected = parts.astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(np.concatenate([sums for sums, _, _ in results]), expected, atol=1e-5)
    for (sums, reduced, totals), (sums_again, reduced_again, _) in zip(results, again, strict=True):
        np.testing.assert_allclose(reduced, expected, atol=1e-5)
        np.testing.assert_array_equal(reduced, results[0][1])
        np.testing.assert_array_equal(sums, sums_again)
        np.testing.assert_array_equal(reduced, reduced_again)
        assert totals == (size * size / 2, size)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_shift_brings_the_array_of_the_rank_before(run, size):
    def work(ring: Exchange) -> Any:
        received = np.empty(1 + (ring.rank - 1) % size, dtype=np.int64)
        ring.shift(np.full(1 + ring.rank, ring.rank), received)
        return received.tolist()

    before = [(rank - 1) % size for rank in range(size)]
    assert run(size, work) == [[rank] * (1 + rank) for rank in before]


def test_more_bytes_than_buffers_hold_pass_both_ways_at_once():
    n = 2**24

    def work(ring: Ring) -> Any:
        received = np.empty(n, dtype=np.uint8)
        ring.shift(np.full(n, ring.rank, dtype=np.uint8), received)
        return int(received.min()), int(received.max())

    assert run_sockets(2, work) == [(1, 1), (0, 0)]


@pytest.mark.parametrize("size", [2, 3])
def test_traffic_is_counted_by_kind(run, size):
    bounds, n = np.arange(size + 1) * 6 // size, 6 * 4 // size  # bytes of a block

    def work(ring: Ring) -> Any:
        for do in (ring.gather, ring.reduce_scatter):
            do(np.zeros(6, dtype=np.float32), bounds)
        ring.reduce(np.zeros(6, dtype=np.float32))
        ring.shift(np.zeros(5), np.zeros(5))
        return ring.traffic.take(), ring.traffic.take()

    for moved, later in run(size, work):
        sent = (size - 1) * n
        assert moved.sent == {"gather": sent, "reduce_scatter": sent, "reduce": 2 * sent, "shift": 40}
        assert moved.seconds > 0
        assert later == ({}, 0)


def test_waiting_for_another_rank_counts():
    def work(ring: Ring) -> float:
        if ring.rank:
            time.sleep(0.2)
        ring.barrier()
        return ring.traffic.take().seconds

    first, second = run_threads(2, work)
    assert first > 0.15
    assert second < first


def test_an_outer_kind_comes_first():
    traffic = Traffic()
    with traffic.of("stores", 7), traffic.of("reduce", 4):
        traffic.add(1, 0.5)
    traffic.measure(lambda: 0.25)
    assert traffic.take() == ({"stores": 12}, 0.75)


def test_a_single_rank_needs_no_exchange():
    table = np.arange(4.0)
    bounds = np.array([0, 4])
    ALONE.gather(table, bounds)
    ALONE.reduce_scatter(table, bounds)
    ALONE.reduce(table)
    ALONE.shift(table, received := np.empty(4))
    ALONE.barrier()
    ALONE.close()
    assert table.tolist() == received.tolist() == [0, 1, 2, 3]
    assert ALONE.totals(2.0, 3.0) == (2.0, 3.0)


def test_a_rank_that_leaves_is_noticed_by_the_others():
    results = run_sockets(3, lambda ring: None if ring.rank == 1 else ring.barrier())
    assert results[1] is None
    assert any(isinstance(results[rank], RankLost) for rank in (0, 2))


@pytest.mark.parametrize("link", ["threads", "sockets"])
def test_a_silent_rank_is_given_up(link):
    waiting = threading.Event()

    def work(ring: Ring) -> Any:
        if ring.rank == 1:
            waiting.wait(20)
            return None
        try:
            ring.barrier()
        except RankLost as error:
            return error
        finally:
            waiting.set()

    rings = {"threads": run_threads, "sockets": run_sockets}
    assert isinstance(rings[link](2, work, 0.2)[0], RankLost)


def test_a_foreign_key_is_refused():
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [listener.getsockname()[:2] for listener in listeners]
    errors: list[BaseException | None] = [None, None]

    def run(rank: int) -> None:
        try:
            exchange.connect(rank, addresses, listeners[rank], [KEY, b"another"][rank], 2.0).close()
        except RankLost as error:
            errors[rank] = error

    started = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert all("key of this training" in str(error) for error in errors)


def test_rows_that_are_not_contiguous_are_refused():
    with pytest.raises(ValueError, match="expected contiguous rows"):
        threads(2)[0].gather(np.zeros((4, 4))[:, ::2], np.array([0, 2, 4]))


def test_an_error_of_one_rank_is_the_error_of_all():
    def work(ring: Ring) -> None:
        if ring.rank == 1:
            raise ZeroDivisionError
        ring.barrier()

    with pytest.raises(ZeroDivisionError):
        run_threads(2, work, 2.0)
