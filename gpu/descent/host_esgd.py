"""ESGD on the CPU: an epoch in the order of `gpu.descent.esgd`, one rating after the other, on one thread."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.baselines import Baselines
from gpu.data.model import bytes_of
from gpu.data.ratings import Ratings
from gpu.descent.order import BLOCK, CHUNK, Order
from gpu.descent.params import EsgdParams

_ZERO, _ONE = np.float32(0), np.float32(1)


class Samples(NamedTuple):
    """Samples to learn, as one array by user.

    Attributes:
        users, items: int32 (N,).
        targets: float32 (N,), r − μ − b_i − b̂_j.
        visits, stride: see `gpu.descent.order.Order`.
    """

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    targets: NDArray[np.float32]
    visits: NDArray[np.uint16]
    stride: int


def bytes_needed(ratings: Ratings, params: EsgdParams) -> int:
    """Bytes that a training takes in addition to its ratings.

    A sample and its inputs take 24; the model and a copy of both tables come on top.
    """
    users, items = bytes_of(params, ratings.n_users, ratings.n_items)
    return 24 * len(ratings) + 2 * (users + items)


def load(ratings: Ratings, biases: Baselines, order: Order) -> Samples:
    """The samples of `ratings`, whose targets are the residuals of `biases`."""
    users, items, values = ratings.coo()
    known = (np.float32(biases.mean) + biases.user)[users] + biases.item[items]
    return Samples(users, items, values - known, order.visits, order.stride)


def load_factors(factors: NDArray[np.float32]) -> NDArray[np.float32]:
    """A trainable copy of a table (rows, F)."""
    return factors.copy()


def fetch(table: NDArray[np.float32]) -> NDArray[np.float32]:
    """The table (rows, F or more)."""
    return table


def finish() -> None:
    """Do nothing: all work is done already."""


def is_finite(users: NDArray[np.float32], items: NDArray[np.float32]) -> bool:
    """Whether every factor is finite."""
    with np.errstate(invalid="ignore"):  # inf − inf is expected here: the sum is then not finite
        return bool(np.isfinite(users.sum(dtype=np.float64) + items.sum(dtype=np.float64)))


def prepare(n_factors: int) -> None:
    """Compile the kernels of an epoch, by one without samples."""
    nothing, table = np.zeros(0, dtype=np.int32), np.zeros((1, n_factors), dtype=np.float32)
    samples = Samples(nothing, nothing, nothing.astype(np.float32), np.arange(BLOCK, dtype=np.uint16), 1)
    learn_epoch(samples, table, table.copy(), _ZERO, _ZERO, _ZERO)


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def learn_epoch(
    samples: Samples,
    users: Annotated[NDArray[np.float32], 2],
    items: Annotated[NDArray[np.float32], 2],
    step: np.float32,
    regularization: np.float32,
    item_regularization: np.float32,
) -> None:
    """Run one pass over `samples`, in place in `users` (U, F) and `items` (I, F).

    Args:
        step, regularization, item_regularization: γ, λ_p and λ_q.
    """
    n_ratings = len(samples.targets)
    n_chunks = (n_ratings + CHUNK - 1) // CHUNK
    starts = np.empty(BLOCK // CHUNK, np.int64)
    for first in range(0, n_chunks, len(starts)):
        for c in range(len(starts)):  # positions behind the last rating are skipped
            starts[c] = (first + c) * samples.stride % n_chunks * CHUNK if first + c < n_chunks else n_ratings
        for visit in samples.visits:
            position = starts[visit // CHUNK] + visit % CHUNK
            if position < n_ratings:
                _step(
                    users[samples.users[position]],
                    items[samples.items[position]],
                    samples.targets[position],
                    step,
                    regularization,
                    item_regularization,
                )


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def _step(
    p: NDArray[np.float32],
    q: NDArray[np.float32],
    target: np.float32,
    step: np.float32,
    regularization: np.float32,
    item_regularization: np.float32,
) -> None:
    """Move p and q (F,) toward `target`, both computed from the old values."""
    dot = _ZERO
    for f in range(len(p)):
        dot += p[f] * q[f]
    push, shrink, shrink_item = step * (target - dot), _ONE - step * regularization, _ONE - step * item_regularization
    for f in range(len(p)):
        old_p, old_q = p[f], q[f]
        p[f] = shrink * old_p + push * old_q
        q[f] = shrink_item * old_q + push * old_p
