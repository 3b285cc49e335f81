"""The trainer: its own process, from the rating log to a snapshot. `python -m service.jobs.trainer --help`.

It writes `TrainerMessage`s as JSON to stdout, one per epoch and a last one with the outcome, for the supervisor that
started it (`service.jobs.supervisor`). SIGTERM ends it between two instructions and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.backend import Backend, BackendName
from gpu.errors import naming
from gpu.model import Model
from gpu.online import room
from gpu.params import Values
from gpu.ratings import Rows
from gpu.training import tune as search
from gpu.training.loop import OnEpoch
from service import threads, tuning
from service.engine.rehearsal import rehearse_model
from service.errors import CorruptSnapshot, UnknownVersion
from service.jobs.corpus import Corpus, read_corpus, usable
from service.jobs.trials import changed, line_of
from service.storage import live_versions, snapshot
from service.storage.events import StreamId
from service.storage.manifest import StoredCalibration

MIN_HELD_OUT = 1000  # fewer pairs than this cannot tell two models apart
MARGIN = 0.01  # a candidate may be this much worse than the live snapshot and still go live
RMSE, NDCG = "rmse", "ndcg@10"
FAR = "clipped_ratings"  # how many ratings were taken for the nearest that is not absurd, where some were
TUNING_SHARE = 0.8  # of the progress of a job that tunes
ORPHANED_S = 5.0  # what is left to end by itself once the supervisor is gone
BASELINES = {RMSE: "averages of users and items", NDCG: "the most popular items"}


class TrainerMessage(msgspec.Struct, omit_defaults=True):
    """What the trainer tells its supervisor.

    Attributes:
        progress: share of the epochs that are done.
        metrics: of the epoch; in the last line of the held-out pairs.
        backend: where it trains, and why there.
        outcome: only in the last line.
        calibration: only in the last line, what was taken from the data.
        trials: only in the last line, the trainings of the search where there was one.
        version: the snapshot that was written.
        promote: whether it is good enough to go live, and `reason` why not.
        error: why the training failed.
    """

    progress: float = 0.0
    metrics: dict[str, float] = {}
    backend: str | None = None
    outcome: Literal["succeeded", "failed", "cancelled"] | None = None
    calibration: StoredCalibration | None = None
    trials: list[dict[str, Any]] = []
    version: str | None = None
    promote: bool = False
    reason: str | None = None
    error: str | None = None


class Cancelled(BaseException):
    """SIGTERM arrived."""


def main(arguments: list[str] | None = None) -> int:
    """Train as told on the command line; 0 if a snapshot was written or the training was cancelled."""
    parser = argparse.ArgumentParser(prog="service.jobs.trainer", description=main.__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with ratings/ and snapshots/")
    parser.add_argument("--job", required=True, help="id of the job, for the process list")
    parser.add_argument("--algorithm", required=True)
    parser.add_argument("--params", default="{}", help="JSON object of hyperparameters over the defaults")
    parser.add_argument("--values", default="auto", help="what is rated, where the hyperparameters do not say")
    parser.add_argument("--tune", action="store_true", help="search for the hyperparameters that suit the data first")
    parser.add_argument("--watermark", required=True, help="stream id of the last entry to train on")
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _cancel)
    tuning.limit_blas()
    try:
        asked = options.algorithm, options.params, options.watermark, options.backend
        last = train(options.data, *asked, _tell, options.values, tune=options.tune)
    except Cancelled:
        last = TrainerMessage(outcome="cancelled")
    except Exception as error:  # whatever went wrong is the job's error
        last = TrainerMessage(outcome="failed", error=f"{type(error).__name__}: {error}")
    _tell(last)
    return 1 if last.outcome == "failed" else 0


def train(
    data: Path,
    algorithm: str,
    params: str,
    watermark: str,
    backend: BackendName,
    tell: Callable[[TrainerMessage], None],
    values: Values = "auto",
    *,
    tune: bool = False,
) -> TrainerMessage:
    """Read, fit, compare, write; the last line.

    Args:
        data: folder with ratings/ and snapshots/.
        algorithm, params: what to train; `params` are a JSON object of hyperparameters over the defaults.
        watermark: stream id of the last entry to train on.
        backend: where.
        tell: called with a line after each epoch.
        values: hyperparameter of algorithms that have it, unless `params` gives it.
        tune: whether to search around `params` first, judged by the held-out pairs (`gpu.training.tune`).

    Raises:
        InvalidParams, InvalidRatings, BackendUnavailable, NotEnoughMemory, TrainingDiverged, DeadFactors, CorruptLog:
            the training failed; nothing was written. Memory has to suffice for the training and, beside it, for the
            model in the service: one that is just being taken in must not fail for it.
    """
    chosen = gpu.choose(backend)
    where = f"{chosen.name}: {chosen.reason}"
    given = msgspec.json.decode(params)
    hyperparameters = gpu.params_for(algorithm, _with_values(algorithm, given, values))
    corpus, n_far = usable(read_corpus(data, StreamId.parse(watermark)), hyperparameters)

    trials: list[dict[str, Any]] = []
    if tune:
        asked = hyperparameters
        hyperparameters, trials = _tuned(corpus, asked, chosen, lambda share: tell(TrainerMessage(share, {}, where)))
        given = given | changed(hyperparameters, asked)
    begun = TUNING_SHARE if tune else 0.0

    def on_epoch(report: gpu.EpochReport) -> None:
        progress = begun + (1 - begun) * report.epoch / report.n_epochs
        tell(TrainerMessage(progress=progress, metrics=_finite(report.metrics), backend=where))

    size = corpus.training.n_users, corpus.training.n_items
    kept = room.needed_bytes(hyperparameters, size, size, len(corpus.training), chosen)[chosen.name]
    model = _fitted(corpus, hyperparameters, replace(chosen, kept_bytes=kept), on_epoch)
    chosen.release()
    metrics = measure(data, model, corpus, chosen) | ({FAR: n_far} if n_far else {})
    reason = objection(metrics, len(corpus.held_out))
    rehearse_model(algorithm)  # the service finds these kernels in the compile cache when it takes the model in
    manifest = snapshot.write(
        data / "snapshots",
        model,
        corpus.user_ids,
        corpus.item_ids,
        metrics=metrics,
        watermark=watermark,
        n_ratings=len(corpus.training),
        given=given,
    )
    return TrainerMessage(
        progress=1.0,
        metrics=metrics,
        backend=where,
        outcome="succeeded",
        calibration=manifest.calibration,
        version=manifest.version,
        trials=trials,
        promote=reason is None,
        reason=reason,
    )


def _tuned(
    corpus: Corpus, params: gpu.Params, backend: Backend, tell: Callable[[float], None]
) -> tuple[gpu.Params, list[dict[str, Any]]]:
    """What suits the data best, and a line for each training of the search; `tell` hears how far it is."""
    with naming(lambda: (corpus.user_ids, corpus.item_ids)):
        found = search.tune(
            corpus.training,
            corpus.held_out,
            params,
            backend=backend,
            on_trial=lambda trial, n_done, n_trials: tell(TUNING_SHARE * n_done / n_trials),
        )
    return found.best, [line_of(trial, params) for trial in found.trials if math.isfinite(trial.score)]


def _fitted(corpus: Corpus, params: gpu.Params, backend: Backend, on_epoch: OnEpoch) -> Model:
    with naming(lambda: (corpus.user_ids, corpus.item_ids)):
        return gpu.fit(corpus.training, params, backend=backend, on_epoch=on_epoch)


def measure(data: Path, model: Model, corpus: Corpus, backend: Backend) -> dict[str, float]:
    """What counts on the held-out pairs: RMSE, or NDCG@10 of implicit models; empty if there are no such pairs.

    Beside it, as `baseline_…` that of a model without factors (`gpu.evaluate.baseline`), and as `live_…` that of the
    live snapshot of the same name, not of its online state. All of them are judged by what `model` takes for a dislike.
    """
    if not len(corpus.held_out):
        return {}
    metrics = _measured(model, corpus, backend, model.middle)
    others = {"baseline": gpu.evaluate.baseline(corpus.training, is_implicit=model.is_implicit)}
    if (live_model := _live_model(data, model, corpus)) is not None:
        others["live"] = live_model
    for of, other in others.items():
        name, value = next(iter(_measured(other, corpus, backend, model.middle).items()))
        metrics[f"{of}_{name}"] = value
    return _finite(metrics)


def _measured(model: Model, corpus: Corpus, backend: Backend, middle: float) -> dict[str, float]:
    """What counts comes first."""
    rows: Rows = corpus.training.by_user
    if model.is_implicit:
        return gpu.evaluate.ranking(model, rows, corpus.held_out, middle, backend=backend)
    return {RMSE: gpu.evaluate.rmse(model, rows, *corpus.held_out.coo(), backend=backend)}


def objection(metrics: Mapping[str, float], n_held_out: int) -> str | None:
    """Why a model with these metrics should not go live; None if nothing speaks against it.

    It must beat the baseline, and be at most `MARGIN` worse than the live snapshot.
    """
    name, sign = (NDCG, -1) if NDCG in metrics else (RMSE, 1)
    if n_held_out < MIN_HELD_OUT or name not in metrics:
        return None
    ours, baseline, live_one = (metrics.get(key) for key in (name, f"baseline_{name}", f"live_{name}"))
    assert ours is not None  # noqa: S101 - asked above; this narrows the type
    found = f"{name} on {n_held_out:,} held-out pairs is {ours:.4f}"
    if baseline is not None and sign * ours >= sign * baseline:
        return f"{found}, no better than {BASELINES[name]} ({baseline:.4f})"
    if live_one is not None and sign * ours > sign * live_one + MARGIN * live_one:
        return f"{found}, of the live snapshot {live_one:.4f}"
    return None


def _with_values(algorithm: str, given: dict[str, Any], values: Values) -> dict[str, Any]:
    has_values = algorithm in gpu.ALGORITHMS and hasattr(gpu.ALGORITHMS[algorithm].params, "values")
    return {"values": values} | given if has_values else given


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """What could be measured: JSON has no other numbers."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _live_model(data: Path, model: Model, corpus: Corpus) -> Model | None:
    """The live snapshot of the same name in the rows of `corpus`; None if there is none that can be read."""
    version = live_versions.read(data).get(model.params.algorithm)
    if version is None:
        return None
    try:
        found = snapshot.load(data / "snapshots", version)
    except (UnknownVersion, CorruptSnapshot):
        return None  # nothing to lose by replacing it
    user_rows = _rows(found.user_ids, corpus.user_ids)
    return found.model.mapped(user_rows, _rows(found.item_ids, corpus.item_ids), model.n_users, model.n_items)


def _rows(ids: Iterable[str], target_ids: list[str]) -> NDArray[np.int64]:
    row_of = {identifier: row for row, identifier in enumerate(target_ids)}
    return np.array([row_of.get(identifier, -1) for identifier in ids], dtype=np.int64)


def _cancel(signal_number: int, frame: FrameType | None) -> None:
    raise Cancelled


def _tell(line: TrainerMessage) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_supervisor() -> None:
    """Wait until nobody holds the other end of standard input any more: the supervisor is gone, and the job with it."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHANED_S)
    os._exit(1)  # a kernel that does not end: the next training or forgetting removes what is half written


if __name__ == "__main__":
    if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):  # a person's terminal says nothing
        threads.helper("orphanage", _end_with_supervisor)
    sys.exit(main())
