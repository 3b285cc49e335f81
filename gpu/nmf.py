"""NMF: A ≈ W H without a negative entry, by FAST-HALS in its locality-optimised form, PL-NMF ([002] Alg. 1 and 2).

A is V × D, W is V × K with columns of length 1, H is K × D. An epoch is a W step and an H step, so that the error it
reports belongs to the factors it leaves; one H step comes before the first epoch. That is the alternation of [002]
Alg. 1, cut at the other half.

* W step, with P = A Hᵀ and Q = H Hᵀ: for each k, W_k ← max(ε, W_k Q_kk + P_k − W Q_k), then W_k ← W_k / ‖W_k‖.
* H step, with R = Aᵀ W and S = Wᵀ W: for each k, H_k ← max(ε, H_k + R_k − Hᵀ S_k).

The relative error √(Σ (A − WH)² / Σ A²) comes from ΣA² − 2⟨R, Hᵀ⟩ + ⟨S, Q⟩ without forming WH.

As a rating model, A is users × items: rows of W and columns of H are the factors of users and items, and a pair without
a rating counts as a 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu import evaluate
from gpu.backend import HOST, Backend
from gpu.epochs import EpochReport, OnEpoch, ShouldStop, epochs
from gpu.errors import InvalidRatings, TrainingDiverged
from gpu.memory import check_room
from gpu.model import Model
from gpu.nndsvd import nndsvd
from gpu.params import NmfParams
from gpu.ratings import Ratings

Floats = NDArray[Any]  # in the precision asked for
DENSE_FROM = 0.15  # share of entries from which a product with a dense A is faster, zeros and all


class Factors(NamedTuple):
    """What a factorisation found.

    Attributes:
        W: (V, K), columns of length 1.
        H: (K, D).
        relative_error: √(Σ (A − WH)² / Σ A²).
        n_epochs: how many it took.
    """

    W: Floats
    H: Floats
    relative_error: float
    n_epochs: int


def fit(
    ratings: Ratings,
    params: NmfParams,
    backend: Backend = HOST,
    test: Ratings | None = None,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop | None = None,
) -> Model:
    """Factorise ratings as a matrix users × items; see `gpu.fit`.

    Raises:
        InvalidRatings: a rating below 0, or none above.
        NotEnoughMemory: the training would need more than is free; both numbers are said.
    """
    training = Factorization(matrix_of(ratings), params, backend)

    def ranks() -> dict[str, float]:
        if test is None:
            return {}
        found = evaluate.ranking(model_of(ratings, params, training.factors()), ratings.by_user, test)
        return {f"test_{name}": value for name, value in found.items()}

    return model_of(ratings, params, training.run(on_epoch, should_stop, ranks))


def factorize(
    matrix: Ratings | Floats,
    params: NmfParams,
    backend: Backend = HOST,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop | None = None,
) -> Factors:
    """Factorise any non-negative matrix.

    Args:
        matrix: V × D, sparse (`Ratings`: rows are users, what is not stored is 0) or dense (float or integer).
        params: see there.
        backend: where to compute.
        on_epoch: called after each epoch with `relative_error`.
        should_stop: asked before each epoch.

    Raises:
        InvalidRatings: not two axes, an entry below 0 or not finite, or none above 0.
        NotEnoughMemory, TrainingCancelled: as `fit`.
    """
    return Factorization(matrix, params, backend).run(on_epoch, should_stop)


class Factorization:
    """One run: A and both factors where the backend computes, solved in turn."""

    def __init__(self, matrix: Ratings | Floats, params: NmfParams, backend: Backend) -> None:
        matrix = _checked(matrix)
        shape = shape_of(matrix)
        self.params, self.tile = params, 0 if params.solver == "plain" else tile_of(params)
        self._hals = hals = backend.primitives("hals")
        _check_memory(matrix, params, self.tile, backend)
        dtype = np.dtype(params.precision).type
        self._matrix = hals.place(matrix, dtype)
        W, H = self._start(shape, _mean(matrix), dtype)
        self._rows, self._columns = hals.put(W, self.tile), hals.put(H, self.tile)
        self._squares = hals.squares(self._matrix)
        self._gram_of_H: Floats | None = None
        self.seconds, self.relative_error, self.n_epochs = 0.0, float("nan"), 0

    def run(
        self,
        on_epoch: OnEpoch | None = None,
        should_stop: ShouldStop | None = None,
        measure: Callable[[], Mapping[str, float]] = dict,
    ) -> Factors:
        """Solve to the end; `measure` adds to the metrics of an epoch.

        Raises:
            TrainingCancelled: `should_stop` returned true before an epoch.
            TrainingDiverged: a factor is no longer finite.
        """
        n_epochs = self.params.n_epochs
        self.begin()
        for epoch in epochs(n_epochs, should_stop):
            before = self.relative_error
            self.advance()
            if not np.isfinite(self.relative_error):
                raise TrainingDiverged("Training of nmf diverged: expected finite factors; use precision=float64")
            if on_epoch is not None:
                metrics = {"relative_error": self.relative_error, **measure()}
                on_epoch(EpochReport(epoch + 1, n_epochs, self.seconds, metrics))
            if self.params.tolerance and before - self.relative_error < self.params.tolerance * before:
                break
        return self.factors()

    def begin(self) -> None:
        """Compile, and the H step before the first epoch."""
        self._compile()
        self._timed(self._solve_columns)

    def advance(self) -> None:
        """One epoch; `seconds` grows by what it took."""
        self._timed(self._solve_rows)
        self._timed(self._solve_columns)
        self.n_epochs += 1

    def factors(self) -> Factors:
        """The present W and H, on the host."""
        W, H = self._hals.fetch(self._rows), self._hals.fetch(self._columns)
        return Factors(W, H.T, self.relative_error, self.n_epochs)

    def _solve_rows(self) -> None:
        """The W step."""
        self._solve(self._rows, self._columns, self._gram_of_H, is_W=True)

    def _solve_columns(self) -> None:
        """The H step, and the error it leaves."""
        hals, S = self._hals, self._hals.gram(self._rows)
        self._solve(self._columns, self._rows, S, is_W=False)
        self._gram_of_H = Q = hals.gram(self._columns)
        squares = self._squares - 2 * hals.inner(self._columns) + hals.sum_of_products(S, Q)
        self.relative_error = float(np.sqrt(max(squares, 0.0) / self._squares))

    def _solve(self, solved: Any, fixed: Any, gram: Any, *, is_W: bool) -> None:
        self._hals.multiply(self._matrix, is_W, fixed, solved)
        self._hals.sweep(solved, gram, tile=self.tile, normalise=is_W)

    def _timed(self, step: Callable[[], None]) -> None:
        began = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is said by the error it leaves
            step()
        self._hals.finish()
        self.seconds += time.perf_counter() - began

    def _start(self, shape: tuple[int, int], mean: float, dtype: type[np.floating]) -> tuple[Floats, Floats]:
        """W (V, K) with columns of length 1 and Hᵀ (D, K), both above 0."""
        hals, params = self._hals, self.params
        W, H = random_start(shape, mean, params)
        if params.start == "nndsvd":
            found = nndsvd(lambda by_row, rows: hals.product(self._matrix, by_row, rows.astype(dtype)), shape, params)
            W[:, : found[0].shape[1]], H[:, : found[1].shape[1]] = found
        W, H = np.maximum(W, hals.EPSILON), np.maximum(H, hals.EPSILON)
        norms = np.linalg.norm(W, axis=0)
        W, H = np.maximum(W / norms, hals.EPSILON), np.maximum(H * norms, hals.EPSILON)
        return W.astype(dtype), H.astype(dtype)

    def _compile(self) -> None:
        """Compile everything that an epoch calls, on a matrix of one cell in the same form."""
        hals, dtype = self._hals, np.dtype(self.params.precision).type
        one = np.ones((1, 1), dtype=dtype)
        corner = np.zeros(1, dtype=np.int64)
        cell = Ratings.from_coo(corner, corner, one[0]) if self._matrix.dense is None else one
        tile = min(self.tile, 1)
        matrix, rows, columns = hals.place(cell, dtype), hals.put(one, tile), hals.put(one, tile)
        for solved, fixed, is_W in ((rows, columns, True), (columns, rows, False)):
            hals.multiply(matrix, is_W, fixed, solved)
            hals.sweep(solved, hals.gram(fixed), tile=tile, normalise=is_W)
        hals.inner(columns)
        hals.finish()


def tile_of(params: NmfParams) -> int:
    """T: as asked, or the minimum of [002] eq. 9.

    vol(T) = V [(1/T + 2/√C)(K² − KT) + KT] words are moved, C the cache in words; it is least at
    T = √(K / (1 − 2/√C)), which for any cache in use is √K rounded.
    """
    return min(params.tile or round(params.n_factors**0.5), params.n_factors)


def random_start(shape: tuple[int, int], mean: float, params: NmfParams) -> tuple[Floats, Floats]:
    """W (V, K) and Hᵀ (D, K), float64, uniform above 0, so that WH has the `mean` of A."""
    generator = np.random.default_rng(params.seed)
    W, H = (generator.random((n, params.n_factors)) for n in shape)
    return W, H * (4 * mean / params.n_factors)  # two uniform numbers average 1/2 each


def model_of(ratings: Ratings, params: NmfParams, factors: Factors) -> Model:
    """W and H as a model; estimates lie between 0, what an unrated pair counts, and the largest rating."""
    scale = (0.0, ratings.scale[1])
    model = Model.zeros(params, 0.0, scale, ratings.n_users, ratings.n_items)
    model.mark_trained(ratings.by_user.lengths, ratings.by_item.lengths)
    model.user_factors[model.user_trained] = factors.W[model.user_trained]
    model.item_factors[model.item_trained] = factors.H.T[model.item_trained]
    return model


def shape_of(matrix: Ratings | Floats) -> tuple[int, int]:
    """(V, D)."""
    if isinstance(matrix, Ratings):
        return matrix.n_users, matrix.n_items
    return matrix.shape[0], matrix.shape[1]


def matrix_of(ratings: Ratings) -> Ratings | NDArray[np.float32]:
    """The form in which products are faster: sparse, or dense with zeros and all."""
    if len(ratings) < DENSE_FROM * ratings.n_users * ratings.n_items:
        return ratings
    users, items, values = ratings.coo()
    dense: NDArray[np.float32] = np.zeros((ratings.n_users, ratings.n_items), dtype=np.float32)
    dense[users, items] = values
    return dense


def _mean(matrix: Ratings | Floats) -> float:
    n_rows, n_columns = shape_of(matrix)
    values = matrix.by_user.values if isinstance(matrix, Ratings) else matrix
    return float(values.sum(dtype=np.float64)) / n_rows / n_columns


def _checked(matrix: Ratings | Floats) -> Ratings | Floats:
    if not isinstance(matrix, Ratings):
        matrix = np.asarray(matrix)
        is_number = np.issubdtype(matrix.dtype, np.integer) or np.issubdtype(matrix.dtype, np.floating)
        if matrix.ndim != 2 or not is_number:
            raise InvalidRatings(f"Invalid matrix of nmf: expected real (V, D), got {matrix.dtype} {matrix.shape}")
    values = matrix.by_user.values if isinstance(matrix, Ratings) else matrix
    lowest, highest = (values.min(), values.max()) if values.size else (0, 0)
    if lowest < 0:
        message = f"Invalid ratings for nmf: expected 0 or more, got {lowest:g}"
        raise InvalidRatings(f"{message}; train als-implicit, which takes low values for dislikes", *_lowest(matrix))
    if not (lowest >= 0 and 0 < highest < np.inf):
        raise InvalidRatings(
            f"Invalid ratings for nmf: expected finite numbers, not all 0, got {lowest:g} to {highest:g}"
        )
    return matrix


def _lowest(matrix: Ratings | Floats) -> tuple[int, int]:
    """Row and column of the lowest entry."""
    if isinstance(matrix, Ratings):
        users, items, values = matrix.coo()
        at = int(values.argmin())
        return int(users[at]), int(items[at])
    row, column = divmod(int(matrix.argmin()), matrix.shape[1])
    return row, column


def _check_memory(matrix: Ratings | Floats, params: NmfParams, tile: int, backend: Backend) -> None:
    hals, (n_rows, n_columns) = backend.primitives("hals"), shape_of(matrix)
    n_sparse, n_dense = (len(matrix), 0) if isinstance(matrix, Ratings) else (0, n_rows * n_columns)
    itemsize = np.dtype(params.precision).itemsize
    needed = hals.bytes_needed((n_rows, n_columns), n_sparse, n_dense, params.n_factors, tile, itemsize)
    what = f"Training on the {backend.name} with {params.n_factors} factors ({n_rows:,} × {n_columns:,})"
    check_room(what, needed, backend)
