"""NMF: A ≈ W H without a negative entry, by FAST-HALS in tiles (PL-NMF, [002] Alg. 1 and 2), extrapolated by default.

A is V × D, W is V × K with columns of length 1, H is K × D. An epoch is a W step and an H step, so that the reported
error is that of the resulting factors. One H step comes before the first epoch. The alternation is that of [002]
Alg. 1; only the epochs end after the other step.

* W step, with P = A Hᵀ and Q = H Hᵀ: for each k, W_k ← max(ε, W_k Q_kk + P_k − W Q_k), then W_k ← W_k / ‖W_k‖.
* H step, with R = Aᵀ W and S = Wᵀ W: for each k, H_k ← max(ε, H_k + R_k − Hᵀ S_k).

The default solver takes exact steps for both, X_k ← max(ε, X_k + (P_k − X Q_k) / Q_kk), from extrapolated points, and
normalizes W at the end: see `gpu.nmf.steps`.

The relative error √(Σ (A − WH)² / Σ A²) comes from ΣA² − 2⟨R, Hᵀ⟩ + ⟨S, Q⟩ without forming WH.

As a rating model, A is users × items: rows of W and columns of H are the factors of users and items, and a pair without
a rating counts as a 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gpu.base.backend import HOST, Backend
from gpu.base.errors import TrainingDiverged
from gpu.data.model import Model
from gpu.data.ratings import Ratings
from gpu.nmf import host as hals
from gpu.nmf.host_blocks import Floats
from gpu.nmf.matrix import check_memory, checked, matrix_of, mean_of, near_one, shape_of, splits_of
from gpu.nmf.nndsvd import nndsvd
from gpu.nmf.params import EPSILON, NmfParams
from gpu.nmf.steps import STEPS, Problem
from gpu.ranks.exchange import ALONE, Exchange
from gpu.training import evaluate
from gpu.training.loop import OnEpoch, State, Trainer, train


class Factors(NamedTuple):
    """Result of a factorization.

    Attributes:
        W: (V, K), columns of length 1.
        H: (K, D).
        relative_error: √(Σ (A − WH)² / Σ A²).
        n_epochs: epochs that were run.
    """

    W: Floats
    H: Floats
    relative_error: float
    n_epochs: int


def factorize(
    matrix: Ratings | Floats, params: NmfParams, backend: Backend = HOST, on_epoch: OnEpoch | None = None
) -> Factors:
    """Factorize any non-negative matrix.

    Args:
        matrix: V × D, sparse (`Ratings`: rows are users, other entries are 0) or dense (float or integer).
        params: see `NmfParams`.
        backend: where to compute.
        on_epoch: called after each epoch with `relative_error`.

    Raises:
        InvalidRatings: not two axes, an entry below 0 or not finite, or none above 0.
        NotEnoughMemory: the training would need more than is free; the message has both numbers.
        TrainingDiverged: a factor is no longer finite.
    """
    return train(Factorization(matrix, params, backend), on_epoch)


class Alternation:
    """Solves both factors in turn on the backend: the common part of the two trainers of this module."""

    def __init__(
        self, matrix: Ratings | Floats, params: NmfParams, backend: Backend, exchange: Exchange = ALONE
    ) -> None:
        """Load this rank's rows and columns of the matrix, and both factors, onto the backend."""
        matrix = checked(matrix)
        matrix, self._unit = near_one(matrix) if params.is_calibrated else (matrix, 1.0)
        shape = shape_of(matrix)
        self.params, self.tile = params, 0 if params.solver == "plain" else tile_of(params)
        self._backend, self._exchange, twin = backend, exchange, backend.twin
        splits = splits_of(matrix, params, backend, exchange)
        check_memory(matrix, params, self.tile, backend, splits)
        dtype = np.dtype(params.precision).type
        self._matrix, self._is_sparse = twin(hals.load)(matrix, dtype, splits), isinstance(matrix, Ratings)
        start = self._start(shape, mean_of(matrix), dtype)
        rows, columns = (
            twin(hals.load_factors)(table, self.tile, split) for table, split in zip(start, splits, strict=True)
        )
        squares = twin(hals.squares)(self._matrix)
        problem = Problem(backend, self._matrix, rows, columns, squares, self.tile, exchange)
        self._steps = STEPS[params.solver](problem)
        self.seconds, self._n_done = 0.0, 0

    @property
    def n_epochs(self) -> int:
        """Epochs at most."""
        return self.params.n_epochs

    @property
    def relative_error(self) -> float:
        """√(Σ (A − WH)² / Σ A²) of the present factors."""
        return self._steps.error

    def prepare(self) -> None:
        """Do the H step before the first epoch."""
        self._steps.begin()

    def learn(self, epoch: int) -> None:
        """Do a W step and an H step."""
        self._steps.epoch()
        self._n_done = epoch + 1

    def is_finite(self) -> bool:
        """Whether the relative error is finite."""
        return math.isfinite(self.relative_error)

    def diverged(self, epoch: int) -> TrainingDiverged:
        """The error for sums of squares that overflow."""
        del epoch
        return TrainingDiverged("Training of nmf diverged: expected finite factors; use precision=float64")

    def has_converged(self) -> bool:
        """Whether the last epoch lowered the relative error by no more than the share `tolerance`."""
        gain = self._steps.gain
        return bool(self.params.tolerance) and gain <= self.params.tolerance * (self.relative_error + gain)

    def state(self) -> State:
        """Both factors, and what the next epoch needs beside them."""
        return {**self._steps.state(), "n_done": np.array(self._n_done)}

    def restore(self, state: State) -> None:
        """See `gpu.training.loop.Trainer`."""
        self._steps.restore(state)
        self._n_done = int(state["n_done"])

    def factors(self) -> Factors:
        """The present W and H, on the host."""
        W, H = self._steps.factors()
        return Factors(W, H.T * self._unit, self.relative_error, self._n_done)

    def _start(self, shape: tuple[int, int], mean: float, dtype: type[np.floating]) -> tuple[Floats, Floats]:
        """W (V, K) with columns of length 1 and Hᵀ (D, K), both above 0."""
        params, product = self.params, self._backend.twin(hals.product)
        W, H = random_start(shape, mean, params)
        if params.start == "nndsvd":
            vectors = nndsvd(lambda by_row, rows: product(self._matrix, by_row, rows.astype(dtype)), shape, params)
            W[:, : vectors[0].shape[1]], H[:, : vectors[1].shape[1]] = vectors
        W, H = np.maximum(W, EPSILON), np.maximum(H, EPSILON)
        norms = np.linalg.norm(W, axis=0)
        W, H = np.maximum(W / norms, EPSILON), np.maximum(H * norms, EPSILON)
        return W.astype(dtype), H.astype(dtype)

    def compile(self) -> None:
        """Compile the kernels of an epoch, on a matrix of one cell in the same form."""
        twin, dtype = self._backend.twin, np.dtype(self.params.precision).type
        one, tile = np.ones((1, 1), dtype=dtype), min(self.tile, 1)
        corner = np.zeros(1, dtype=np.int64)
        matrix = twin(hals.load)(Ratings.from_coo(corner, corner, one[0]) if self._is_sparse else one, dtype)
        sides = twin(hals.load_factors)(one, tile), twin(hals.load_factors)(one, tile)
        steps = STEPS[self.params.solver](Problem(self._backend, matrix, *sides, 1.0, tile, ALONE))
        steps.begin()
        steps.epoch()


class Factorization(Alternation, Trainer[Factors]):
    """Factors of any matrix; see `gpu.training.loop.Trainer`."""

    def metrics(self) -> Mapping[str, float]:
        """The relative error."""
        return {"relative_error": self.relative_error}

    def model(self) -> Factors:
        """The present W and H, on the host."""
        return self.factors()


class NmfTrainer(Alternation, Trainer[Model]):
    """Ratings as a matrix users × items, factorized; see `gpu.training.loop.Trainer`."""

    def __init__(
        self,
        ratings: Ratings,
        params: NmfParams,
        backend: Backend = HOST,
        test: Ratings | None = None,
        exchange: Exchange = ALONE,
    ) -> None:
        """Load this rank's part of the matrix, and both factors, onto the backend.

        Args:
            exchange: the ranks that train together. Sparse ratings give equal bits for any number of them.

        Raises:
            InvalidRatings: a rating is below 0, or none is above 0.
            NotEnoughMemory: the training would need more than is free; the message has both numbers.
        """
        super().__init__(matrix_of(ratings), params, backend, exchange)
        self._ratings, self._test = ratings, test

    def metrics(self) -> Mapping[str, float]:
        """See `gpu.training.loop.EpochReport`; metrics of the test set only on rank 0."""
        metrics = {"relative_error": self.relative_error}
        if self._test is None or self._exchange.rank:
            return metrics
        ranks = evaluate.ranking(self.model(), self._ratings.by_user, self._test)
        return metrics | {f"test_{name}": value for name, value in ranks.items()}

    def model(self) -> Model:
        """See `model_of`."""
        return model_of(self._ratings, self.params, self.factors())


def tile_of(params: NmfParams) -> int:
    """T: `params.tile`, or the minimum of [002] eq. 9.

    A sweep moves vol(T) = V [(1/T + 2/√C)(K² − KT) + KT] words, with a cache of C words. The minimum is at
    T = √(K / (1 − 2/√C)), which is about √K for any real cache.
    """
    return min(params.tile or round(params.n_factors**0.5), params.n_factors)


def random_start(shape: tuple[int, int], mean: float, params: NmfParams) -> tuple[Floats, Floats]:
    """W (V, K) and Hᵀ (D, K), float64, uniform above 0, so that WH has the `mean` of A."""
    generator = np.random.default_rng(params.seed)
    W, H = (generator.random((n, params.n_factors)) for n in shape)
    return W, H * (4 * mean / params.n_factors)  # two uniform numbers average 1/2 each


def model_of(ratings: Ratings, params: NmfParams, factors: Factors) -> Model:
    """The model with factors W and H; estimates lie between 0, the value of unrated pairs, and the largest rating."""
    scale = (0.0, ratings.scale[1])
    model = Model.zeros(params, 0.0, scale, ratings.n_users, ratings.n_items)
    model.mark_trained(ratings.by_user.lengths, ratings.by_item.lengths)
    model.user_factors[model.user_trained] = factors.W[model.user_trained]
    model.item_factors[model.item_trained] = factors.H.T[model.item_trained]
    return model
