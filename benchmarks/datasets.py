"""Reads ratings, and divides them into training parts and test parts.

A data folder has a folder for each set (`ml-1m/ratings.csv`, …); missing sets are skipped. Test parts are used neither
for training nor to choose settings: settings are chosen on a tenth of the training part.

Ratings also come as a folder of raw arrays in the layout of cuMF: little-endian arrays without headers, int32 or
float32, and bounds of 2³¹ ratings and more int64. `R_train_csc.*` (by user) and `R_train_csr.*` (by item) have
`indptr`, `indices` and `data`, `R_test_coo.*` has `row` (an item), `col` (a user) and `data`, and `meta.json` the
sizes.
"""

# ruff: noqa: PLC0415 - files of ratings need Parquet, which may be missing where kernels are measured
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.peers import ESTIMATES, FACTORS, LISTS, Facts
from gpu.base.errors import InvalidInput
from gpu.data.changes import Changes
from gpu.data.rating_table import RatingTable
from gpu.nmf.params import NmfParams
from gpu.training.evaluate import is_held_out

SEED = 42  # seed of every split
TEST_SHARE, USER_TEST_SHARE, VALIDATION_SHARE = 0.1, 0.2, 0.1
VALIDATION_USERS = 2000  # users whose lists choose the settings; all of them would take longer than the fits
N_NEGATIVES, MOST_USERS = 99, 10_000  # of leave-one-out: items beside the held-out one, and users that are ranked
META = "meta.json"
MOST_INT32 = np.iinfo(np.int32).max
CHUNK = 1 << 22  # ratings per step: the keys of 10⁸ pairs at once would take gigabytes


# Set -> its task, and its file within the data folder. In sets with `ones` these replace the values.
SOURCES = {
    "ml-100k": (ESTIMATES, "ml-100k/u.data"),
    "ml-1m": (ESTIMATES, "ml-1m/ratings.csv"),
    "jester": (ESTIMATES, "jester/ratings.csv"),
    "bookcrossing": (ESTIMATES, "bookcrossing/ratings.csv"),
    "ml-1m-lists": (LISTS, "ml-1m/ratings.csv"),
    "ml-1m-ones": (LISTS, "ml-1m/ratings.csv"),
    "lastfm": (LISTS, "lastfm/counts.csv"),
    "yelp2018": (LISTS, "yelp2018/pairs.csv"),
    "bookcrossing-ones": (LISTS, "bookcrossing/ratings.csv"),
    "tdt2": (FACTORS, "tdt2/TDT2_all.mat"),
    "faces": (FACTORS, "faces/ORL.mat"),
}


class Fold(NamedTuple):
    """A training part and a test part with the same rows. For factorizations both are the same."""

    train: gpu.Ratings
    test: gpu.Ratings

    def scaled(self, factor: float, shift: float = 0.0) -> Fold:
        """The fold with every value r replaced by r · factor + shift."""
        parts = (with_values(part, part.coo()[2] * np.float64(factor) + shift) for part in self)
        return Fold(*parts)


class Dataset(NamedTuple):
    """One set of `SOURCES`: `inner` has nine tenths of the training part, and the rest, which chooses settings."""

    name: str
    task: str
    whole: Fold
    inner: Fold
    facts: Facts

    @classmethod
    def of(cls, name: str, whole: Fold, inner: Fold | None = None) -> Dataset:
        """The set of that name with these parts."""
        ratings = whole.train
        values, density = ratings.by_user.values.astype(np.float64), len(ratings) / ratings.n_users / ratings.n_items
        facts = Facts(float(values.mean()), float(values.std()), density, NmfParams().n_factors)
        return cls(name, SOURCES[name][0], whole, inner or whole, facts)


def available(data: Path, names: Sequence[str]) -> list[str]:
    """The sets among `names` (all sets if it is empty) whose file exists in `data`."""
    return [name for name in names or SOURCES if (data / SOURCES[name][1]).is_file()]


def load(data: Path, name: str) -> Dataset:
    """Read a set and split it."""
    task, path = SOURCES[name][0], data / SOURCES[name][1]
    if task == FACTORS:
        matrix = ratings_of(path)
        return Dataset.of(name, Fold(matrix, matrix))
    if task == ESTIMATES:
        whole = Fold(*train_and_test(path))
        return Dataset.of(name, whole, Fold(*random_split(whole.train)))
    whole = lists_fold(path, name.endswith("-ones"))
    train, held_out = random_split(whole.train)
    return Dataset.of(name, whole, Fold(train, of_some_users(held_out)))


def train_and_test(path: Path) -> tuple[gpu.Ratings, gpu.Ratings]:
    """The parts of a folder of raw arrays, or a file's ratings of which a random tenth is held out."""
    if path.is_dir():
        return raw_arrays(path)
    from service.cli import offline
    from service.cli.files import ratings_file

    data = offline.Data.split(ratings_file.read(path), TEST_SHARE, SEED)
    if data.test is None:
        raise InvalidInput(f"Invalid {path}: expected ratings of which a tenth can be held out, got {len(data.train)}")
    return data.train, data.test


def ratings_of(path: Path, key: str | None = None) -> gpu.Ratings:
    """All ratings of a file (`key`: the variable in it), or the training part of a folder of raw arrays."""
    if path.is_dir():
        return raw_arrays(path)[0]
    from service.cli import offline
    from service.cli.files import ratings_file
    from service.cli.files.how import How

    return offline.Data.split(ratings_file.read(path, How(key)), 0.0, SEED).train


def folds_of(path: Path, n_folds: int) -> Iterator[tuple[gpu.Ratings, gpu.Ratings]]:
    """(train, test) of `n_folds` disjoint test parts of a file."""
    from service.cli import offline
    from service.cli.files import ratings_file

    for data in offline.Data.folds(ratings_file.read(path), n_folds):
        assert data.test is not None  # noqa: S101 - `folds` always gives one; narrows the type
        yield data.train, data.test


def lists_fold(path: Path, is_ones: bool = False) -> Fold:
    """A fifth of each user's pairs held out."""
    ratings = ratings_of(path)
    return Fold(*per_user_split(as_ones(ratings) if is_ones else ratings))


# --- splits


def random_split(ratings: gpu.Ratings, share: float = VALIDATION_SHARE) -> tuple[gpu.Ratings, gpu.Ratings]:
    """(remaining ratings, held-out ratings): a random `round(share · N)` of the N ratings are held out."""
    held_out = np.random.default_rng(SEED).permutation(len(ratings))[: round(share * len(ratings))]
    is_held_out = mask_of(held_out, len(ratings))
    return ratings.where(~is_held_out), ratings.where(is_held_out)


def per_user_split(ratings: gpu.Ratings, seed: int = SEED) -> tuple[gpu.Ratings, gpu.Ratings]:
    """(training part, test part): the test part has a random fifth of each user's ratings, rounded."""
    users, _, _ = ratings.coo()
    order = np.lexsort((np.random.default_rng(seed).random(len(users)), users))
    position = np.empty(len(users), dtype=np.int64)
    position[order] = np.arange(len(users)) - np.repeat(ratings.by_user.starts, ratings.by_user.lengths)
    is_test = position < np.round(USER_TEST_SHARE * ratings.by_user.lengths)[users]
    return ratings.where(~is_test), ratings.where(is_test)


def of_some_users(ratings: gpu.Ratings, n_users: int = VALIDATION_USERS) -> gpu.Ratings:
    """The ratings of at most `n_users` random users who have ratings."""
    chosen = np.random.default_rng(SEED).permutation(np.flatnonzero(ratings.by_user.lengths))[:n_users]
    return ratings.where(mask_of(chosen, ratings.n_users)[ratings.coo()[0]])


def leave_one_out(
    ratings: gpu.Ratings, seed: int, seconds: NDArray[np.float64] | None = None
) -> tuple[gpu.Ratings, NDArray[np.int32], NDArray[np.int64]]:
    """(training part, held-out items (B,), random unrated items (B, 99)), with B = min(U, `MOST_USERS`).

    One rating of every user is held out, also of the users beyond B: a random one, or by `seconds` (N,) the last.
    """
    generator, rows = np.random.default_rng(seed), ratings.by_user
    chosen = rows.starts + generator.integers(0, rows.lengths)
    if seconds is not None:
        chosen = np.lexsort((seconds, ratings.coo()[0]))[rows.starts + rows.lengths - 1]
    most = int(rows.lengths.max(initial=0))
    if ratings.n_items - most < N_NEGATIVES:
        raise InvalidInput(
            f"Invalid ratings: expected {N_NEGATIVES} items that a user has not rated, to rank one against, got a user"
            f" with {most:,} of {ratings.n_items:,} items rated"
        )
    negatives = np.empty((min(ratings.n_users, MOST_USERS), N_NEGATIVES), dtype=np.int64)
    for user in range(len(negatives)):
        unrated = np.setdiff1d(np.arange(ratings.n_items), items_of(ratings, user), assume_unique=True)
        negatives[user] = generator.choice(unrated, N_NEGATIVES, replace=False)
    is_held_out = mask_of(chosen, len(ratings))
    return ratings.where(~is_held_out), rows.items[chosen[: len(negatives)]], negatives


def sampled(ratings: gpu.Ratings, share: float) -> gpu.Ratings:
    """About `share` of the ratings, one over a whole number; equal ratings and shares give equal pairs."""
    modulus = round(1 / share) if share > 0 else 0
    if modulus < 1 or abs(modulus * share - 1) > 1e-6:
        raise InvalidInput(f"Invalid share: expected one over a whole number, such as 0.25, got {share:g}")
    users, items = ratings.user_keys, ratings.item_keys

    def is_drawn(user_rows: NDArray[np.int32], item_rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        return is_held_out(users[user_rows], items[item_rows], modulus)

    by_user = _filtered(ratings.by_user, is_drawn)
    by_item = _filtered(ratings.by_item, lambda item_rows, user_rows: is_drawn(user_rows, item_rows))
    return gpu.Ratings(by_user, by_item, users, items)


def first_users(ratings: gpu.Ratings, share: float) -> gpu.Ratings:
    """All ratings of the first `share` of the users; the number of items stays."""
    n_users = round(share * ratings.n_users)
    starts, lengths, items, values = ratings.by_user
    n = int(lengths[:n_users].sum())  # rows of `Ratings` follow one another
    by_user = gpu.Rows(starts[:n_users], lengths[:n_users], items[:n], values[:n])
    by_item = _filtered(ratings.by_item, lambda _, users: users < n_users)
    return gpu.Ratings(by_user, by_item, ratings.user_keys[:n_users], ratings.item_keys)


def _filtered(rows: gpu.Rows, is_kept: Any) -> gpu.Rows:
    """The entries for which `is_kept(rows, columns)` is true; both arguments are arrays."""
    row_of = np.repeat(np.arange(len(rows.lengths), dtype=np.int32), rows.lengths)
    keep = np.empty(len(row_of), dtype=np.bool_)
    for first in range(0, len(keep), CHUNK):
        part = slice(first, first + CHUNK)
        keep[part] = is_kept(row_of[part], rows.items[part])
    lengths = np.bincount(row_of[keep], minlength=len(rows.lengths)).astype(np.int64)
    return gpu.Rows(np.cumsum(lengths) - lengths, lengths, rows.items[keep], rows.values[keep])


# --- changed ratings, and tables that online models follow


def mask_of(positions: NDArray[Any], n: int) -> NDArray[np.bool_]:
    """Bool (n,), true at `positions`."""
    mask = np.zeros(n, dtype=np.bool_)
    mask[positions] = True
    return mask


def items_of(ratings: gpu.Ratings, user: int) -> NDArray[np.int32]:
    """The items that a user has rated."""
    start = ratings.by_user.starts[user]
    items: NDArray[np.int32] = ratings.by_user.items[start : start + ratings.by_user.lengths[user]]
    return items


def with_values(ratings: gpu.Ratings, values: NDArray[Any]) -> gpu.Ratings:
    """The same pairs with other values, (N,) in the order of `coo`."""
    users, items, _ = ratings.coo()
    shape = ratings.n_users, ratings.n_items
    return gpu.Ratings.from_coo(users, items, values.astype(np.float32), shape, ratings.user_keys, ratings.item_keys)


def as_ones(ratings: gpu.Ratings) -> gpu.Ratings:
    """The same pairs, each rated 1."""
    by_user, by_item = (rows._replace(values=np.ones_like(rows.values)) for rows in (ratings.by_user, ratings.by_item))
    return gpu.Ratings(by_user, by_item, ratings.user_keys, ratings.item_keys)


def joined(parts: Sequence[gpu.Ratings]) -> gpu.Ratings:
    """All ratings of parts with the same rows."""
    first = parts[0]
    users, items, values = (np.concatenate(columns) for columns in zip(*(part.coo() for part in parts), strict=True))
    shape = first.n_users, first.n_items
    return gpu.Ratings.from_coo(users, items, values, shape, first.user_keys, first.item_keys)


def apply(table: RatingTable, ratings: gpu.Ratings, first: int) -> Changes:
    """Add ratings to a table, at positions from `first`."""
    positions = first + np.arange(len(ratings))
    return table.apply(*ratings.coo(), positions.astype(np.float64), positions)


def table_of(ratings: gpu.Ratings) -> RatingTable:
    """A table of these ratings."""
    table = RatingTable(ratings.n_users, ratings.n_items)
    apply(table, ratings, 0)
    return table


def copy_of(model: gpu.Model) -> gpu.Model:
    """A model with arrays of its own."""
    arrays = {name: array.copy() for name, array in model.arrays.items()}
    return gpu.Model(model.params, model.mean, model.scale, arrays, model.calibration)


# --- raw arrays


def raw_arrays(folder: Path) -> tuple[gpu.Ratings, gpu.Ratings]:
    """(train, test) of a folder. It checks columns and does not sort, so 10⁸ ratings take a few seconds."""
    meta = json.loads((folder / META).read_text("utf-8"))
    n_users, n_items, n_train, n_test = (int(meta[name]) for name in ("m_users", "n_items", "nnz_train", "nnz_test"))
    by_user = _rows(folder, "R_train_csc", n_users, n_items, n_train)
    by_item = _rows(folder, "R_train_csr", n_items, n_users, n_train)
    items = _array(folder / "R_test_coo.row.bin", np.int32, n_test)
    users = _array(folder / "R_test_coo.col.bin", np.int32, n_test)
    values = _array(folder / "R_test_coo.data.bin", np.float32, n_test)
    return gpu.Ratings(by_user, by_item), gpu.Ratings.from_coo(users, items, values, (n_users, n_items))


def least_rmse(folder: Path) -> float:
    """The least possible RMSE of estimates for the test part of a folder that `make-ratings` has drawn.

    Raises:
        InvalidInput: the folder has other ratings, or an earlier version drew it.
    """
    found = json.loads((folder / META).read_text("utf-8")).get("least_rmse")
    if found is None:
        expected = f"expected a {META} with the least possible RMSE of the test part"
        raise InvalidInput(f"Invalid ratings of {folder}: {expected}, which `make-ratings` writes")
    return float(found)


def _rows(folder: Path, name: str, n_rows: int, n_columns: int, n: int) -> gpu.Rows:
    bounds = _array(folder / f"{name}.indptr.bin", bounds_of(n), n_rows + 1).astype(np.int64)
    columns = _array(folder / f"{name}.indices.bin", np.int32, n)
    values = _array(folder / f"{name}.data.bin", np.float32, n)
    lengths = np.diff(bounds)
    if bounds[0] != 0 or bounds[-1] != n or (lengths < 0).any():
        raise InvalidInput(f"Invalid {name}.indptr.bin of {folder}: expected to ascend from 0 to {n:,}")
    ascends = columns[1:] > columns[:-1]
    ascends[bounds[(bounds > 0) & (bounds < n)] - 1] = True
    if n and (columns.min() < 0 or columns.max() >= n_columns or not ascends.all()):
        expected = f"expected columns from 0 to {n_columns - 1:,} that ascend in each row"
        raise InvalidInput(f"Invalid {name}.indices.bin of {folder}: {expected}")
    if not np.isfinite(values).all():
        raise InvalidInput(f"Invalid {name}.data.bin of {folder}: expected finite ratings")
    return gpu.Rows(bounds[:-1], lengths, columns, values)


def bounds_of(n: int) -> type[np.generic]:
    """The dtype of the bounds of rows with `n` ratings."""
    return np.int32 if n <= MOST_INT32 else np.int64


def _array(path: Path, dtype: type[np.generic], n: int) -> NDArray[Any]:
    array = np.fromfile(path, dtype=dtype)
    if len(array) != n:
        raise InvalidInput(f"Invalid length of {path}: expected {n:,} as {META} says, got {len(array):,}")
    return array
