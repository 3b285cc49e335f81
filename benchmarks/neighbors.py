"""`python -m benchmarks neighbors`: what finding neighbors costs, step by step, by each similarity.

Times begin where the ratings lie in memory, on a device in the device's, by user and by item; each step ends with
waiting for it. Medians of several runs; a run before them compiles.
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
    """Milliseconds of one similarity; NaN where it has no such step.

    `weights_ms` is Ψ with the means inside it, `lists_ms` the Top-K of all items, `total_ms` all of it in one go.
    `peak_megabytes` is the peak of the device's memory in addition to the ratings.
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
        """Milliseconds of each step and of all in one go."""
        found: dict[str, float] = {}
        if self.params.similarity in ("simlsh", "rp_cos", "minhash"):
            packed = self._signatures(found)
            counts, keys = self.lsh.items_of(self.ratings)
            given = packed, counts, self.params.n_neighbors, self.params.seed, keys
            self._time(found, "lists_ms", lambda: simlsh.top_k(*given, backend=self.backend))
        self._time(found, "total_ms", self.find)
        return found

    def find(self) -> similarity.Found:
        """All of it."""
        return similarity.find(self.ratings, self.params, self.backend)

    def _signatures(self, found: dict[str, float]) -> Any:
        params, words = self.params, simlsh.n_words(self.params)
        if params.similarity == "minhash":
            comparators = self.backend.primitives("similarity")
            return self._time(found, "signatures_ms", lambda: comparators.minhash(self.ratings, words, params.seed))
        weights = self._time(found, "weights_ms", self._weights)
        given = self.ratings, weights, words, params.seed, self.backend
        sums = self._time(found, "sums_ms", lambda: simlsh.weighted_sums(*given))
        return self._time(found, "signatures_ms", lambda: simlsh.signatures(sums, self.backend))

    def _weights(self) -> Any:
        if self.params.similarity == "rp_cos":
            return self.lsh.cosine_weights(self.ratings)
        known = self.lsh.baselines(self.ratings) if self.params.psi == "residual" else None
        return self.lsh.weights(self.ratings, known, self.params)

    def _time(self, found: dict[str, float], name: str, step: Callable[[], Any]) -> Any:
        self._finish()
        began = time.perf_counter()
        result = step()
        self._finish()
        found[name] = (time.perf_counter() - began) * 1e3
        return result


def run(ratings: gpu.Ratings, params: CulshParams, backend: gpu.Backend, n_runs: int) -> Iterator[Row]:
    """By simLSH with both Ψ, then by the comparators."""
    for name in get_args(Similarity):
        for psi in get_args(Psi) if name == "simlsh" else ("",):
            own = dataclasses.replace(params, similarity=name, **({"psi": psi} if psi else {}))
            say(f"{name} {psi} of {len(ratings):,} ratings, {ratings.n_users:,} users, {ratings.n_items:,} items")
            yield measure(Steps(ratings, own, backend), psi, n_runs)


def measure(steps: Steps, psi: str, n_runs: int) -> Row:
    """One similarity."""
    filled = steps.find().filled
    taken = NAN
    if steps.backend.name == "device":
        from gpu.device import memory  # noqa: PLC0415 - needs CuPy

        taken = memory.taken_by(steps.find) / 1e6
    steps.run()
    runs = [steps.run() for _ in range(n_runs)]
    weights, sums, signatures, lists, total = (
        statistics.median(run.get(f"{name}_ms", NAN) for run in runs)
        for name in ("weights", "sums", "signatures", "lists", "total")
    )
    params = steps.params
    n_bits = 0 if params.similarity in ("gsm", "random") else simlsh.n_words(params) * simlsh.WORD_BITS
    times = weights, sums, signatures, lists, total
    return Row(params.similarity, psi, n_bits, params.n_neighbors, *times, taken, filled)
