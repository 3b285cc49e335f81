"""`python -m benchmarks neighbors`: time and memory of each step of finding neighbors, by similarity.

At the start the ratings are in memory (of the device if it is used), by user and by item. The time of a step ends when
the device has finished it. Times are medians of several runs after one run that compiles the kernels.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import gpu
from benchmarks.report import say
from gpu.params import CulshParams, Psi, Similarity
from gpu.training import similarity, simlsh

NAN = float("nan")


@dataclass(frozen=True)
class Row:
    """Milliseconds of the steps of one similarity; NaN for steps that it does not have.

    `weights_ms` is the time of Ψ with its means, `lists_ms` of the Top-K of all items, and `total_ms` of one call that
    runs all steps. `peak_megabytes` is the peak memory of the device above the ratings.
    """

    similarity: str
    psi: str
    n_bits: int
    n_neighbors: int
    weights_ms: float
    sums_ms: float
    signatures_ms: float
    lists_ms: float
    total_ms: float
    peak_megabytes: float
    filled_at_random: float


class Steps:
    """The steps of one similarity on a backend, timed one by one."""

    def __init__(self, ratings: gpu.Ratings, params: CulshParams, backend: gpu.Backend) -> None:
        self.ratings, self.params, self.backend = ratings, params, backend
        self.lsh = backend.primitives("lsh")
        self._finish = backend.primitives("als").finish

    def run(self) -> dict[str, float]:
        """Milliseconds of each step, and of one call that runs all of them."""
        times_ms: dict[str, float] = {}
        if self.params.similarity in ("simlsh", "rp_cos", "minhash"):
            packed = self._signatures(times_ms)
            counts, keys = self.lsh.items_of(self.ratings)
            inputs = packed, counts, self.params.n_neighbors, self.params.seed, keys
            self._time(times_ms, "lists_ms", lambda: simlsh.top_k(*inputs, backend=self.backend))
        self._time(times_ms, "total_ms", self.find)
        return times_ms

    def find(self) -> similarity.Found:
        """Find the neighbors of all items in one call."""
        return similarity.find(self.ratings, self.params, self.backend)

    def _signatures(self, times_ms: dict[str, float]) -> Any:
        params, words = self.params, simlsh.n_words(self.params)
        if params.similarity == "minhash":
            comparators = self.backend.primitives("similarity")
            return self._time(times_ms, "signatures_ms", lambda: comparators.minhash(self.ratings, words, params.seed))
        weights = self._time(times_ms, "weights_ms", self._weights)
        inputs = self.ratings, weights, words, params.seed, self.backend
        sums = self._time(times_ms, "sums_ms", lambda: simlsh.weighted_sums(*inputs))
        return self._time(times_ms, "signatures_ms", lambda: simlsh.signatures(sums, self.backend))

    def _weights(self) -> Any:
        if self.params.similarity == "rp_cos":
            return self.lsh.cosine_weights(self.ratings)
        baselines = self.lsh.baselines(self.ratings) if self.params.psi == "residual" else None
        return self.lsh.weights(self.ratings, baselines, self.params)

    def _time(self, times_ms: dict[str, float], name: str, step: Callable[[], Any]) -> Any:
        self._finish()
        began = time.perf_counter()
        result = step()
        self._finish()
        times_ms[name] = (time.perf_counter() - began) * 1e3
        return result


def run(ratings: gpu.Ratings, params: CulshParams, backend: gpu.Backend, n_runs: int) -> Iterator[Row]:
    """A row for simLSH with each Ψ, then for each comparator."""
    for name in get_args(Similarity):
        for psi in get_args(Psi) if name == "simlsh" else ("",):
            settings = dataclasses.replace(params, similarity=name, **({"psi": psi} if psi else {}))
            say(f"{name} {psi} of {len(ratings):,} ratings, {ratings.n_users:,} users, {ratings.n_items:,} items")
            yield measure(Steps(ratings, settings, backend), psi, n_runs)


def measure(steps: Steps, psi: str, n_runs: int) -> Row:
    """Measure one similarity."""
    filled = steps.find().filled
    peak_megabytes = NAN
    if steps.backend.name == "device":
        from gpu.device import memory  # noqa: PLC0415 - needs CuPy

        peak_megabytes = memory.taken_by(steps.find) / 1e6
    steps.run()
    runs = [steps.run() for _ in range(n_runs)]
    weights, sums, signatures, lists, total = (
        statistics.median(run.get(f"{name}_ms", NAN) for run in runs)
        for name in ("weights", "sums", "signatures", "lists", "total")
    )
    params = steps.params
    n_bits = 0 if params.similarity in ("gsm", "random") else simlsh.n_words(params) * simlsh.WORD_BITS
    times = weights, sums, signatures, lists, total
    return Row(params.similarity, psi, n_bits, params.n_neighbors, *times, peak_megabytes, filled)
