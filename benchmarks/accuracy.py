"""`python -m benchmarks accuracy`: test error and cost of each similarity that finds neighbors ([004] table 7).

Each model is trained once per seed. The seed determines the start, the order of samples, the hashes and the random
neighbors; the split of the data is always the same. CULSH-MF is compared with the same descent without neighbors, and
with ALS at the shipped defaults.
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

    `test_rmse` is the median over the seeds after the last epoch; `rmse_by_seed` has each value. `seconds` is the
    median time of a training with its search of neighbors. `neighbors_s` is the median time of that search alone. It
    leaves `kept_mib` in memory (lists, and sums and signatures for online learning). `peak_mib` is its peak of memory,
    of the device if it runs there. `filled_at_random` is the share of neighbors that were drawn at random.
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
    """Time and memory of one search of neighbors; see `Row`."""

    seconds: float
    kept_mib: float
    peak_mib: float
    filled: float


def run(
    train: gpu.Ratings, test: gpu.Ratings, factors: Sequence[int], n_neighbors: int, seeds: Sequence[int], backend: str
) -> Iterator[Row]:
    """For each F: the descent without neighbors, then `WAYS` with K = `n_neighbors`; at the end ALS."""
    for n_factors in factors:
        size = {"n_factors": n_factors}
        yield measure(train, test, params_for("sgd", size), seeds, backend)
        for way in WAYS:
            params = params_for("culsh", {**size, **way, "n_neighbors": n_neighbors})
            yield measure(train, test, params, seeds, backend)
    yield measure(train, test, params_for("als", {}), seeds, backend)


def folds(parts: Iterator[tuple[gpu.Ratings, gpu.Ratings]], backend: str) -> Iterator[Row]:
    """A row of the shipped defaults for each (train, test)."""
    for train, test in parts:
        yield measure(train, test, params_for("culsh", {}), (0,), backend)


def measure(train: gpu.Ratings, test: gpu.Ratings, params: gpu.Params, seeds: Sequence[int], backend: str) -> Row:
    """Train a model once per seed, after a training of one epoch that compiles the kernels."""
    chosen = gpu.choose(backend)  # type: ignore[arg-type] # `choose` refuses an unknown name
    say(f"training {params} ({chosen.name})")
    gpu.fit(train, with_changes(params, n_epochs=1), backend=chosen)
    settings = [with_changes(params, seed=seed) for seed in seeds]
    errors, seconds = zip(*(fitted(train, test, setting, chosen) for setting in settings), strict=True)
    findings = [finding(train, setting, chosen) for setting in settings if isinstance(setting, CulshParams)]
    return Row(
        params.algorithm, neighbors_of(params), params.width, getattr(params, "n_neighbors", 0),
        statistics.median(errors), errors, statistics.median(seconds), *medians(findings),
    )  # fmt: skip


def neighbors_of(params: gpu.Params) -> str:
    """Name of the similarity, with Ψ if it has one; "none" for models without neighbors."""
    if not isinstance(params, CulshParams):
        return "none"
    return f"simlsh, Ψ = {PSI[params.psi]}" if params.similarity == "simlsh" else params.similarity


def medians(findings: Sequence[Finding]) -> tuple[float, ...]:
    """Median of each attribute, in their order; () without findings."""
    return tuple(map(statistics.median, zip(*map(dataclasses.astuple, findings), strict=True)))


def fitted(train: gpu.Ratings, test: gpu.Ratings, params: gpu.Params, backend: gpu.Backend) -> tuple[float, float]:
    """(test RMSE, seconds) of one training."""
    began = time.perf_counter()
    model = gpu.fit(train, params, backend=backend)
    seconds = time.perf_counter() - began
    return gpu.evaluate.rmse(model, train.by_user, *test.coo()), seconds


def finding(train: gpu.Ratings, params: CulshParams, backend: gpu.Backend) -> Finding:
    """Find the neighbors alone, once to measure memory and once to measure time."""
    peak = peak_mib(lambda: similarity.find(train, params, backend), backend)
    search = similarity.neighbors(train, params, backend)
    signature_bytes = search.projections.shape[1] // 8 * train.n_items
    kept = (search.neighbors.nbytes + search.projections.nbytes + signature_bytes) / MIB
    return Finding(search.seconds, kept, peak, search.filled)
