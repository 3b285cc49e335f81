"""`python -m benchmarks defaults`: quality of the shipped defaults on every set of a data folder; its `table`; `scale`.

Each algorithm's defaults are compared with the best of a fixed grid, with the result of `nearfield tune`, with a
trivial method, and with peers at their defaults and at their best. Settings are chosen on a tenth of the training part.
They are then trained once on all of it and measured on the test part, which is used for nothing else. A peer is fitted
in another interpreter; its data and results pass as files.

Settings of grids are in units of the data, so that one grid fits every scale of values and every density. Values are
divided by `unit` before a setting is trained: ratings by their standard deviation, counts by their mean. The deviation
determines the squared error of a row, and with it the scale of λ and of the learning rate. α weighs a rated pair
against an unrated one and is a multiple of 1 / √density. For pairs that count as ones, the best α that was found is
near 5 if one pair in 25 is rated (MovieLens-1M), and near 40 if one in 1,500 is (Gowalla).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, options
from benchmarks.datasets import SOURCES, Dataset, Fold
from benchmarks.nmf import csr, relative_error
from benchmarks.options import Data, Fits, Names, Sets, Where
from benchmarks.peers import ESTIMATES, FACTORS, LISTS, Facts, Peer, Problem, Settings, child, peers, product, rounded
from benchmarks.results import NONE, Fit, Store, markdown, put, readable, say
from benchmarks.timing import NAN, timed
from gpu.algorithms import params_for, params_of
from gpu.base.errors import EngineError
from gpu.nmf import trainer as nmf
from gpu.nmf.matrix import matrix_of
from gpu.nmf.params import NmfParams
from gpu.training.tune import tune
from service.base.errors import ServiceError
from service.cli.console import progress

STAGES = {"ours": "defaults", "grid": "best", "tune": "tuned"}  # part -> stage of our algorithms
PARTS = (*STAGES, "peers")
MEASURES = {ESTIMATES: "RMSE", LISTS: "NDCG@10, Recall@20", FACTORS: "relative error"}
HEADER = (
    *("set", "measure", "method", "defaults", "best of a grid", "gap"),
    *("found by tune", "chosen among", "settings of the best"),
)
UNITS = (
    "Settings of ours are for values in units of their standard deviation (lists: of their mean). *Gap*: by how much"
    " the defaults are worse than the best. *Chosen among*: settings compared on a tenth of the training part."
)
CHANGES = {"× 1": (1.0, 0.0), "× 1/4": (0.25, 0.0), "× 20": (20.0, 0.0), "− 3": (1.0, -3.0)}  # factor, shift
# Task -> algorithms, in the order of the tables.
ALGORITHMS = {
    ESTIMATES: ("als", "sgd", "culsh", "esgd"),
    LISTS: ("als-implicit", "culsh-implicit", "ease", "neighbors"),
    FACTORS: ("nmf",),
}
RIDGES, STEPS = (0.015, 0.03, 0.06, 0.12, 0.24), (0.01, 0.02, 0.04)  # λ and learning rates of descent
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


def defaults(
    data: Data,
    sets: Sets = None,
    part: Annotated[str, typer.Option(help="Part: ours (with trivial baselines), grid, tune, peers, all.")] = "ours",
    peers_python: Annotated[Path, typer.Option(help="Interpreter with peers.", exists=True)] = Path(sys.executable),
    peer_threads: Annotated[int, typer.Option(help="Threads of a peer.", min=1)] = 1,
    backend: Where = "auto",
    json: Fits = None,
) -> None:
    """Compare the shipped defaults on every set with the best of a fixed grid, a trivial method, and peers."""
    options.check(sets or [], SOURCES, "--set")
    options.check([part], (*PARTS, "all"), "--part")
    store, where, others = Store(json), options.chosen(backend), (peers_python.absolute(), peer_threads)
    for name in datasets.available(data, sets or []):
        dataset = datasets.load(data, name)
        say(f"{name}: {len(dataset.whole.train):,} to train on, {len(dataset.whole.test):,} to test")
        methods = _plan(dataset.task, PARTS if part == "all" else (part,), where, others)
        total = sum(len(stages) + ("best" in stages) * len(method.grid(dataset)) for method, stages in methods)
        with progress(name, total) as bar:
            for method, stages in methods:
                try:
                    for row in fits_of(method, dataset, stages, store):
                        bar.advance(note=method.name)
                        if row.stage != "grid":
                            values = row.note or " ".join(f"{key} {value:.4f}" for key, value in row.metrics.items())
                            say(f"  {method.name}, {row.stage}: {values}  {row.settings}")
                except PeerMissing as error:
                    say(f"  {method.name}: left out. {error}")
    put(defaults_table(store))


def table(
    files: Annotated[list[Path], typer.Argument(help="Files that --json wrote; their rows are merged.", exists=True)],
) -> None:
    """Print the table of `defaults` from files of raw rows, without computing anything."""
    put(defaults_table(Store(*files)))


def scale(data: Data, algorithms: Names = "als,sgd,culsh,esgd", backend: Where = "auto", json: Fits = None) -> None:
    """Test RMSE of the defaults for ratings × 1, × 1/4, × 20 and − 3, in units of the scale, on ml-100k and jester."""
    store, where, names = Store(json), options.chosen(backend), options.algorithms(algorithms)
    for name in datasets.available(data, ["ml-100k", "jester"]):
        dataset = Dataset.of(name, datasets.Fold(*datasets.train_and_test(data / SOURCES[name][1])))
        for algorithm in names:
            say(f"{name}: {algorithm}")
            method = Ours(algorithm, where)
            store.get(method.row(dataset, "scale", {}), functools.partial(_in_units, dataset, method))
    store.put_metrics("scale")


def _in_units(dataset: Dataset, method: Method) -> Fit:
    """The RMSE after each change, divided by its factor: equal if a model does not depend on the scale."""
    blank, errors, notes = method.row(dataset, "scale", {}), dict[str, float](), list[str]()
    for name, (factor, shift) in CHANGES.items():
        row = method.fitted(dataset._replace(whole=dataset.whole.scaled(factor, shift)), blank)
        errors[name] = row.metrics["rmse"] / factor
        notes += [f"{name}: {row.note}"] if row.note else []
    return blank._replace(metrics=errors, note="; ".join(notes))


def _plan(task: str, parts: Sequence[str], backend: gpu.Backend, others: tuple[Path, int]) -> Any:
    """(method, stages to measure) of every method of a task."""
    methods: list[tuple[Method, tuple[str, ...]]] = []
    if "ours" in parts and task != FACTORS:
        methods.append((Trivial(task), ("defaults",)))
    stages = tuple(stage for part, stage in STAGES.items() if part in parts and (part != "tune" or task != FACTORS))
    if stages:
        methods += [(Ours(name, backend), stages) for name in ALGORITHMS[task]]
    if "peers" in parts:
        methods += [(Other(peer, *others), ("defaults", "best")) for peer in peers().values() if peer.task == task]
    return methods


def fits_of(method: Method, dataset: Dataset, stages: Sequence[str], store: Store) -> Iterator[Fit]:
    """The fits of one method: defaults, each setting of its grid, the best of these, and the result of a search.

    A search always runs again, even if the store has its row. Of equally good settings the first is the best.
    """

    def get(stage: str, settings: dict[str, Any]) -> Fit:
        blank = method.row(dataset, stage, settings)
        return store.get(blank, lambda: method.fitted(dataset, blank))

    if "defaults" in stages:
        yield get("defaults", method.defaults(dataset))
    if "best" in stages:
        best: Fit | None = None
        for settings in method.grid(dataset):
            row = get("grid", settings)
            best = row if best is None or is_better(row.task, row.metrics, best.metrics) else best
            yield row
        assert best is not None  # noqa: S101 - a grid has the defaults; narrows the type
        yield get("best", best.settings)
    if "tuned" in stages and isinstance(method, Ours):
        yield store.add(method.tuned(dataset))


def defaults_table(store: Store) -> str:
    """One line for each method on each set: its defaults, and the best of its grid if that was measured."""
    cells = []
    for name in SOURCES:
        of_set = [row for row in store.rows if row.dataset == name and row.stage in (*STAGES.values(), "grid")]
        for method in dict.fromkeys(row.method for row in of_set):
            cells.append(_cells([row for row in of_set if row.method == method]))
    return "\n".join([*store.conditions(), *markdown(HEADER, cells), "", UNITS])


def _cells(rows: Sequence[Fit]) -> list[str]:
    first, newest = rows[0], {row.stage: row for row in rows}
    one, best = newest.get("defaults"), newest.get("best")
    tried = {_named(row.settings): row.note for row in rows if row.stage == "grid"}
    failed = sum(map(bool, tried.values()))
    return [
        first.dataset,
        MEASURES[first.task],
        f"**{first.method}**" if first.kind == Ours.kind else first.method,
        _values(one),
        _values(best),
        _gap(one, best),
        _values(newest.get("tuned")),
        (f"{len(tried)} ({failed} failed)" if failed else str(len(tried))) if best else NONE,
        _named(best.settings) if best else NONE,
    ]


def _values(row: Fit | None) -> str:
    if row is None:
        return NONE
    return row.note[:60] or " ".join(readable(row.metrics[name]) for name in METRICS[row.task])


def _gap(one: Fit | None, best: Fit | None) -> str:
    if one is None or best is None:
        return NONE
    value, goal = (row.metrics[METRICS[one.task][0]] for row in (one, best))
    if math.isnan(value) or math.isnan(goal) or not goal:
        return NONE
    return f"{100 * (1 - value / goal if one.task == LISTS else value / goal - 1):+.2f} %"


def _named(settings: dict[str, Any]) -> str:
    """Settings by name, those of settings within settings too."""
    flat = ({name: value} if not isinstance(value, dict) else value for name, value in settings.items())
    return " ".join(f"{name}={value}" for part in flat for name, value in part.items()) or "the defaults"


def unit_of(task: str, facts: Facts) -> float:
    """The unit by which values are divided before a setting of a grid is trained."""
    return {ESTIMATES: facts.std, LISTS: facts.mean, FACTORS: 1.0}[task]


def geometric(low: float, high: float, n: int) -> list[float]:
    """`n` values from `low` to `high` with a constant ratio, each with two significant digits."""
    return [rounded(value) for value in np.geomspace(low, high, n).tolist()]


def _als_implicit(facts: Facts) -> list[Settings]:
    """λ is a multiple of α, because a larger α also increases the squared error of a row."""
    alphas = [2.0**power / facts.density**0.5 for power in range(-2, 4)]
    return [
        {"alpha": rounded(alpha), "regularization": rounded(share * alpha), "n_epochs": n_epochs}
        for alpha, share, n_epochs in itertools.product(alphas, (0.0015, 0.004, 0.012, 0.03), (8, 16))
    ]


# Algorithm -> the settings to choose from, for values in multiples of `unit`.
GRIDS: dict[str, Callable[[Facts], list[Settings]]] = {
    "als": lambda _: product(regularization=geometric(0.0075, 0.96, 14), n_epochs=(4, 8, 16)),
    "als-implicit": _als_implicit,
    "sgd": lambda _: product(regularization=RIDGES, learning_rate=STEPS, n_epochs=(20, 40, 80)),
    "culsh": lambda _: product(regularization=RIDGES, learning_rate=STEPS, n_epochs=(20, 40, 80)),
    "esgd": lambda _: product(regularization=RIDGES, learning_rate=STEPS, n_epochs=(10, 20, 40)),
    "culsh-implicit": lambda _: product(
        regularization=(0.002, 0.005, 0.01, 0.02, 0.05), learning_rate=(0.04, 0.08, 0.16), n_epochs=(20, 40, 80)
    ),
    "ease": lambda _: product(regularization=geometric(1, 10_000, 40)),
    "neighbors": lambda _: product(
        popularity_exponent=(0.3, 0.5, 0.75, 0.9),
        popularity_prior=(0.0, 5.0, 20.0, 100.0),
        activity_exponent=(0.5, 1.0),
    ),
    "nmf": lambda _: product(start=("random", "nndsvd")),
}


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
        """The defaults and its grid."""
        base = self.defaults(dataset)
        return [base, *({**base, **settings} for settings in GRIDS[self.name](dataset.facts))]

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Fit:
        """See `Method`; the row has all parameters, so that changed defaults make another row."""
        parameters = dataclasses.asdict(params_for(self.name, settings))
        return super().row(dataset, stage, settings)._replace(parameters=parameters)

    def fitted(self, dataset: Dataset, blank: Fit) -> Fit:
        """See `Method`. Errors of the engine and a lack of memory become notes."""
        fold = dataset.inner if blank.stage == "grid" else dataset.whole
        unit = unit_of(dataset.task, dataset.facts) if blank.stage in ("grid", "best") else 1.0
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
        if params.is_nonnegative:
            of_nmf = params_of(NmfParams, settings)
            factors, seconds = timed(lambda: nmf.factorize(matrix_of(fold.train), of_nmf, self._backend))
            return metrics_of(task, fold, {"W": factors.W, "H": factors.H}), seconds
        model, seconds = timed(lambda: gpu.fit(scaled.train, params, backend=self._backend))
        if task == ESTIMATES:
            users, items, _ = scaled.test.coo()
            estimates = gpu.evaluate.predict(model, scaled.train.by_user, users, items)
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
