"""Data of every shape for property tests: who rated what, how high, when, and under which keys."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.typing import NDArray

from gpu.data.decay import Times
from gpu.data.evidence import packed
from gpu.data.ratings import Ratings

Shape = tuple[int, int]
LONG_AGO, DAY_S = -2e9, 86_400.0  # Unix seconds


class Data(NamedTuple):
    """Ratings as they come, with pairs that repeat, and what they are called."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    values: NDArray[np.float64]
    seconds: NDArray[np.float64]
    shape: Shape
    keys: tuple[NDArray[np.uint64], NDArray[np.uint64]]

    @property
    def ratings(self) -> Ratings:
        """The last rating of each pair."""
        return Ratings.from_coo(self.users, self.items, self.values, self.shape, *self.keys)

    @property
    def times(self) -> Times:
        """Of `ratings`."""
        return Times.of(self.users, self.items, self.seconds)

    def at(self, which: Any) -> "Data":
        """Some of them."""
        users, items, values, seconds = self.users[which], self.items[which], self.values[which], self.seconds[which]
        return Data(users, items, values, seconds, self.shape, self.keys)


def _sparse(rng: Generator, shape: Shape) -> NDArray[Any]:
    """Few pairs, popular items far before others, and rows without any."""
    n = max(1, shape[0] * shape[1] // 20)
    return np.stack([rng.integers(0, shape[0], n), (shape[1] * rng.random(n) ** 3).astype(np.int64)])


def _dense(rng: Generator, shape: Shape) -> NDArray[Any]:
    """Nearly all pairs."""
    return np.stack(np.nonzero(rng.random(shape) < 0.9))


def _repeated(rng: Generator, shape: Shape) -> NDArray[Any]:
    """Each pair several times."""
    return np.repeat(_sparse(rng, shape), 3, axis=1)[:, rng.permutation(3 * max(1, shape[0] * shape[1] // 20))]


def _one_user(rng: Generator, shape: Shape) -> NDArray[Any]:
    items = np.arange(shape[1])
    return np.stack([np.full_like(items, rng.integers(shape[0])), items])


def _one_item(rng: Generator, shape: Shape) -> NDArray[Any]:
    users = np.arange(shape[0])
    return np.stack([users, np.full_like(users, rng.integers(shape[1]))])


def _one_pair(rng: Generator, shape: Shape) -> NDArray[Any]:
    return np.array([[rng.integers(shape[0])], [rng.integers(shape[1])]])


def _with_events(rng: Generator, n: int) -> NDArray[Any]:
    """Stars, sums of events, or both; some events are dislikes."""
    stars, sums = _stars(rng, n), rng.choice([-1.0, 0.25, 1.0, 3.0, 40.0], n)
    which = rng.integers(0, 3, n)
    pairs = np.where(which == 0, np.nan, stars), np.where(which == 1, 0.0, sums)
    return packed(*(each.astype(np.float32) for each in pairs))


def _stars(rng: Generator, n: int) -> NDArray[Any]:
    return rng.integers(1, 6, n).astype(np.float64)


PAIRS = (_sparse, _dense, _repeated, _one_user, _one_item, _one_pair)
VALUES = {
    "stars": _stars,
    "stars and events": _with_events,
    "all equal": lambda rng, n: np.full(n, rng.choice([1.0, 4.0, 0.1])),
    "clicks but one": lambda rng, n: np.where(np.arange(n) == rng.integers(n), 7.0, 1.0),
    "counts": lambda rng, n: np.floor(rng.pareto(0.7, n) + 1),
    "counts with some below 0": lambda rng, n: rng.choice([-1.0, 1.0, 2.0, 30.0], n),
    "all below 0": lambda rng, n: -_stars(rng, n),
    "around 0": lambda rng, n: rng.standard_normal(n),
    "huge": lambda rng, n: 1e9 * _stars(rng, n),
    "tiny": lambda rng, n: 1e-9 * _stars(rng, n),
    "huge and tiny": lambda rng, n: 10.0 ** rng.integers(-6, 7, n),
}
SECONDS = {
    "in order": lambda rng, n: np.arange(n) * DAY_S,
    "out of order": lambda rng, n: rng.permutation(n) * DAY_S,
    "all at once": lambda rng, n: np.full(n, 1.7e9),
    "centuries apart": lambda rng, n: LONG_AGO + rng.integers(0, 2, n) * 1e10,
}
KEYS = {
    "rows": lambda rng, n: np.arange(n, dtype=np.uint64),
    "hashes": lambda rng, n: rng.integers(0, 2**64, n, dtype=np.uint64),
    "ends": lambda rng, n: np.uint64(2**64 - 1) - rng.permutation(n).astype(np.uint64),
    "all equal": lambda rng, n: np.zeros(n, dtype=np.uint64),
}


@st.composite
def data_sets(draw: st.DrawFn, values: tuple[str, ...] = tuple(VALUES)) -> Data:
    """A data set of any shape, with values of these kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    shape = draw(st.tuples(st.integers(1, 40), st.integers(1, 30)))
    users, items = draw(st.sampled_from(PAIRS))(rng, shape)
    if not len(users):
        users, items = _one_pair(rng, shape)
    n = len(users)
    amounts = VALUES[draw(st.sampled_from(values))](rng, n)
    seconds = SECONDS[draw(st.sampled_from(tuple(SECONDS)))](rng, n)
    name_rows = KEYS[draw(st.sampled_from(tuple(KEYS)))]
    keys = name_rows(rng, shape[0]), name_rows(rng, shape[1])
    return Data(users, items, amounts, seconds, shape, keys)


def with_blocks(seed: int) -> Data:
    """Stars of users who mostly rate items of their own block, of two, and like these alone; in any order."""
    rng, shape = np.random.default_rng(seed), (80, 40)
    are_own = np.arange(shape[0])[:, None] % 2 == np.arange(shape[1]) % 2
    users, items = np.nonzero(rng.random(shape) < np.where(are_own, 0.5, 0.2))
    n = len(users)
    values = np.where(are_own[users, items], rng.integers(4, 6, n), rng.integers(1, 3, n)).astype(np.float64)
    keys = KEYS["hashes"](rng, shape[0]), KEYS["hashes"](rng, shape[1])
    return Data(users, items, values, SECONDS["out of order"](rng, n), shape, keys)
