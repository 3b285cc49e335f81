"""A folder of raw arrays reads as the ratings it was written from; parts are the same pairs from both sides."""

import numpy as np
import pytest

import gpu
from benchmarks.als_matrix import first_users, read, sampled
from gpu.errors import InvalidInput


def same(one, other):
    arrays = zip((*one.by_user, *one.by_item), (*other.by_user, *other.by_item), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays)


def test_a_folder_reads_as_the_ratings_it_was_written_from(folder, train, held_out):
    read_train, read_test = read(folder)
    assert same(read_train, train)
    assert same(read_test, held_out)


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("R_train_csc.indices", lambda a: a[:-1], "expected .* as meta.json says"),
        ("R_train_csc.indices", lambda a: np.full_like(a, 25), "expected columns from 0 to 24"),
        ("R_train_csr.indices", lambda a: a[::-1].copy(), "ascend in each row"),
        ("R_train_csr.indptr", lambda a: a[::-1].copy(), "expected to ascend from 0"),
        ("R_train_csc.data", lambda a: np.full_like(a, 0x7FC00000), "expected finite ratings"),
    ],
)
def test_a_broken_file_is_named(folder, name, change, complaint):
    path = folder / f"{name}.bin"
    change(np.fromfile(path, dtype=np.int32)).tofile(path)
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read(folder)
    assert name in str(caught.value)


def test_a_share_of_the_ratings_is_the_same_from_both_sides(train):
    half = sampled(train, 0.5)
    assert same(half, gpu.Ratings.from_coo(*half.coo(), (train.n_users, train.n_items)))
    assert 0.35 < len(half) / len(train) < 0.65
    assert set(zip(*half.coo(), strict=True)) < set(zip(*train.coo(), strict=True))
    assert same(sampled(train, 1), train)


@pytest.mark.parametrize("share", [0.0, 0.3, -0.5, 2.0])
def test_a_share_that_is_not_one_over_a_whole_number_is_refused(train, share):
    with pytest.raises(InvalidInput, match="expected one over a whole number"):
        sampled(train, share)


def test_the_first_users_keep_all_their_ratings(train):
    part = first_users(train, 0.25)
    users, items, values = train.coo()
    assert same(part, gpu.Ratings.from_coo(users[users < 10], items[users < 10], values[users < 10], (10, 25)))
