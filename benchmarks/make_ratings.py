"""`python -m benchmarks make-ratings`: synthetic matrices of ratings in the shapes of published ones.

The activity of users is log-normal, the popularity of items a shifted power law. A rating is the estimate of a planted
model with `RANK` factors and biases, plus normal noise, rounded to the scale. So the least possible error is known:
`least_rmse` of `meta.json`, the test RMSE of estimates that know all but the noise.
Every user has a training rating, and so has every item if there are enough. `hugewiki-100th` has all items and a
hundredth of the users of Hugewiki. Ratings of `yahoo` and `yahoomusic` are a twentieth of the published ones, as [004]
trains. `netflix-50000x2000` is the part of [003] fig. 5, with the density of the whole, since [003] does not tell it.
`amazon` is what [001] §5.5 copies 100 times (SparkALS: each user), and 160 by 20 times (Facebook).

Every random number is a hash of the seed and of its keys: a user, an item, a pair, the number of a draw. It does not
depend on earlier draws. So each user's ratings can be drawn alone, and blocks and threads do not change them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.special
import typer
from numpy.typing import NDArray

from benchmarks.datasets import META, bounds_of
from benchmarks.results import say
from gpu.base import free_memory
from gpu.base.errors import InvalidInput, NotEnoughMemory

RANK = 16
USER_BIAS, ITEM_BIAS, NOISE = 0.42, 0.38, 0.78  # deviations, in units of the scale
TASTE = 0.5  # variance of u·v over the square root of RANK
MAX_SHARE = 0.93  # largest share of all items that one user rates
HEAVY = 6  # items of users who rate more than a sixth of all are drawn by sorting, others by rejection
BLOCK = 1 << 20  # ratings drawn by one task
N_EXPECTED = 2000  # estimates between which the variance of a rating is interpolated
RATING_BYTES, ROW_BYTES = 48, 640  # of memory, at most, while a matrix is drawn: a rating, a user or item

_GOLDEN, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
# Streams of random numbers by purpose; a normal number needs two streams.
_ACTIVITY, _POPULARITY, _ROUNDING, _N_TEST, _IS_TEST, _DRAWS, _TIMES = range(0, 14, 2)
_USER_BIAS, _ITEM_BIAS, _USER_TASTE, _ITEM_TASTE, _NOISE = range(14, 24, 2)


class Shape(NamedTuple):
    """Sizes, met exactly; lowest and highest rating, and their distance; global mean μ; and laws of a matrix.

    `activity` is the deviation of the logarithm of a user's number of ratings, `least` the fewest ratings of a user.
    The item of rank r, from 0, is drawn in proportion to (r + offset) ** −exponent.
    """

    n_users: int
    n_items: int
    n_train: int
    n_test: int
    low: float
    high: float
    step: float
    mean: float
    activity: float
    least: int
    exponent: float
    offset: float


SHAPES = {
    "netflix": Shape(480_189, 17_770, 99_072_112, 1_408_395, 1.0, 5.0, 1.0, 3.60, 1.20, 4, 1.90, 200.0),
    "ml10m": Shape(69_878, 10_677, 9_900_054, 100_000, 0.5, 5.0, 0.5, 3.51, 1.15, 20, 2.00, 170.0),
    "ml1m": Shape(6_040, 3_706, 900_188, 100_021, 1.0, 5.0, 1.0, 3.58, 1.10, 20, 1.35, 120.0),
    "yahoo": Shape(586_250, 12_658, 91_970_212, 1_000_000, 0.025, 5.0, 0.025, 2.50, 1.10, 10, 1.60, 100.0),
    "yahoomusic": Shape(1_000_990, 624_961, 252_800_275, 4_003_960, 0.05, 5.0, 0.05, 2.50, 1.10, 10, 1.15, 200.0),
    "hugewiki": Shape(50_082_603, 39_780, 3_099_900_000, 10_000_000, 1.0, 5.0, 1.0, 3.50, 1.20, 4, 1.30, 100.0),
    "hugewiki-100th": Shape(500_826, 39_780, 30_999_000, 100_000, 1.0, 5.0, 1.0, 3.50, 1.20, 4, 1.30, 100.0),
    "netflix-50000x2000": Shape(50_000, 2_000, 1_045_000, 116_000, 1.0, 5.0, 1.0, 3.60, 1.20, 4, 1.90, 200.0),
    "amazon": Shape(6_600_000, 2_400_000, 35_000_000, 100_000, 1.0, 5.0, 1.0, 4.20, 1.00, 1, 1.00, 500.0),
}


class Part(NamedTuple):
    """All ratings of some users, ascending by user, then item; each array is (N,)."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    is_test: NDArray[np.bool_]


class Matrix:
    """The laws of one matrix, and the numbers (U,) of ratings and test ratings of each user; `part` draws ratings."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        self.shape, self._seed = shape, seed
        users, items = np.arange(shape.n_users), np.arange(shape.n_items)
        ranks = np.argsort(np.argsort(self._words(_POPULARITY, items), kind="stable"), kind="stable")
        self._popularity = (ranks + shape.offset) ** -shape.exponent
        self._cumulated = np.cumsum(self._popularity) / self._popularity.sum()
        self.n_ratings = self._activity(users)
        self.n_test = self._tests(users)
        self._user_bias = USER_BIAS * self._normal(_USER_BIAS, users)
        self._item_bias = ITEM_BIAS * self._normal(_ITEM_BIAS, items)
        self._user_taste, self._item_taste = self._taste(_USER_TASTE, users), self._taste(_ITEM_TASTE, items)

    def part(self, first: int, end: int) -> Part:
        """Ratings of the users from `first` to before `end`."""
        users = np.arange(first, end)
        is_heavy = self.n_ratings[users] * HEAVY > self.shape.n_items
        pairs = np.concatenate([self._by_rejection(users[~is_heavy]), *map(self._by_sorting, users[is_heavy])])
        pairs.sort()
        rated_by, items = np.divmod(pairs, self.shape.n_items)
        values, is_test = self._values(rated_by, items), self._is_test(rated_by, items)
        return Part(rated_by.astype(np.int32), items.astype(np.int32), values, is_test)

    def least_rmse(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> float:
        """The least possible RMSE of estimates for these pairs: that of the means of their ratings, by the laws."""
        shape = self.shape
        values = np.arange(shape.low, shape.high + shape.step / 2, shape.step)
        edges = np.concatenate([[-np.inf], values[1:] - shape.step / 2, [np.inf]])
        expected = np.linspace(shape.low - 9 * NOISE, shape.high + 9 * NOISE, N_EXPECTED)
        chances = np.diff(scipy.special.ndtr((edges - expected[:, None]) / NOISE))
        variances = chances @ values**2 - (chances @ values) ** 2
        return float(np.sqrt(np.interp(self._expected(users, items), expected, variances).mean()))

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges (first, end) of users with about `BLOCK` ratings in total."""
        ends = np.cumsum(self.n_ratings)
        cuts = np.unique(np.searchsorted(ends, np.arange(BLOCK, ends[-1] + BLOCK, BLOCK)) + 1).clip(max=len(ends))
        yield from zip([0, *cuts[:-1].tolist()], cuts.tolist(), strict=True)

    def _activity(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        shape, wanted = self.shape, self.shape.n_train + self.shape.n_test
        activity = np.exp(shape.activity * self._normal(_ACTIVITY, users).astype(np.float64))
        most = int(MAX_SHARE * shape.n_items)
        low, high = 0.0, 50.0 * wanted / activity.sum()
        for _ in range(80):
            middle = (low + high) / 2
            if np.clip(np.floor(middle * activity), shape.least, most).sum() < wanted:
                low = middle
            else:
                high = middle
        counts = np.clip(np.floor(low * activity), shape.least, most).astype(np.int64)
        return self._to_total(counts, wanted, shape.least, np.full(len(users), most))

    def _tests(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of test ratings of each user: a Poisson number, limited to half of the user's ratings."""
        mean = self.shape.n_test / self.shape.n_users
        most = np.minimum(self.n_ratings // 2, max(9, int(3 * mean)))
        chances = np.cumsum(np.cumprod([np.exp(-mean), *(mean / np.arange(1, int(most.max()) + 1))]))
        counts = np.searchsorted(chances, _uniform(self._words(_N_TEST, users)))
        return self._to_total(np.minimum(counts, most), self.shape.n_test, 0, most)

    def _to_total(
        self, counts: NDArray[np.int64], wanted: int, least: int, most: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Change `counts` (U,) by steps of one until their sum is `wanted`; they stay between `least` and `most`."""
        order = np.argsort(self._words(_ROUNDING, np.arange(len(counts))))
        while missing := wanted - int(counts.sum()):
            open_ = order[counts[order] < most[order]] if missing > 0 else order[counts[order] > least]
            if not len(open_):
                raise InvalidInput(f"Invalid shape: expected room for {wanted:,} ratings, got {counts.sum():,}")
            counts[open_[: abs(missing)]] += np.sign(missing)
        return counts

    def _by_rejection(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first distinct items that each of `users` draws, as user · I + item."""
        n_items, done = self.shape.n_items, [np.zeros(0, np.int64)]
        kept, n_drawn = np.zeros(0, np.int64), np.zeros(self.shape.n_users, np.int64)
        n_missing = self.n_ratings.copy()
        while len(users):
            more = n_missing[users] + n_missing[users] // 2 + 8
            owners = np.repeat(users, more)
            numbers = np.arange(len(owners)) - np.repeat(np.cumsum(more) - more, more) + n_drawn[owners]
            items = np.searchsorted(self._cumulated, _uniform(self._words(_DRAWS, owners, numbers)), side="right")
            pairs = np.concatenate([kept, owners * n_items + np.minimum(items, n_items - 1)])
            pairs = pairs[np.sort(np.unique(pairs, return_index=True)[1])]  # the first of equal pairs, in order
            pairs = pairs[np.argsort(pairs // n_items, kind="stable")]
            owners = pairs // n_items
            pairs = pairs[_position_in_run(owners) < self.n_ratings[owners]]
            n_drawn[users] += more
            n_missing[users] = self.n_ratings[users] - np.bincount(pairs // n_items, minlength=users[-1] + 1)[users]
            is_done = n_missing[pairs // n_items] == 0
            done.append(pairs[is_done])
            kept, users = pairs[~is_done], users[n_missing[users] > 0]
        return np.concatenate(done)

    def _by_sorting(self, user: int) -> NDArray[np.int64]:
        """The same for a user who rates a large share of all items: the items with the shortest exponential times."""
        n_items, n = self.shape.n_items, int(self.n_ratings[user])
        times = -np.log(1 - _uniform(self._words(_TIMES, np.int64(user), np.arange(n_items)))) / self._popularity
        return user * n_items + np.argpartition(times, n - 1)[:n]

    def _values(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float32]:
        shape = self.shape
        drawn = self._expected(users, items) + NOISE * self._normal(_NOISE, users, items)
        rounded = np.round(drawn / shape.step) * shape.step
        values: NDArray[np.float32] = np.clip(rounded, shape.low, shape.high).astype(np.float32)
        return values

    def _expected(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[np.float32]:
        """What the planted model estimates, before noise and rounding."""
        expected: NDArray[np.float32] = self.shape.mean + self._user_bias[users] + self._item_bias[items]
        expected += np.einsum("nf,nf->n", self._user_taste[users], self._item_taste[items])
        return expected

    def _is_test(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which ratings are test ratings: those of each user with the lowest random words."""
        order = np.lexsort((self._words(_IS_TEST, users, items), users))
        drawn = np.empty(len(users), dtype=np.bool_)
        drawn[order] = _position_in_run(users) < self.n_test[users]
        return drawn

    def _taste(self, stream: int, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        numbers = self._normal(stream, rows[:, None], np.arange(RANK)[None, :])
        scaled: NDArray[np.float32] = numbers * np.float32(np.sqrt(TASTE / np.sqrt(RANK)))
        return scaled

    def _normal(self, stream: int, *keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """Standard normal numbers (Box and Muller), one for each of `keys`."""
        radius = np.sqrt(-2 * np.log(1 - _uniform(self._words(stream, *keys))))
        angle = 2 * np.pi * _uniform(self._words(stream + 1, *keys))
        numbers: NDArray[np.float32] = (radius * np.cos(angle)).astype(np.float32)
        return numbers

    def _words(self, stream: int, *keys: NDArray[np.int64] | np.int64) -> NDArray[np.uint64]:
        """Random words, one for each of `keys`: chained splitmix64."""
        words = _mixed(np.array([self._seed], np.uint64) + np.array([stream + 1], np.uint64) * _GOLDEN)
        for key in keys:
            words = _mixed((words ^ np.asarray(key, dtype=np.uint64)) + _GOLDEN)
        return words


def make_ratings(
    shape: Annotated[str, typer.Argument(help=f"Published shape: {', '.join(SHAPES)}.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write.", metavar="DIR")],
) -> None:
    """Draw a synthetic matrix of a published shape, as a folder of raw arrays that `--ratings` takes."""
    if shape not in SHAPES:
        raise InvalidInput(f"Invalid shape: expected one of {', '.join(SHAPES)}, got {shape!r}")
    of = SHAPES[shape]
    needed, free = (
        RATING_BYTES * (of.n_train + of.n_test) + ROW_BYTES * (of.n_users + of.n_items),
        free_memory.free_bytes(),
    )
    if needed > free:
        raise NotEnoughMemory(f"Drawing {shape} ({of.n_train:,} ratings)", needed, free)
    write_matrix(Matrix(of), shape, folder)


def write_matrix(matrix: Matrix, name: str, folder: Path) -> None:
    """Write all ratings of `matrix`; `name` goes into `meta.json`."""
    shape = matrix.shape
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        parts = list(pool.map(lambda block: matrix.part(*block), matrix.blocks()))
    whole = Part(*map(np.concatenate, zip(*parts, strict=True)))
    del parts
    say(f"{name}: {len(whole.users):,} ratings drawn")
    held_out, kept = whole.is_test, ~whole.is_test
    bounds = np.concatenate([[0], np.cumsum(matrix.n_ratings - matrix.n_test)])
    by_user = scipy.sparse.csr_matrix((whole.values[kept], whole.items[kept], bounds), (shape.n_users, shape.n_items))
    by_item = by_user.tocsc()
    n_raters = np.diff(by_item.indptr)
    say(f"{np.sum(n_raters == 0):,} items without a training rating")
    for part, rows in (("csc", by_user), ("csr", by_item)):
        rows.indptr.astype(bounds_of(by_user.nnz)).tofile(folder / f"R_train_{part}.indptr.bin")
        rows.indices.astype(np.int32).tofile(folder / f"R_train_{part}.indices.bin")
        rows.data.tofile(folder / f"R_train_{part}.data.bin")
    np.repeat(np.arange(shape.n_items, dtype=np.int32), n_raters).tofile(folder / "R_train_coo.row.bin")
    for axis, array in (("row", whole.items), ("col", whole.users), ("data", whole.values)):
        array[held_out].tofile(folder / f"R_test_coo.{axis}.bin")
    meta = {"name": name, "m_users": shape.n_users, "n_items": shape.n_items, "nnz_train": by_user.nnz}
    of_test = {
        "nnz_test": int(held_out.sum()),
        "least_rmse": matrix.least_rmse(whole.users[held_out], whole.items[held_out]),
    }
    (folder / META).write_text(json.dumps(meta | of_test), "utf-8")


def _uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), one for each word."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    return words ^ (words >> np.uint64(31))


def _position_in_run(owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of equal values before each of `owners`, which must ascend."""
    return np.arange(len(owners)) - np.searchsorted(owners, owners)
