"""`python -m benchmarks als`: times of both half-iterations of ALS, of the hardware's limits and of `implicit`.

Iterations form one trajectory from a random start, as in a training. Conjugate gradients stop early on converged rows,
so repeating one iteration would measure too short a time. Compared programs start alike and alternate iterations.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import statistics
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, options
from benchmarks.options import Factors, Parameters, Source, Where
from benchmarks.results import Row, say
from benchmarks.timing import NAN, ms_of
from gpu.algorithms import params_of
from gpu.als import host
from gpu.als import trainer as training
from gpu.als.objective import AlsObjective, problem_of, width
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base import device
from gpu.data.calibration import calibrate, in_units
from gpu.data.signals import signals_of
from service.base import tuning

RATING_BYTES = 8  # a column (int32) and a value (float32)
CHUNK_HALVES = 8  # rows of the FP16 table are whole 16-byte chunks
BIAS_HALVES = 3  # a one, and a bias in two FP16 numbers
# Measured on one H100 80GB HBM3: 256-byte rows at random out of 17,770 and of 480,189, and square matrix products.
CACHED, CACHED_BYTES = 6.2e12, 25e6  # bytes per second of gathered rows; bytes of the largest table in L2
GATHERED = 3.5e12  # the same from larger tables
FLOPS = {"float16": 738e12, "float32": 50.8e12}  # of matrix products with sums in float32

Half_ = Callable[[Any, Any], None]  # solves items or users, given (users, items), and returns when it has finished


def als(
    ratings: Source,
    implicit: Annotated[bool, typer.Option("--implicit", help="Measure als-implicit instead of als.")] = False,
    factors: Factors = "100",
    epochs: Annotated[int, typer.Option(help="Iterations; the median excludes the first.", min=2)] = 10,
    shares: Annotated[str, typer.Option(help="Comma-separated shares of the ratings, such as 0.25,0.5,1.")] = "1",
    user_shares: Annotated[str, typer.Option(help="Further runs: shares of the users, with all their ratings.")] = "",
    set_: Parameters = None,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Milliseconds of both half-iterations of ALS, their floors on an H100, and on the host also `implicit`.

    A tenth of a file is held out. With --implicit the objective is that of `implicit`, which has the same λ in every
    row (regularization_exponent=0), unless it is set.
    """
    (train, test), where = datasets.train_and_test(ratings), options.chosen(backend)
    parts = [(train if n == 1 else datasets.sampled(train, n), test) for n in options.numbers(shares)]
    for share in options.numbers(user_shares):
        parts.append((datasets.first_users(train, share), datasets.first_users(test, share)))
    settings: dict[str, Any] = {"regularization_exponent": 0, "values": "counts"} if implicit else {}
    settings |= {"precision": "float32"} if where.name == "host" else {}
    settings |= {**options.parameters(set_), "n_epochs": epochs}
    peer = implicit_als() if implicit and where.name == "host" else None
    for part in parts:
        for n_factors in options.whole(factors):
            given = {**settings, "n_factors": n_factors}
            params = params_of(AlsImplicitParams, given) if implicit else params_of(AlsParams, given)
            say(f"{len(part[0]):,} ratings, {part[0].n_users:,} users, {params}")
            yield from measured(*part, params, where, peer)


class Setting:
    """Ratings prepared on a backend, and the errors of factor tables there."""

    def __init__(
        self, train: gpu.Ratings, test: gpu.Ratings, params: AlsParams | AlsImplicitParams, backend: gpu.Backend
    ) -> None:
        calibration = calibrate(train, params)
        self.unit = 1.0 if params.is_implicit else calibration.unit
        train = signals_of(train, calibration) if params.is_implicit else in_units(train, calibration.unit)
        test = in_units(test, self.unit)
        self.train, self.test, self.params, self.backend = train, test, params, backend
        size = {"n_factors": params.n_factors, "n_users": train.n_users, "n_ratings": len(train)}
        self.size = {"precision": params.precision, **size}
        self.problem = problem_of(train, params, calibration)
        self.by_user = self.backend.twin(host.prepare)(train.by_user, train.n_items, self.problem)
        self.by_item = self.backend.twin(host.prepare)(train.by_item, train.n_users, self.problem)
        self.held_out = self.backend.twin(host.prepare)(test.by_user, train.n_items, self.problem)

    def start(self) -> tuple[Any, Any]:
        """(users, items) before the first iteration."""
        users = training.start_users(self.train, self.problem, self.params.seed, slice(0, self.train.n_users))
        items = np.zeros((self.train.n_items, users.shape[1]), dtype=np.float32)
        return self.backend.twin(host.load)(users, self.problem), self.backend.twin(host.load)(items, self.problem)

    def solve_items(self, users: Any, items: Any) -> None:
        """Solve the items as a training does; all halves have one λ, as those of peers have."""
        self.backend.twin(host.solve)(self.by_item, items, users, self.problem)
        self.backend.twin(host.finish)()

    def solve_users(self, users: Any, items: Any) -> None:
        """Solve the users likewise."""
        self.backend.twin(host.solve)(self.by_user, users, items, self.problem)
        self.backend.twin(host.finish)()

    def train_loss(self, users: Any, items: Any) -> float:
        """The objective, with its regularization, divided by the number of ratings."""
        twin, problem = self.backend.twin, self.problem
        _, loss = twin(host.errors)(self.by_user, users, items, problem, self.train.scale)
        loss += twin(host.penalty)(self.by_user, users, problem) + twin(host.penalty)(self.by_item, items, problem)
        return float(loss / len(self.train)) * self.unit**2

    def test_rmse(self, users: Any, items: Any) -> float:
        """RMSE of estimates that are clipped to the scale of the training ratings."""
        squares, _ = self.backend.twin(host.errors)(self.held_out, users, items, self.problem, self.train.scale)
        return float(np.sqrt(squares / len(self.test))) * self.unit


class Trajectory:
    """One program's factor tables, and the time and test RMSE of each of its iterations."""

    def __init__(self, name: str, setting: Setting, solve_items: Half_, solve_users: Half_) -> None:
        self.name, self.setting, self._tables = name, setting, setting.start()
        self._solve_items, self._solve_users = solve_items, solve_users
        self.ms: list[tuple[float, float]] = []  # of items and users
        self.test_rmse: list[float] = []

    def advance(self) -> None:
        """Run one iteration and time each half; then compute its test error, which is not timed."""
        items_ms = ms_of(lambda: self._solve_items(*self._tables))
        self.ms.append((items_ms, ms_of(lambda: self._solve_users(*self._tables))))
        if not self.setting.problem.is_implicit:
            self.test_rmse.append(self.setting.test_rmse(*self._tables))

    def iteration(self) -> Row:
        """The row of this trajectory: medians exclude the first iteration, which is `first_ms`.

        `train_loss` is the objective after the last iteration divided by the number of ratings.
        """
        params, whole = self.setting.params, [sum(halves) for halves in self.ms]
        halves = zip(*self.ms[1:], strict=True)
        items_ms, users_ms = map(statistics.median, halves)
        return {
            "code": self.name, "algorithm": params.algorithm, **self.setting.size,
            "iteration_ms": statistics.median(whole[1:]), "first_ms": whole[0], "items_ms": items_ms,
            "users_ms": users_ms, "train_loss": self.setting.train_loss(*self._tables),
            "test_rmse": tuple(self.test_rmse),
        }  # fmt: skip


def measured(
    train: gpu.Ratings,
    test: gpu.Ratings,
    params: AlsParams | AlsImplicitParams,
    backend: gpu.Backend,
    peer: ModuleType | None,
) -> Iterator[Row]:
    """Alternate `params.n_epochs` iterations of ours and of the peer; our results come first."""
    users, items = np.divmod(np.arange(64), 8)
    few = gpu.Ratings.from_coo(users, items, np.ones(64))  # compiles everything that is timed
    small = Setting(few, few, dataclasses.replace(params, n_epochs=1), backend)
    compiling, setting = (
        Trajectory("", small, small.solve_items, small.solve_users),
        Setting(train, test, params, backend),
    )
    compiling.advance()
    compiling.advance()
    compiling.iteration()
    codes = [Trajectory(f"nearfield, {where(backend)}", setting, setting.solve_items, setting.solve_users)]
    if peer is not None:
        theirs = Peer(peer, setting.train, params, 1)
        codes.append(Trajectory("implicit", setting, theirs.solve_items, theirs.solve_users))
    for _ in range(params.n_epochs):
        for code in codes:
            code.advance()
    iterations = [code.iteration() for code in codes]
    yield from iterations
    yield _half("items", setting, setting.train.by_item, setting.train.n_users, iterations[0]["items_ms"])
    yield _half("users", setting, setting.train.by_user, setting.train.n_items, iterations[0]["users_ms"])


def _half(name: str, setting: Setting, rows: gpu.Rows, n_columns: int, ms: float) -> Row:
    """A half-iteration of ours with its measured time and the least time that the hardware allows."""
    problem = setting.problem
    work = work_of(rows, n_columns, problem)
    floor_ms, limit = work.floor_ms() if setting.backend.name == "device" else (NAN, "not measured")
    return {
        "half": name, **setting.size, "ms": ms, "gigabytes": work.bytes / 1e9, "gigaflop": work.flop / 1e9,
        "gigabytes_per_s": work.bytes / ms / 1e6, "gigaflop_per_s": work.flop / ms / 1e6, "floor_ms": floor_ms,
        "limit": limit, "share": floor_ms / ms,
    }  # fmt: skip


def where(backend: gpu.Backend) -> str:
    """`host`, or the name of the GPU."""
    return "host" if backend.name == "host" else device.describe().split(",")[0]


class Work(NamedTuple):
    """Cost of one half-iteration: `bytes` and `flop`; `table_bytes` is the size of the gathered table."""

    bytes: int
    flop: int
    table_bytes: int
    precision: str

    def floor_ms(self) -> tuple[float, str]:
        """(milliseconds, limit): the longer of the times to move the data and to compute, and which one it is."""
        memory_ms = self.bytes / (CACHED if self.table_bytes <= CACHED_BYTES else GATHERED) * 1e3
        arithmetic_ms = self.flop / FLOPS["float16" if self.precision == "float16" else "float32"] * 1e3
        return (memory_ms, "memory") if memory_ms >= arithmetic_ms else (arithmetic_ms, "arithmetic")


def work_of(rows: gpu.Rows, n_columns: int, problem: AlsObjective) -> Work:
    """The work of solving `rows` against a table of `n_columns` rows.

    Only useful work counts: no padding of F, half of the symmetric A, no repeated reads except of gathered rows.
    Bytes: each rating and its gathered row; the solved table is read and written once. FLOP: F (F + 1) for each rating
    (half of z zᵀ, a product and a sum), and 2 F² for each step of each row with ratings. An implicit objective adds
    F (F + 1) for each row of the other table.
    """
    n_ratings, n_solved, size = int(rows.lengths.sum()), int(np.count_nonzero(rows.lengths)), width(problem)
    bytes_per_row = row_bytes(problem)
    moved = n_ratings * (bytes_per_row + RATING_BYTES) + 2 * len(rows.lengths) * size * 4
    to_solve = size**3 // 3 if problem.solver == "cholesky" else problem.n_cg_steps * 2 * size**2
    flop = (n_ratings + n_columns * problem.is_implicit) * size * (size + 1) + n_solved * to_solve
    return Work(moved, flop, n_columns * bytes_per_row, problem.precision)


def row_bytes(problem: AlsObjective) -> int:
    """Bytes of one row of the gathered table."""
    if problem.precision == "float32":
        return width(problem) * 4
    columns = problem.n_factors + BIAS_HALVES * problem.biases
    return math.ceil(columns / CHUNK_HALVES) * CHUNK_HALVES * 2


def implicit_als() -> ModuleType | None:
    """The package's ALS on the CPU; None, with a message, if it is not installed."""
    try:
        module = importlib.import_module("implicit.cpu.als")
    except ModuleNotFoundError:
        say("implicit is not installed: nothing to compare with")
        return None
    tuning.limit_blas()  # also of the BLAS that this import has loaded
    return module


class Peer:
    """The peer's estimator with equal parameters, and its inputs: CSR matrices of c = 1 + α r.

    Pairs that are not stored have c = 1, as in ours. Its λ is the same for every row, which is our exponent 0.
    """

    def __init__(
        self, module: ModuleType, ratings: gpu.Ratings, params: AlsParams | AlsImplicitParams, n_epochs: int
    ) -> None:
        self.params, self.calibration = params, calibrate(ratings, params)
        self.model = module.AlternatingLeastSquares(
            factors=params.n_factors,
            regularization=self.calibration.regularization,
            iterations=n_epochs,
            num_threads=len(os.sched_getaffinity(0)),
            random_state=params.seed,
        )
        self.model.cg_steps = params.n_cg_steps
        signals = signals_of(ratings, self.calibration)
        self._by_user = self._confidences(signals.by_user, ratings.n_items)
        self._by_item = self._confidences(signals.by_item, ratings.n_users)

    def solve_items(self, users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        """Solve `items` (I, F) in place."""
        self._solve(self._by_item, items, users)

    def solve_users(self, users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        """Solve `users` (U, F) in place."""
        self._solve(self._by_user, users, items)

    def _solve(self, confidence: Any, solved: NDArray[np.float32], fixed: NDArray[np.float32]) -> None:
        self.model.solver(confidence, solved, fixed, self.model.regularization, num_threads=self.model.num_threads)

    def _confidences(self, rows: gpu.Rows, n_columns: int) -> Any:
        from scipy.sparse import csr_matrix  # noqa: PLC0415 - only if the peer is installed

        bounds = np.append(rows.starts, rows.starts[-1] + rows.lengths[-1])
        values = 1 + self.calibration.alpha * rows.values
        return csr_matrix((values, rows.items, bounds), shape=(len(rows.starts), n_columns))
