"""`python -m benchmarks als`: times of both half-iterations of ALS, of the hardware's limits and of `implicit`.

Iterations form one trajectory from a random start, as in a training. Conjugate gradients stop early on converged rows,
so repeating one iteration would measure too short a time. Compared programs start alike and alternate iterations.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import gpu
from benchmarks import als_cost, als_matrix, als_peer
from benchmarks.als_cost import H100
from benchmarks.report import say
from gpu import device
from gpu.calibration import calibrate, in_units
from gpu.params import AlsImplicitParams, AlsParams, params_for
from gpu.signals import signals_of
from gpu.training import als

NAN = float("nan")


@dataclass(frozen=True)
class Iteration:
    """One trajectory of one program. Times are medians that exclude the first iteration, which is `first_ms`.

    `train_loss` is the objective after the last iteration divided by the number of ratings. `test_rmse` has a value for
    each iteration.
    """

    code: str
    algorithm: str
    precision: str
    n_factors: int
    n_users: int
    n_ratings: int
    iteration_ms: float
    first_ms: float
    items_ms: float
    users_ms: float
    train_loss: float
    test_rmse: tuple[float, ...]


@dataclass(frozen=True)
class Half:
    """One of our half-iterations: its bytes and operations (`als_cost`), and the measured rates.

    `floor_ms` is the least time of an H100 at its ceilings; `share` is `floor_ms / ms`. Both are NaN on the host.
    """

    half: str
    precision: str
    n_factors: int
    n_users: int
    n_ratings: int
    ms: float
    gigabytes: float
    gigaflop: float
    gigabytes_per_s: float
    gigaflop_per_s: float
    floor_ms: float
    limit: str
    share: float


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
        self.problem = als.problem_of(train, params, calibration)
        self.primitives = backend.primitives("als")
        self.by_user = self.primitives.prepare(train.by_user, train.n_items, self.problem)
        self.by_item = self.primitives.prepare(train.by_item, train.n_users, self.problem)
        self.held_out = self.primitives.prepare(test.by_user, train.n_items, self.problem)

    def start(self) -> tuple[Any, Any]:
        """(users, items) before the first iteration."""
        users, items = als.start_tables(self.train, self.problem, self.params.seed)
        return self.primitives.load(users, self.problem), self.primitives.load(items, self.problem)

    def train_loss(self, users: Any, items: Any) -> float:
        """The objective, with its regularization, divided by the number of ratings."""
        measure, problem = self.primitives, self.problem
        _, loss = measure.errors(self.by_user, users, items, problem, self.train.scale)
        loss += measure.penalty(self.by_user, users, problem) + measure.penalty(self.by_item, items, problem)
        return float(loss / len(self.train)) * self.unit**2

    def test_rmse(self, users: Any, items: Any) -> float:
        """RMSE of estimates that are clipped to the scale of the training ratings."""
        squares, _ = self.primitives.errors(self.held_out, users, items, self.problem, self.train.scale)
        return float(np.sqrt(squares / len(self.test))) * self.unit


class Trajectory:
    """One program's factor tables, and the time and test RMSE of each of its iterations."""

    def __init__(
        self,
        name: str,
        setting: Setting,
        tables: tuple[Any, Any],
        solve_items: Callable[[Any, Any], None],
        solve_users: Callable[[Any, Any], None],
    ) -> None:
        """`solve_items` and `solve_users` take (users, items) and return after the half-iteration has finished."""
        self.name, self.setting = name, setting
        self._tables, self._solve_items, self._solve_users = tables, solve_items, solve_users
        self.seconds: list[tuple[float, float]] = []
        self.test_rmse: list[float] = []

    def advance(self) -> None:
        """Run one iteration and time each half; then compute its test error, which is not timed."""
        began = time.perf_counter()
        self._solve_items(*self._tables)
        between = time.perf_counter()
        self._solve_users(*self._tables)
        self.seconds.append((between - began, time.perf_counter() - between))
        if not self.setting.problem.is_implicit:
            self.test_rmse.append(self.setting.test_rmse(*self._tables))

    def milliseconds(self) -> tuple[float, float]:
        """(items, users): median of each half, without the first iteration."""
        items, users = (statistics.median(half) * 1e3 for half in zip(*self.seconds[1:], strict=True))
        return items, users

    def iteration(self) -> Iteration:
        """The row of this trajectory."""
        params, train = self.setting.params, self.setting.train
        whole = [sum(halves) * 1e3 for halves in self.seconds]
        loss = self.setting.train_loss(*self._tables)
        return Iteration(
            self.name, params.algorithm, params.precision, params.n_factors, train.n_users, len(train),
            statistics.median(whole[1:]), whole[0], *self.milliseconds(), loss, tuple(self.test_rmse),
        )  # fmt: skip


def run(
    parts: Sequence[tuple[gpu.Ratings, gpu.Ratings]], algorithm: str, factors: Sequence[int],
    settings: Mapping[str, Any], backend: gpu.Backend,
) -> Iterator[tuple[list[Iteration], list[Half]]]:  # fmt: skip
    """A trajectory on each of `parts` (train, test) with each number of factors, then the peer's.

    Implicit models use the peer's objective, which has the same λ in every row, unless `settings` has another exponent.
    """
    implicit = algorithm == AlsImplicitParams.algorithm
    peer = als_peer.installed() if implicit and backend.name == "host" else None
    defaults: dict[str, Any] = {"regularization_exponent": 0, "values": "counts"} if implicit else {}
    if backend.name == "host":
        defaults["precision"] = "float32"
    for train, test in parts:
        for n_factors in factors:
            params = params_for(algorithm, {**defaults, **settings, "n_factors": n_factors})
            assert isinstance(params, AlsParams | AlsImplicitParams)  # noqa: S101 - narrows the type
            say(f"{len(train):,} ratings, {train.n_users:,} users, {params}")
            yield measure(train, test, params, backend, peer)


def measure(
    train: gpu.Ratings, test: gpu.Ratings, params: AlsParams | AlsImplicitParams, backend: gpu.Backend,
    peer: ModuleType | None,
) -> tuple[list[Iteration], list[Half]]:  # fmt: skip
    """Alternate `params.n_epochs` iterations of ours and of the peer; our results come first."""
    _compile(params, backend)
    setting = Setting(train, test, params, backend)
    codes = [ours(setting)]
    if peer is not None:
        codes.append(theirs(setting, peer))
    for _ in range(params.n_epochs):
        for code in codes:
            code.advance()
    return [code.iteration() for code in codes], halves(setting, *codes[0].milliseconds())


def ours(setting: Setting) -> Trajectory:
    """The half-iterations of `gpu.training.als` on the setting's backend; all have one λ, as those of peers have."""
    primitives, problem = setting.primitives, setting.problem

    def solve_items(users: Any, items: Any) -> None:
        primitives.solve(setting.by_item, items, users, problem)
        primitives.finish()

    def solve_users(users: Any, items: Any) -> None:
        primitives.solve(setting.by_user, users, items, problem)
        primitives.finish()

    return Trajectory(f"nearfield, {where(setting.backend)}", setting, setting.start(), solve_items, solve_users)


def where(backend: gpu.Backend) -> str:
    """`host`, or the name of the GPU."""
    return "host" if backend.name == "host" else device.describe().split(",")[0]


def theirs(setting: Setting, peer: ModuleType) -> Trajectory:
    """The half-iterations of `implicit`, from our start and with items first."""
    assert isinstance(setting.params, AlsImplicitParams)  # noqa: S101 - it has no other objective
    peer_halves = als_peer.Halves(peer, setting.train, setting.params)
    return Trajectory("implicit", setting, setting.start(), peer_halves.items, peer_halves.users)


def halves(setting: Setting, items_ms: float, users_ms: float) -> list[Half]:
    """Both of our half-iterations with measured times and the least times that the hardware allows."""
    train, problem = setting.train, setting.problem
    both = (("items", train.by_item, train.n_users, items_ms), ("users", train.by_user, train.n_items, users_ms))
    results = []
    for name, rows, n_columns, ms in both:
        work = als_cost.work_of(rows, n_columns, problem)
        floor_ms, limit = work.floor_ms(H100) if setting.backend.name == "device" else (NAN, "not measured")
        results.append(
            Half(
                name, problem.precision, problem.n_factors, train.n_users, len(train), ms, work.bytes / 1e9,
                work.flop / 1e9, work.bytes / ms / 1e6, work.flop / ms / 1e6, floor_ms, limit, floor_ms / ms,
            )
        )  # fmt: skip
    return results


def parts_of(
    train: gpu.Ratings, test: gpu.Ratings, shares: Sequence[float], user_shares: Sequence[float]
) -> list[tuple[gpu.Ratings, gpu.Ratings]]:
    """(train, test) for each share of the ratings, then for each share of the users with all their ratings."""
    parts = [(train if share == 1 else als_matrix.sampled(train, share), test) for share in shares]
    for share in user_shares:
        parts.append((als_matrix.first_users(train, share), als_matrix.first_users(test, share)))
    return parts


def _compile(params: AlsParams | AlsImplicitParams, backend: gpu.Backend) -> None:
    """Call everything that is timed on a few ratings, so that times exclude compilation."""
    users, items = np.divmod(np.arange(64), 8)
    few = gpu.Ratings.from_coo(users, items, np.ones(64))
    code = ours(Setting(few, few, dataclasses.replace(params, n_epochs=1), backend))
    code.advance()
    code.advance()
    code.iteration()
