"""The methods that are fitted to a set: trivial ones, our algorithms, and peers. All are measured by the same code.

A peer is fitted in another interpreter; its data and results pass as files in a temporary folder.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import grids
from benchmarks.datasets import Dataset, Fold
from benchmarks.nmf import csr, relative_error
from benchmarks.peers import ESTIMATES, FACTORS, LISTS, Peer, Problem, Settings, child
from benchmarks.results import Fit
from benchmarks.timing import NAN, timed
from gpu.errors import EngineError
from gpu.params import NmfParams, params_for
from gpu.training import nmf
from gpu.training.nmf_matrix import matrix_of
from gpu.training.tune import tune
from service.base.errors import ServiceError

# Task -> metrics; the first one ranks fits.
METRICS = {ESTIMATES: ("rmse",), LISTS: ("ndcg@10", "recall@20"), FACTORS: ("relative_error",)}
NMF_ITERATIONS = {"n_epochs": 100, "tolerance": 0.0}  # equal to the iterations of `peers.sklearn_nmf`
PRIOR, N_TURNS = 5.0, 8  # of shrunk biases: virtual residuals of 0 in every row; passes over items and users
ROOT = Path(__file__).parents[1]
LIMIT_S = 600.0  # seconds for a fit of a peer, with the start of the interpreter and the reading of the data
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "LK_NUM_THREADS",
    "LK_NUM_BACKEND_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip

Metrics = dict[str, float]
Arrays = dict[str, NDArray[Any]]  # see `peers.Fitted`


class Method:
    """One method: its name in the tables, its kind, and the hardware of its fits."""

    kind = "trivial"

    def __init__(self, name: str, where: str) -> None:
        self.name, self.where = name, where

    def defaults(self, dataset: Dataset) -> Settings:
        """The settings that are passed when its defaults are measured."""
        return {}

    def grid(self, dataset: Dataset) -> list[Settings]:
        """The settings to choose its best from; they include the defaults."""
        return []

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Fit:
        """The row of a fit before it runs: its settings, and NaN as metrics."""
        nothing = dict.fromkeys(METRICS[dataset.task], math.nan)
        return Fit(dataset.name, dataset.task, self.name, self.kind, stage, settings, nothing, NAN, self.where, {})

    def fitted(self, dataset: Dataset, blank: Fit) -> Fit:
        """Fit; returns the row with its metrics, or with the reason of a failure."""
        raise NotImplementedError


class Trivial(Method):
    """Popularity for lists, shrunk biases for estimates: every model should beat them."""

    def __init__(self, task: str) -> None:
        super().__init__("shrunk biases" if task == ESTIMATES else "popularity", "host")

    def fitted(self, dataset: Dataset, blank: Fit) -> Fit:
        """See `Method`."""
        fold = dataset.whole
        is_of_estimates, (users, items, _) = dataset.task == ESTIMATES, fold.test.coo()
        arrays, seconds = timed(
            lambda: shrunk_biases(fold.train, users, items) if is_of_estimates else popularity(fold.train)
        )
        return blank._replace(metrics=metrics_of(dataset.task, fold, arrays), seconds=seconds)


class Ours(Method):
    """One of `gpu.ALGORITHMS`. Settings of a grid are trained on values in the unit of the grid."""

    kind = "ours"

    def __init__(self, algorithm: str, backend: gpu.Backend) -> None:
        super().__init__(algorithm, backend.name if backend.name == "host" else f"device: {backend.reason}")
        self._backend = backend

    def defaults(self, dataset: Dataset) -> Settings:
        """Factorizations get the number of iterations that all methods use; other algorithms get no settings."""
        return dict(NMF_ITERATIONS) if dataset.task == FACTORS else {}

    def grid(self, dataset: Dataset) -> list[Settings]:
        """See `benchmarks.grids`."""
        base = self.defaults(dataset)
        return [base, *({**base, **settings} for settings in grids.GRIDS[self.name](dataset.facts))]

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Fit:
        """See `Method`; the row has all parameters, so that changed defaults make another row."""
        parameters = dataclasses.asdict(params_for(self.name, settings))
        return super().row(dataset, stage, settings)._replace(parameters=parameters)

    def fitted(self, dataset: Dataset, blank: Fit) -> Fit:
        """See `Method`. Errors of the engine and a lack of memory become notes."""
        fold = dataset.inner if blank.stage == "grid" else dataset.whole
        unit = grids.unit(dataset.task, dataset.facts) if blank.stage in ("grid", "best") else 1.0
        try:
            metrics, seconds = self._measured(dataset.task, fold, blank.settings, unit)
        except (EngineError, MemoryError) as error:
            return blank._replace(note=f"{type(error).__name__}: {error}")
        return blank._replace(metrics=metrics, seconds=seconds)

    def tuned(self, dataset: Dataset) -> Fit:
        """The row of the parameters that `gpu.training.tune` finds, by the same split as the grid."""
        defaults, began = params_for(self.name, {}), time.perf_counter()
        try:
            outcome = tune(dataset.inner.train, dataset.inner.test, defaults, backend=self._backend)
        except (EngineError, MemoryError) as error:
            return self.row(dataset, "tuned", {})._replace(note=f"{type(error).__name__}: {error}")
        seconds, default = time.perf_counter() - began, dataclasses.asdict(defaults)
        settings = {name: value for name, value in dataclasses.asdict(outcome.best).items() if default[name] != value}
        return self.fitted(dataset, self.row(dataset, "tuned", settings))._replace(seconds=seconds)

    def _measured(self, task: str, fold: Fold, settings: Settings, unit: float) -> tuple[Metrics, float]:
        params, scaled = params_for(self.name, settings), fold if unit == 1 else fold.scaled(1 / unit)
        if isinstance(params, NmfParams):
            factors, seconds = timed(lambda: nmf.factorize(matrix_of(fold.train), params, self._backend))
            return metrics_of(task, fold, {"W": factors.W, "H": factors.H}), seconds
        model, seconds = timed(lambda: gpu.fit(scaled.train, params, backend=self._backend))
        if task == ESTIMATES:
            users, items, _ = scaled.test.coo()
            estimates = gpu.evaluate.predict(model, scaled.train.by_user, users, items, backend=self._backend)
            return metrics_of(task, fold, {"estimates": estimates * unit}), seconds
        return gpu.evaluate.ranking(model, scaled.train.by_user, scaled.test), seconds


class PeerMissing(ServiceError):
    """The interpreter lacks the library of a peer; the message says how to install it."""


class Other(Method):
    """A model of another library: each fit is a process of `python`, with `n_threads` threads."""

    kind = "peer"

    def __init__(self, peer: Peer, python: Path, n_threads: int) -> None:
        super().__init__(peer.name, f"host, {n_threads} thread{'s' if n_threads > 1 else ''}")
        self._peer, self._python, self._n_threads = peer, python, n_threads

    def defaults(self, dataset: Dataset) -> Settings:
        """See `Method`."""
        return self._peer.default(dataset.facts)

    def grid(self, dataset: Dataset) -> list[Settings]:
        """The defaults and the grid of its module in `benchmarks.peers`."""
        return [self.defaults(dataset), *self._peer.grid(dataset.facts)]

    def fitted(self, dataset: Dataset, blank: Fit) -> Fit:
        """See `Method`. Test values are not handed over, so that no peer can see them. Failed fits become notes.

        Raises:
            PeerMissing: the library is not installed.
        """
        fold = dataset.inner if blank.stage == "grid" else dataset.whole
        users, items, values = fold.train.coo()
        pairs = fold.test.coo()[:2] if dataset.task == ESTIMATES else (users[:0], items[:0])
        with tempfile.TemporaryDirectory(prefix="nearfield-peer-") as name:
            folder = Path(name)
            shape = fold.train.n_users, fold.train.n_items
            np.savez(folder / "problem.npz", **Problem(users, items, values, shape, *pairs)._asdict())
            (folder / "request.json").write_text(json.dumps({"name": blank.method, "settings": blank.settings}))
            if note := self._failure(folder):
                return blank._replace(note=note)
            answer = json.loads((folder / "answer.json").read_text("utf-8"))
            with np.load(folder / "answer.npz") as file:
                metrics = metrics_of(dataset.task, fold, dict(file))
        where = f"{blank.where}; {self._peer.package} {answer['version']}"
        return blank._replace(metrics=metrics, seconds=answer["seconds"], where=where)

    def _failure(self, folder: Path) -> str:
        """Run the fit in `folder`; returns why it has failed, or ""."""
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(self._n_threads))
        command = [str(self._python), "-m", "benchmarks.peers.child", str(folder)]
        try:
            done = subprocess.run(  # noqa: S603
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"over {LIMIT_S:g} s"
        if done.returncode == child.NOT_INSTALLED:
            raise PeerMissing(f"{done.stderr.strip()}; pip install -r benchmarks/peers/requirements.txt")
        return f"exit status {done.returncode}: {done.stderr.strip()[-200:]}" if done.returncode else ""


def metrics_of(task: str, fold: Fold, arrays: Arrays) -> Metrics:
    """The metrics of the arrays of a `peers.Fitted`.

    Estimates, in the order of `test.coo()`, are clipped to the scale of the training ratings. In lists every test pair
    is relevant, and every item without a training rating is ranked.
    """
    if task == ESTIMATES:
        clipped = np.clip(arrays["estimates"].astype(np.float64), *fold.train.scale)
        return {"rmse": float(np.sqrt(np.mean((clipped - fold.test.coo()[2]) ** 2)))}
    if task == FACTORS:
        return {"relative_error": relative_error(csr(fold.train), arrays["W"], arrays["H"])}
    users, items = arrays["user_factors"], arrays["item_factors"]
    params = params_for("sgd", {"n_factors": users.shape[1]})
    model = gpu.Model.zeros(params, 0.0, (-math.inf, math.inf), len(users), len(items))
    model.user_factors[:], model.item_factors[:] = users, items
    return gpu.evaluate.ranking(model, fold.train.by_user, fold.test)


def is_better(task: str, one: Metrics, other: Metrics) -> bool:
    """Whether `one` is better by the task's first metric; NaN is never better."""
    value, rival = one[METRICS[task][0]], other[METRICS[task][0]]
    if math.isnan(rival) or math.isnan(value):
        return math.isnan(rival) and not math.isnan(value)
    return value > rival if task == LISTS else value < rival


def popularity(train: gpu.Ratings) -> Arrays:
    """user_factors (U, 1) and item_factors (I, 1) whose products are the numbers of ratings of items."""
    counts = train.by_item.lengths.astype(np.float32)
    return {"user_factors": np.ones((train.n_users, 1), dtype=np.float32), "item_factors": counts[:, None]}


def shrunk_biases(train: gpu.Ratings, users: NDArray[np.int32], items: NDArray[np.int32]) -> Arrays:
    """Estimates μ + b_u + b_i of each pair (B,); b_i = Σ (r − μ − b_u) / (n + 5), then b_u likewise, eight times."""
    rows, columns, values = train.coo()
    mean = float(values.mean(dtype=np.float64))
    residuals, user_bias, item_bias = values - mean, np.zeros(train.n_users), np.zeros(train.n_items)
    for _ in range(N_TURNS):
        item_bias = np.bincount(columns, residuals - user_bias[rows], train.n_items) / (train.by_item.lengths + PRIOR)
        user_bias = np.bincount(rows, residuals - item_bias[columns], train.n_users) / (train.by_user.lengths + PRIOR)
    return {"estimates": mean + user_bias[users] + item_bias[items]}
