"""`python -m benchmarks accuracy`: test error and cost of each way of finding neighbors ([004] table 7).

Each model is trained once a seed, which moves its start, its order of visits, its hashes and its random neighbors; the
split stays. CULSH-MF is compared with the same descent without neighbors, and with ALS at the shipped defaults.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import gpu
from benchmarks.memory import MIB, peak_mib
from benchmarks.report import say
from gpu.params import CulshParams, params_for, with_changes
from gpu.training import similarity

NAN = float("nan")
WAYS = (
    {"similarity": "random"},
    {"similarity": "gsm"},
    {"similarity": "simlsh", "psi": "power"},
    {"similarity": "simlsh", "psi": "residual"},
    {"similarity": "rp_cos"},
    {"similarity": "minhash"},
)
PSI = {"power": "r²", "residual": "r − b"}


@dataclass(frozen=True)
class Row:
    """One model.

    `test_rmse` is a median over the seeds after the last epoch, `rmse_by_seed` each, `seconds` a median of whole
    trainings, neighbors included. Of finding the neighbors: `neighbors_s` is a median; `kept_mib` what stays for
    learning online (sums and signatures) with the lists; `peak_mib` what was taken meanwhile, on a device of its own.
    """

    algorithm: str
    neighbors: str
    n_factors: int
    n_neighbors: int
    test_rmse: float
    rmse_by_seed: tuple[float, ...]
    seconds: float
    neighbors_s: float = NAN
    kept_mib: float = NAN
    peak_mib: float = NAN
    filled_at_random: float = NAN


@dataclass(frozen=True)
class Finding:
    """What finding neighbors once took; see `Row`."""

    seconds: float
    kept_mib: float
    peak_mib: float
    filled: float


def run(
    train: gpu.Ratings, test: gpu.Ratings, factors: Sequence[int], n_neighbors: int, seeds: Sequence[int], backend: str
) -> Iterator[Row]:
    """Every way at each F with K = `n_neighbors`, the descent without them, then ALS."""
    for n_factors in factors:
        size = {"n_factors": n_factors}
        yield measure(train, test, params_for("sgd", size), seeds, backend)
        for way in WAYS:
            params = params_for("culsh", {**size, **way, "n_neighbors": n_neighbors})
            yield measure(train, test, params, seeds, backend)
    yield measure(train, test, params_for("als", {}), seeds, backend)


def folds(parts: Iterator[tuple[gpu.Ratings, gpu.Ratings]], backend: str) -> Iterator[Row]:
    """The shipped defaults on each (train, test)."""
    for train, test in parts:
        yield measure(train, test, params_for("culsh", {}), (0,), backend)


def measure(train: gpu.Ratings, test: gpu.Ratings, params: gpu.Params, seeds: Sequence[int], backend: str) -> Row:
    """One model, trained once a seed after a training of one epoch, which compiles what is called."""
    chosen = gpu.choose(backend)  # type: ignore[arg-type] # `choose` refuses an unknown name
    say(f"training {params} ({chosen.name})")
    gpu.fit(train, with_changes(params, n_epochs=1), backend=chosen)
    settings = [with_changes(params, seed=seed) for seed in seeds]
    errors, seconds = zip(*(fitted(train, test, setting, chosen) for setting in settings), strict=True)
    found = [finding(train, setting, chosen) for setting in settings if isinstance(setting, CulshParams)]
    return Row(
        params.algorithm, neighbors_of(params), params.width, getattr(params, "n_neighbors", 0),
        statistics.median(errors), errors, statistics.median(seconds), *medians(found),
    )  # fmt: skip


def neighbors_of(params: gpu.Params) -> str:
    """The way to them, with Ψ where there is one."""
    if not isinstance(params, CulshParams):
        return "none"
    return f"simlsh, Ψ = {PSI[params.psi]}" if params.similarity == "simlsh" else params.similarity


def medians(found: Sequence[Finding]) -> tuple[float, ...]:
    """Of each attribute; nothing of nothing."""
    return tuple(map(statistics.median, zip(*map(dataclasses.astuple, found), strict=True)))


def fitted(train: gpu.Ratings, test: gpu.Ratings, params: gpu.Params, backend: gpu.Backend) -> tuple[float, float]:
    """(test RMSE, seconds) of one training."""
    began = time.perf_counter()
    model = gpu.fit(train, params, backend=backend)
    seconds = time.perf_counter() - began
    return gpu.evaluate.rmse(model, train.by_user, *test.coo()), seconds


def finding(train: gpu.Ratings, params: CulshParams, backend: gpu.Backend) -> Finding:
    """Find the neighbors on their own, twice: the time of the one that is measured for memory does not count."""
    peak = peak_mib(lambda: similarity.find(train, params, backend), backend)
    found = similarity.neighbors(train, params, backend)
    n_signature = found.projections.shape[1] // 8 * train.n_items
    kept = (found.neighbors.nbytes + found.projections.nbytes + n_signature) / MIB
    return Finding(found.seconds, kept, peak, found.filled)
