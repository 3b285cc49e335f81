"""`python -m benchmarks nmf`: each of our solvers, and scikit-learn's NMF if it is installed.

Compared programs start from the same W and H and read the same form of the matrix. Ours alternate, an epoch each.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.report import say
from gpu.params import NmfParams
from gpu.training import loop, nmf
from gpu.training.nmf_matrix import matrix_of

Floats = NDArray[Any]
Curve = list[tuple[float, float]]  # (seconds, relative error)
CACHE_BYTES = 2 * 2**20  # second-level cache of a core: C in [002] eq. 9
STOPS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 75, 100)  # iterations after which a peer's error is measured
OURS = {"host": "extrapolated HALS", "device": "extrapolated HALS on the device"}
CD = "scikit-learn cd"
PEERS = {CD: "cd", "scikit-learn mu": "mu"}
MAX_RATIO = 4  # ours stops after this multiple of cd's iterations if it has not reached cd's error
NAN = float("nan")


@dataclass(frozen=True)
class Iteration:
    """One of our solvers: median seconds of an iteration without the first, and its error; plain and tiled agree."""

    code: str
    n_factors: int
    tile: int
    rows: int
    columns: int
    entries: int
    seconds_per_iteration: float
    times_plain: float
    relative_error: float


@dataclass(frozen=True)
class Tile:
    """One tile size T: its time, and the words that a W step moves by [002] eq. 9."""

    n_factors: int
    tile: int
    is_default: bool
    seconds_per_iteration: float
    megawords: float


@dataclass(frozen=True)
class Reached:
    """One program after its iterations, and its seconds to the final error of cd; `share` is relative to cd."""

    code: str
    n_factors: int
    iterations: int
    seconds: float
    relative_error: float
    seconds_to_error_of_cd: float
    share: float


@dataclass(frozen=True)
class Point:
    """One point of a program's curve of error over time."""

    code: str
    n_factors: int
    seconds: float
    relative_error: float


def forms(ratings: gpu.Ratings, n_factors: int, n_epochs: int, backend: gpu.Backend) -> list[Iteration]:
    """The plain, the tiled and the default solver, `n_epochs` each."""
    solvers = "plain", "tiled", "extrapolated"
    settings = [_params(n_factors, n_epochs, solver=solver) for solver in solvers]
    runs, seconds = _alternated(ratings, settings, n_epochs, backend)
    rows = []
    for params, run, iteration_s in zip(settings, runs, seconds, strict=True):
        size = (ratings.n_users, ratings.n_items, len(ratings))
        rows.append(
            Iteration(
                params.solver, n_factors, run.tile, *size, iteration_s, seconds[0] / iteration_s, run.relative_error
            )
        )
    return rows


def tiles(ratings: gpu.Ratings, n_factors: int, n_epochs: int, backend: gpu.Backend) -> list[Tile]:
    """Tile sizes around the default, and the smallest and largest possible ones."""
    default = nmf.tile_of(_params(n_factors, 1))
    sizes = sorted(
        {1, 2, 4, max(default // 2, 1), default, 2 * default, 4 * default, n_factors} & set(range(n_factors + 1))
    )
    settings = [_params(n_factors, n_epochs, solver="tiled", tile=size) for size in sizes]
    _, seconds = _alternated(ratings, settings, n_epochs, backend)
    n_rows = ratings.n_users
    return [
        Tile(n_factors, size, size == default, took, words(n_rows, n_factors, size) / 1e6)
        for size, took in zip(sizes, seconds, strict=True)
    ]


def words(n_rows: int, k: int, tile: int, cache_words: float = CACHE_BYTES / 4) -> float:
    """vol(T) of [002] eq. 9: the words that a W step moves."""
    return float(n_rows * ((1 / tile + 2 / cache_words**0.5) * (k**2 - k * tile) + k * tile))


def peers(
    ratings: gpu.Ratings, n_factors: int, n_epochs: int, backend: gpu.Backend
) -> tuple[list[Reached], list[Point]]:
    """Ours and scikit-learn's cd and mu from the same start; ours continues until it reaches the error of cd."""
    run = nmf.Factorization(matrix_of(ratings), _params(n_factors, n_epochs), backend)
    start = run.factors()
    start = start._replace(W=start.W.copy(), H=start.H.copy())
    loop.begin(run)
    ours = OURS[backend.name]
    curves: dict[str, Curve] = {ours: []}
    _advance(run, curves[ours], n_epochs)
    for code, solver in PEERS.items():
        curve = _peer(solver, _plain_form(ratings), start, n_epochs)
        if curve:
            curves[code] = curve
    goal = curves.get(CD, [(NAN, NAN)])[-1][1]
    while run.relative_error > goal and run.n_epochs < MAX_RATIO * n_epochs:
        _advance(run, curves[ours], 1)
    return _summary(curves, n_factors, n_epochs), [
        Point(code, n_factors, *point) for code, curve in curves.items() for point in curve
    ]


def _advance(run: nmf.Factorization, curve: Curve, n: int) -> None:
    for _ in range(n):
        loop.advance(run, 0)
        curve.append((run.seconds, run.relative_error))


def _summary(curves: dict[str, Curve], n_factors: int, n_epochs: int) -> list[Reached]:
    goal = curves.get(CD, [(NAN, NAN)])[-1]
    rows = []
    for code, curve in curves.items():
        at_end = curve[-1] if code in PEERS else curve[n_epochs - 1]
        to_goal = next((seconds for seconds, error in curve if error <= goal[1]), NAN)
        rows.append(Reached(code, n_factors, n_epochs, *at_end, to_goal, to_goal / goal[0]))
    return rows


def _peer(solver: str, matrix: Any, start: nmf.Factors, n_epochs: int) -> Curve:
    """Errors of scikit-learn after `STOPS` iterations, from consecutive calls; times include its checks."""
    try:
        decomposition = importlib.import_module("sklearn.decomposition")
    except ModuleNotFoundError:
        say("scikit-learn is not installed: nothing to compare with")
        return []
    W, H, seconds, curve = start.W.copy(), np.ascontiguousarray(start.H), 0.0, []
    stops = [stop for stop in STOPS if stop < n_epochs] + [n_epochs]
    for before, stop in zip([0, *stops], stops, strict=False):
        began = time.perf_counter()
        W, H, _ = decomposition.non_negative_factorization(
            matrix, W=W, H=H, n_components=W.shape[1], init="custom", solver=solver, tol=0, max_iter=stop - before
        )
        seconds += time.perf_counter() - began
        curve.append((seconds, relative_error(matrix, W, H)))
    say(f"  {solver}: {seconds:.1f} s to {curve[-1][1]:.5f}")
    return curve


def relative_error(matrix: Any, W: Floats, H: Floats) -> float:
    """The error of `gpu.training.nmf` for a SciPy or NumPy matrix."""
    values = matrix.data if hasattr(matrix, "tocsr") else matrix
    squares = float(np.sum(np.square(values, dtype=np.float64)))
    inner = float(np.sum((matrix @ H.T).astype(np.float64) * W))
    whole = float(np.sum((W.T @ W).astype(np.float64) * (H @ H.T)))
    return float(np.sqrt(max(squares - 2 * inner + whole, 0) / squares))


def _plain_form(ratings: gpu.Ratings) -> Any:
    """The matrix for scikit-learn, float32: dense if ours is dense, else CSR."""
    from scipy import sparse  # noqa: PLC0415 - only peers need it

    matrix = matrix_of(ratings)
    if not isinstance(matrix, gpu.Ratings):
        return matrix
    users, items, values = matrix.coo()
    return sparse.csr_matrix((values, (users, items)), shape=(matrix.n_users, matrix.n_items))


def _alternated(
    ratings: gpu.Ratings, settings: Sequence[NmfParams], n_epochs: int, backend: gpu.Backend
) -> tuple[list[nmf.Factorization], list[float]]:
    """Alternate `n_epochs` epochs of each setting; returns the runs and their median seconds per epoch."""
    runs = [nmf.Factorization(matrix_of(ratings), params, backend) for params in settings]
    for run in runs:
        loop.begin(run)
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(n_epochs):
        for run, of_run in zip(runs, seconds, strict=True):
            before = run.seconds
            loop.advance(run, 0)
            of_run.append(run.seconds - before)
    return runs, [statistics.median(of_run[1:]) for of_run in seconds]


def _params(n_factors: int, n_epochs: int, **settings: Any) -> NmfParams:
    return NmfParams(n_factors=n_factors, n_epochs=n_epochs, tolerance=0, **settings)


def transposed(ratings: gpu.Ratings) -> gpu.Ratings:
    """The transposed matrix: [002] uses terms × documents, files have documents × terms."""
    return gpu.Ratings(ratings.by_item, ratings.by_user)


def run(
    ratings: gpu.Ratings, factors: Sequence[int], epochs: tuple[int, int], backend: gpu.Backend
) -> Iterator[tuple[list[Iteration], list[Tile], list[Reached], list[Point]]]:
    """The rows of all tables for each K; `epochs` is (epochs of solvers and tiles, iterations of the comparison)."""
    for n_factors in factors:
        say(f"K = {n_factors}")
        own = (forms(ratings, n_factors, epochs[0], backend), tiles(ratings, n_factors, epochs[0], backend))
        yield (*own, *peers(ratings, n_factors, epochs[1], backend))
