"""`python -m benchmarks nmf`: each of our solvers, and scikit-learn's NMF if it is installed.

Compared programs start from the same W and H and read the same form of the matrix. Ours alternate, an epoch each.
"""

from __future__ import annotations

import importlib
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, options
from benchmarks.options import Factors, Where
from benchmarks.results import ForPictures, Row, say
from benchmarks.timing import NAN, ms_of
from gpu.nmf import host as hals
from gpu.nmf import trainer as training
from gpu.nmf.matrix import matrix_of
from gpu.nmf.params import NmfParams
from gpu.training import loop

Curve = list[tuple[float, float]]  # (seconds, relative error)
STOPS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 75, 100)  # iterations after which a peer's error is measured
OURS = {"host": "extrapolated HALS", "device": "extrapolated HALS on the device"}
CD = "scikit-learn cd"
PEERS = {CD: "cd", "scikit-learn mu": "mu"}
CACHE_WORDS = 35 * 2**20 / 8  # of [002]: 35 MB in double precision
ROUNDS = 6  # of a W step, the first to compile
MAX_RATIO = 4  # ours stops after this multiple of cd's iterations if it has not reached cd's error


def nmf(
    matrix: Annotated[Path, typer.Option(help="File (.mat, .npz, ratings), or folder of raw arrays.", exists=True)],
    factors: Factors = "80,160,240",
    epochs: Annotated[int, typer.Option(help="Iterations of each solver.", min=2)] = 6,
    to: Annotated[int, typer.Option(help="Iterations of the comparison with scikit-learn.", min=1)] = 100,
    tiles: Annotated[str, typer.Option(help="Comma-separated widths of tiles of further runs.")] = "",
    transpose: Annotated[bool, typer.Option("--transpose", help="Factorize the transposed matrix.")] = False,
    key: Annotated[str | None, typer.Option(help="Variable in the file.", metavar="NAME")] = None,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Seconds of an iteration of NMF by solver, the parts of a W step, and seconds to the error of scikit-learn's NMF.

    `words` are those that a sweep of W moves by [002] eq. 9 and section 3.2, with the cache of that paper.
    """
    ratings, where = datasets.ratings_of(matrix, key), options.chosen(backend)
    # [002] uses terms × documents, files have documents × terms.
    ratings = gpu.Ratings(ratings.by_item, ratings.by_user) if transpose else ratings
    for n_factors in options.whole(factors):
        say(f"K = {n_factors}")
        yield from solvers(ratings, n_factors, epochs, where, options.whole(tiles))
        yield from w_step(ratings, n_factors, where)
        yield from peers(ratings, n_factors, to, where)


def solvers(
    ratings: gpu.Ratings, n_factors: int, n_epochs: int, backend: gpu.Backend, tiles: Sequence[int]
) -> Iterator[Row]:
    """The plain, the tiled and the default solver: seconds without the first epoch; plain and tiled agree."""
    settings = [_params(n_factors, n_epochs, solver=solver) for solver in ("plain", "tiled", "extrapolated")]
    settings += [_params(n_factors, n_epochs, solver="tiled", tile=tile) for tile in tiles]
    size = {"rows": ratings.n_users, "columns": ratings.n_items, "entries": len(ratings)}
    runs, seconds = _alternated(ratings, settings, n_epochs, backend)
    for params, run, own_s in zip(settings, runs, seconds, strict=True):
        yield {
            "code": params.solver, "n_factors": n_factors, "tile": run.tile, **size,
            "words": words_moved(ratings.n_users, n_factors, run.tile), "seconds_per_iteration": own_s,
            "times_plain": seconds[0] / own_s, "relative_error": run.relative_error,
        }  # fmt: skip


def words_moved(n_rows: int, k: int, tile: int) -> float:
    """Words that a sweep of W (V, K) moves: [002] eq. 9; without tiles what its section 3.2 counts for Alg. 1."""
    if not tile:
        return k * (n_rows * k + k + 6 * n_rows + 1)
    return n_rows * ((1 / tile + 2 / math.sqrt(CACHE_WORDS)) * (k * k - k * tile) + k * tile)


def w_step(ratings: gpu.Ratings, n_factors: int, backend: gpu.Backend) -> Iterator[Row]:
    """Milliseconds of both products of a W step and of its sweep, column by column and in tiles, as [002] has them."""
    twin, params = backend.twin, _params(n_factors, 1)
    tile, start = training.tile_of(params), training.random_start((ratings.n_users, ratings.n_items), 1.0, params)
    matrix = twin(hals.load)(matrix_of(ratings), np.float32)
    W, H = (
        twin(hals.load_factors)((table / np.linalg.norm(table, axis=0)).astype(np.float32), tile) for table in start
    )
    gram, times = twin(hals.gram)(H), dict[str, list[float]]()
    for name, width in ROUNDS * (("sweep by columns", 0), ("sweep in tiles", tile)):
        steps = {
            "A Hᵀ": (twin(hals.multiply), (matrix, True, H, W), {}),
            "H Hᵀ": (twin(hals.gram), (H,), {}),
            name: (twin(hals.sweep), (W, gram), {"tile": width, "normalize": True}),
        }
        for step, (work, given, named) in steps.items():
            own_ms = ms_of(lambda work=work, given=given, named=named: (work(*given, **named), twin(hals.finish)()))  # type: ignore[misc]
            times.setdefault(step, []).append(own_ms)
    for step, ms in times.items():
        yield {"step": step, "n_factors": n_factors, "step_ms": statistics.median(ms[1:])}


def peers(ratings: gpu.Ratings, n_factors: int, n_epochs: int, backend: gpu.Backend) -> Iterator[Row]:
    """Ours and scikit-learn's cd and mu from the same start; ours continues until it reaches the error of cd."""
    run = training.Factorization(matrix_of(ratings), _params(n_factors, n_epochs), backend)
    start = run.factors()
    start = start._replace(W=start.W.copy(), H=start.H.copy())
    loop.begin(run)
    curves: dict[str, Curve] = {OURS[backend.name]: []}

    def advance() -> None:
        loop.advance(run, 0)
        curves[OURS[backend.name]].append((run.seconds, run.relative_error))

    for _ in range(n_epochs):
        advance()
    form = matrix_of(ratings)
    for code, solver in PEERS.items():
        if curve := _peer(solver, csr(form) if isinstance(form, gpu.Ratings) else form, start, n_epochs):
            curves[code] = curve
    goal_s, goal = curves.get(CD, [(NAN, NAN)])[-1]
    while run.relative_error > goal and run.n_epochs < MAX_RATIO * n_epochs:
        advance()
    for code, curve in curves.items():
        at_end = curve[-1] if code in PEERS else curve[n_epochs - 1]
        to_goal = next((seconds for seconds, error in curve if error <= goal), NAN)
        row = {"code": code, "n_factors": n_factors}
        end = {"iterations": n_epochs, "seconds": at_end[0], "relative_error": at_end[1]}
        yield {**row, **end, "seconds_to_error_of_cd": to_goal, "share": to_goal / goal_s}
        for seconds, error in curve:
            yield ForPictures(row, seconds=seconds, relative_error=error)


def _peer(solver: str, matrix: Any, start: training.Factors, n_epochs: int) -> Curve:
    """Errors of scikit-learn after `STOPS` iterations, from consecutive calls; times include its checks."""
    try:
        decomposition = importlib.import_module("sklearn.decomposition")
    except ModuleNotFoundError:
        say("scikit-learn is not installed: nothing to compare with")
        return []
    W, H, seconds, curve = start.W.copy(), np.ascontiguousarray(start.H), 0.0, []
    stops = [stop for stop in STOPS if stop < n_epochs] + [n_epochs]
    for before, stop in zip([0, *stops], stops, strict=False):
        options_ = {"solver": solver, "tol": 0, "max_iter": stop - before, "n_components": W.shape[1], "init": "custom"}
        began = time.perf_counter()
        W, H, _ = decomposition.non_negative_factorization(matrix, W=W, H=H, **options_)
        seconds += time.perf_counter() - began
        curve.append((seconds, relative_error(matrix, W, H)))
    say(f"  {solver}: {seconds:.1f} s to {curve[-1][1]:.5f}")
    return curve


def relative_error(matrix: Any, W: NDArray[Any], H: NDArray[Any]) -> float:
    """The error of `gpu.nmf.trainer` for a SciPy or NumPy matrix."""
    values = matrix.data if hasattr(matrix, "tocsr") else matrix
    squares = float(np.sum(np.square(values, dtype=np.float64)))
    inner = float(np.sum((matrix @ H.T).astype(np.float64) * W))
    whole = float(np.sum((W.T @ W).astype(np.float64) * (H @ H.T)))
    return float(np.sqrt(max(squares - 2 * inner + whole, 0) / squares))


def csr(ratings: gpu.Ratings) -> Any:
    """A sparse float32 matrix (U, I); unrated pairs are 0."""
    from scipy import sparse  # noqa: PLC0415 - only factorizations need it

    users, items, values = ratings.coo()
    return sparse.csr_matrix((values, (users, items)), shape=(ratings.n_users, ratings.n_items))


def _alternated(
    ratings: gpu.Ratings, settings: Sequence[NmfParams], n_epochs: int, backend: gpu.Backend
) -> tuple[list[training.Factorization], list[float]]:
    """Alternate `n_epochs` epochs of each setting; returns the runs and their median seconds per epoch."""
    runs = [training.Factorization(matrix_of(ratings), params, backend) for params in settings]
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
