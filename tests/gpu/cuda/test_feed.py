"""The feed of host arrays to the device: right content in any order, while buffers are still read."""

import importlib
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def feed() -> ModuleType:
    return importlib.import_module("gpu.cuda.feed")


def arrays_of(number: int, sizes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(number)
    return [rng.integers(0, 1000, size).astype(dtype) for size, dtype in zip(sizes, ("i4", "f4", "i8"), strict=True)]


SIZES = [(3_000_000, 5, 0), (0, 0, 0), (1, 2_000_001, 7), (1_048_576, 1_048_577, 3), (64, 64, 64)]


def test_parcels_arrive_whole_in_any_order(feed):
    given = [arrays_of(number, sizes) for number, sizes in enumerate(SIZES)]
    tested = feed.Feed()
    assert [tested.add(feed.Parcel(arrays, 1000)) for arrays in given] == list(range(len(SIZES)))
    order = [*range(5), *range(5), 3, 3, 0, 4, 2, 1, 0, *range(5), 4, 0]
    for number in order:
        arrays, spare = tested.take(number)
        spare.fill(255)  # spare memory is a parcel's own
        for array, wanted in zip(arrays, given[number], strict=True):
            np.testing.assert_array_equal(array.get(), wanted)
        tested.release(number)


def test_a_buffer_is_filled_again_only_after_it_was_read(feed):
    cupy = importlib.import_module("cupy")

    n = 4_000_000
    tested, totals = feed.Feed(), []
    for number in range(5):
        tested.add(feed.Parcel([np.full(n, number, dtype=np.float64)], 0))
    for turn in range(40):
        (array,), _ = tested.take(turn % 5)
        for _ in range(20):  # work that goes on long after the release
            total = cupy.sort(array)[[0, -1]]
        totals.append(total)
        tested.release(turn % 5)
    assert [total.get().tolist() for total in totals] == [[turn % 5] * 2 for turn in range(40)]


@pytest.mark.parametrize("n_writers", [1, 2, 5])
@pytest.mark.parametrize("n_readers", [1, 2, 5])
def test_what_others_change_is_loaded_after_it_has_changed(feed, n_writers, n_readers):
    """Parcels that write pieces of an array, then parcels that read other pieces of it, turn by turn."""
    n = 2_000_000
    shared, tested = np.zeros(n), feed.Feed()
    for k in range(n_writers):
        tested.add(feed.Parcel([shared[n * k // n_writers : n * (k + 1) // n_writers]], 0, 1))
    for k in range(n_readers):
        tested.add(feed.Parcel([shared[n * k // n_readers : n * (k + 1) // n_readers]], 0, is_of_others=True))
    for turn in range(1, 9):
        for number in range(n_writers):
            (array,), _ = tested.take(number)
            array += 1
            tested.release(number, is_changed=True)
        for number in range(n_writers, n_writers + n_readers):
            (array,), _ = tested.take(number)
            assert array.min() == array.max() == turn
            tested.release(number)
    tested.wait()
    assert (shared == 8).all()


def test_one_parcel_is_enough(feed):
    tested = feed.Feed()
    tested.add(feed.Parcel([np.arange(10)], 0))
    for _ in range(3):
        (array,), _ = tested.take(0)
        assert array.get().tolist() == list(range(10))
        tested.release(0)


def test_a_link_has_a_rate(feed):
    assert 1e8 < feed.link_rate(2**24) < 1e12
