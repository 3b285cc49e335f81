"""The trainer: a process that trains a model on the rating log and writes a snapshot.

It writes `TrainerMessage`s as JSON to stdout, one per epoch and a last one with the outcome, for the supervisor that
started it (`service.jobs.supervisor`). SIGTERM ends it between two Python instructions; it then removes its files. Try
`python -m service.jobs.trainer --help`.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import msgspec

import gpu
from gpu.backend import Backend, BackendName
from gpu.errors import naming
from gpu.model import Model
from gpu.online import room
from gpu.params import Values, with_changes
from gpu.training import tune as search
from gpu.training.loop import OnEpoch
from service import threads, tuning
from service.engine.rehearsal import rehearse_model
from service.event_types import DEFAULT_TYPES, EventTypes, parse_event_types
from service.jobs.cluster_address import ClusterAddress
from service.jobs.content import content_map_of
from service.jobs.corpus import Corpus, decided, read_corpus, usable
from service.jobs.promotion import finite, measure, objection
from service.jobs.ranks import Ranks, ranks_for, remark
from service.jobs.trials import changed, line_of
from service.storage import exclusion, snapshot
from service.storage.events import StreamId
from service.storage.manifest import Manifest, StoredCalibration

FAR = "clipped_ratings"  # metric: number of clipped outliers, if any
TUNING_SHARE = 0.8  # share of the search in the progress of a job that tunes
ORPHANED_S = 5.0  # seconds to end in an orderly way after the supervisor is gone


class TrainerMessage(msgspec.Struct, omit_defaults=True):
    """A message of the trainer to its supervisor.

    Attributes:
        progress: share of the epochs that are done.
        metrics: of the epoch; in the last message, of the held-out pairs.
        backend: whether it trains on the host or the device, and why.
        outcome: only in the last message.
        calibration: only in the last message, the values derived from the data.
        trials: only in the last message, the trainings of a search for parameters.
        ranks: number of processes that train together.
        sent, wait_seconds: what they have exchanged since the last message; see `gpu.traffic.Moved`.
        phase: what begins now; such a message has nothing else.
        loss: why an attempt of several ranks was lost; such a message has nothing else.
        version: the snapshot that was written.
        promote: whether the model is good enough to go live; if not, `reason` has why.
        error: why the training failed.
    """

    progress: float = 0.0
    metrics: dict[str, float] = {}
    backend: str | None = None
    outcome: Literal["succeeded", "failed", "cancelled"] | None = None
    calibration: StoredCalibration | None = None
    trials: list[dict[str, Any]] = []
    ranks: int = 1
    sent: dict[str, int] = {}
    wait_seconds: float = 0.0
    phase: str | None = None
    loss: str | None = None
    version: str | None = None
    promote: bool = False
    reason: str | None = None
    error: str | None = None


class Cancelled(BaseException):
    """SIGTERM arrived."""


def main(arguments: list[str] | None = None) -> int:
    """Train by the options; exit status 0 if a snapshot was written or the training was cancelled."""
    parser = argparse.ArgumentParser(prog="service.jobs.trainer", description=main.__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with ratings/ and snapshots/")
    parser.add_argument("--job", required=True, help="id of the job, for the process list")
    parser.add_argument("--algorithm", required=True)
    parser.add_argument("--name", help="under which the model can be live; default: the algorithm")
    parser.add_argument("--params", default="{}", help="JSON object of hyperparameters over the defaults")
    parser.add_argument("--values", default="auto", help="ratings, counts or auto, unless the hyperparameters have it")
    parser.add_argument("--events", type=parse_event_types, default=DEFAULT_TYPES, help="weights of events")
    parser.add_argument("--tune", action="store_true", help="search for the hyperparameters that suit the data first")
    parser.add_argument("--watermark", required=True, help="stream id of the last entry to train on")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--ranks", type=int, default=1, help="processes that train together, if the algorithm can")
    parser.add_argument("--cluster", type=_cluster, help="JSON of a ClusterAddress; its workers hold the ranks")
    parser.add_argument("--shares-gpu", action="store_true", help="a service answers from the last visible GPU")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _cancel)
    tuning.limit_blas()
    try:
        training = options.algorithm, options.params, options.watermark, options.backend
        last = train(
            options.data,
            *training,
            _send,
            options.values,
            options.events,
            tune=options.tune,
            n_ranks=options.ranks,
            job=options.job,
            cluster=options.cluster,
            shares_gpu=options.shares_gpu,
            name=options.name,
            begin=lambda phase: _send(TrainerMessage(phase=phase)),
        )
    except Cancelled:
        last = TrainerMessage(outcome="cancelled")
    except Exception as error:  # any failure becomes the error of the job
        last = TrainerMessage(outcome="failed", error=f"{type(error).__name__}: {error}")
    _send(last)
    return 1 if last.outcome == "failed" else 0


def train(
    data: Path,
    algorithm: str,
    params: str,
    watermark: str,
    backend: BackendName,
    send: Callable[[TrainerMessage], None],
    values: Values = "auto",
    types: EventTypes = DEFAULT_TYPES,
    *,
    tune: bool = False,
    n_ranks: int = 1,
    job: str = "job",
    cluster: ClusterAddress | None = None,
    shares_gpu: bool = False,
    name: str | None = None,
    begin: Callable[[str], None] = lambda phase: None,
) -> TrainerMessage:
    """Read the log, fit, compare, write a snapshot; return the last message.

    Args:
        data: folder with ratings/ and snapshots/.
        algorithm: its name.
        params: a JSON object of hyperparameters over the defaults.
        watermark: stream id of the last entry to train on.
        backend: host, device or auto.
        send: called with a message after each epoch.
        values: the hyperparameter `values` of algorithms that have it, unless `params` has it.
        types: weights of events.
        tune: whether to search around `params` first, judged by the held-out pairs (`gpu.training.tune`).
        n_ranks: processes that train the model together; one if the algorithm cannot use several.
        job: name of the work folder of several ranks, below `data`/work.
        cluster: whose workers hold the ranks; None: this machine.
        shares_gpu: whether a service answers from the last GPU that this process sees; its rank gets less of the work.
        name: under which the model can be live; None: the algorithm.
        begin: called with the name of each phase that begins; default: nobody is told.

    Raises:
        InvalidParams, InvalidRatings, BackendUnavailable, NotEnoughMemory, TrainingDiverged, DeadFactors, CorruptLog:
            the training failed; nothing was written. Memory must suffice for the training and for one more copy of the
            model in the service, so that loading a model there does not fail because of the training.
    """
    requested = msgspec.json.decode(params)
    hyperparameters = gpu.params_for(algorithm, _with_values(algorithm, requested, values))
    chosen = gpu.weighing(hyperparameters, gpu.choose(backend))
    work = data / exclusion.WORK / job
    ranks = ranks_for(
        algorithm, n_ranks, work, lambda loss: send(TrainerMessage(loss=loss)), cluster, shares_gpu=shares_gpu
    )
    described = f"{chosen.name}: {chosen.reason}{remark(algorithm, n_ranks, chosen)}"

    def where() -> str:
        return described if ranks is None else described + ranks.remark

    begin("read")
    corpus = read_corpus(data, StreamId.parse(watermark), types, is_implicit=hyperparameters.is_implicit)
    hyperparameters = decided(corpus, hyperparameters)
    corpus, n_far = usable(corpus, hyperparameters)

    trials: list[dict[str, Any]] = []
    if tune:
        begin("tune")
        start = hyperparameters
        hyperparameters, trials = _tuned(corpus, start, chosen, lambda share: send(TrainerMessage(share, {}, where())))
        requested = requested | changed(hyperparameters, start)
    tuned_share = TUNING_SHARE if tune else 0.0

    def on_epoch(report: gpu.EpochReport) -> None:
        progress = tuned_share + (1 - tuned_share) * report.epoch / report.n_epochs
        message = TrainerMessage(progress=progress, metrics=finite(report.metrics), backend=where())
        send(message if ranks is None else _of_ranks(message, ranks))

    run = gpu.run_here if ranks is None else ranks.run
    begin("fit")
    model = _fitted(corpus, hyperparameters, _leaving_room(chosen, corpus, hyperparameters), on_epoch, run)
    chosen.release()
    begin("measure")
    metrics = measure(data, model, corpus, chosen, name or algorithm) | ({FAR: n_far} if n_far else {})
    reason = objection(metrics, len(corpus.held_out))
    rehearse_model(algorithm, chosen)  # fill the cache, so that the service need not compile when it loads the model
    begin("write")
    manifest = _written(data, model, corpus, metrics, watermark, requested, name)
    last = TrainerMessage(
        progress=1.0,
        metrics=metrics,
        backend=where(),
        outcome="succeeded",
        calibration=manifest.calibration,
        version=manifest.version,
        trials=trials,
        promote=reason is None,
        reason=reason,
    )
    return last if ranks is None else _of_ranks(last, ranks)


def _of_ranks(message: TrainerMessage, ranks: Ranks) -> TrainerMessage:
    """The message with what is known of several ranks."""
    sent, wait_seconds = ranks.moved()
    return msgspec.structs.replace(message, ranks=ranks.n_ranks, sent=sent, wait_seconds=wait_seconds)


def _tuned(
    corpus: Corpus, params: gpu.Params, backend: Backend, report: Callable[[float], None]
) -> tuple[gpu.Params, list[dict[str, Any]]]:
    """The best hyperparameters, and a record of each training of the search; `report` gets the progress."""
    days = gpu.half_life_of(params)
    ageless = params if days is None else with_changes(params, half_life_days=None)  # held-out pairs have all ages
    with naming(lambda: (corpus.user_ids, corpus.item_ids)):
        result = search.tune(
            corpus.training,
            corpus.held_out,
            ageless,
            backend=backend,
            on_trial=lambda trial, n_done, n_trials: report(TUNING_SHARE * n_done / n_trials),
        )
    best = result.best if days is None else with_changes(result.best, half_life_days=days)
    return best, [line_of(trial, ageless) for trial in result.trials if math.isfinite(trial.score)]


def _leaving_room(backend: Backend, corpus: Corpus, params: gpu.Params) -> Backend:
    """The backend without the memory that a service needs to load the model."""
    size = corpus.training.n_users, corpus.training.n_items
    reserved = room.needed_bytes(params, size, size, len(corpus.training), backend)[backend.name]
    return replace(backend, kept_bytes=reserved)


def _fitted(corpus: Corpus, params: gpu.Params, backend: Backend, on_epoch: OnEpoch, run: gpu.Run) -> Model:
    with naming(lambda: (corpus.user_ids, corpus.item_ids)):
        return gpu.fit(corpus.training, params, backend=backend, on_epoch=on_epoch, run=run, times=corpus.times)


def _written(
    data: Path,
    model: Model,
    corpus: Corpus,
    metrics: dict[str, float],
    watermark: str,
    requested: dict[str, Any],
    name: str | None,
) -> Manifest:
    """Write the snapshot; returns its manifest."""
    return snapshot.write(
        data / "snapshots",
        model,
        corpus.user_ids,
        corpus.item_ids,
        metrics=metrics,
        watermark=watermark,
        n_ratings=len(corpus.training),
        given=requested,
        name=name,
        content=None if corpus.catalog is None else content_map_of(model, corpus.catalog),
        has_events=corpus.has_events,
    )


def _with_values(algorithm: str, requested: dict[str, Any], values: Values) -> dict[str, Any]:
    has_values = algorithm in gpu.ALGORITHMS and hasattr(gpu.ALGORITHMS[algorithm].params, "values")
    return {"values": values} | requested if has_values else requested


def _cluster(text: str) -> ClusterAddress:
    return msgspec.json.decode(text, type=ClusterAddress)


def _cancel(signal_number: int, frame: FrameType | None) -> None:
    raise Cancelled


def _send(message: TrainerMessage) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_supervisor() -> None:
    """Wait for the end of standard input, which means that the supervisor is gone, and end this process."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHANED_S)
    os._exit(1)  # a kernel is still running; the next training or forgetting removes our temporary files


if __name__ == "__main__":
    if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):  # not a terminal, which stays open
        threads.helper("orphanage", _end_with_supervisor)
    sys.exit(main())
