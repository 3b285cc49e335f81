"""The trainer: a process that trains a model on the rating log and writes a snapshot.

It writes `TrainerMessage`s as JSON to stdout for the supervisor that started it (`service.jobs.supervisor`). SIGTERM
ends it between two Python instructions; it then removes its files. Try `python -m service.jobs.trainer --help`.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import gpu
from gpu.base.backend import Backend, BackendName
from gpu.base.errors import naming
from gpu.data.decay import DAY_S
from gpu.data.model import Model
from gpu.data.param_kinds import Values, with_changes
from gpu.online import room
from gpu.repeat.learn import learned as how_items_repeat
from gpu.training import event_weight
from gpu.training import tune as search
from gpu.training.loop import OnEpoch
from gpu.training.trials import changed
from gpu.trend.learn import learned
from service.base import imports, threads, tuning
from service.engine import compilation
from service.jobs import trainer_messages
from service.jobs.content import content_maps_of
from service.jobs.corpus import Corpus, read_corpus, usable
from service.jobs.promotion import change_of_kind, measure, objection, untested
from service.jobs.trainer_messages import Progress, Team, TrainerMessage
from service.settings.event_types import DEFAULT_TYPES, EventTypes, parse_event_types
from service.settings.half_lives import DEFAULT_HALF_LIVES, parse_half_lives
from service.storage.events import StreamId
from service.storage.snapshots import snapshot
from service.telemetry import logs

FAR = "clipped_ratings"  # metric: number of clipped outliers, if any
ORPHANED_S = 5.0  # seconds to end in an orderly way after the supervisor is gone
AGAIN_S = 0.01  # seconds until a cancellation that came at a bad moment is tried again


class Cancelled(BaseException):
    """SIGTERM arrived."""


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """What to train, and how.

    Attributes:
        data: folder with ratings/ and snapshots/.
        algorithm: its name.
        watermark: stream id of the last entry to train on.
        job: name of the work folder of a team, below `data`/work.
        name: under which the model can be live; None: the algorithm.
        params: a JSON object of hyperparameters over the defaults.
        values: the hyperparameter `values` of algorithms that have it, unless `params` has it.
        events: weights of events.
        half_lives: those of trends to choose from, in seconds by name.
        tune: whether to search around `params` first, judged by the held-out pairs (`gpu.training.tune`).
        backend: host, device or auto.
    """

    data: Path
    algorithm: str
    watermark: str
    job: str
    name: str | None = None
    params: str = "{}"
    values: Values = "auto"
    events: EventTypes = field(default_factory=lambda: DEFAULT_TYPES)
    half_lives: Mapping[str, float] = field(default_factory=lambda: DEFAULT_HALF_LIVES)
    tune: bool = False
    backend: BackendName = "auto"


# Forms a team for a training and says what to add to its description; no team: this process trains. Arguments: what to
# train, where, and what hears of lost processes.
FormTeam = Callable[[TrainerOptions, Backend, Callable[[str], None]], tuple[Team | None, str]]


def main(arguments: list[str] | None = None) -> int:
    """Train by the options; exit status 0 if a snapshot was written or the training was cancelled."""
    return run(TrainerOptions(**vars(parser("service.jobs.trainer").parse_args(arguments))))


def parser(program: str) -> argparse.ArgumentParser:
    """What reads `TrainerOptions` from the command line of `program`."""
    parser = argparse.ArgumentParser(prog=program, description=main.__doc__, argument_default=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, required=True, help="folder with ratings/ and snapshots/")
    parser.add_argument("--job", required=True, help="id of the job, for the process list")
    parser.add_argument("--algorithm", required=True)
    parser.add_argument("--name", help="under which the model can be live; default: the algorithm")
    parser.add_argument("--params", help="JSON object of hyperparameters over the defaults")
    parser.add_argument("--values", help="ratings, counts or auto, unless the hyperparameters have it; default: auto")
    parser.add_argument("--events", type=parse_event_types, help="weights of events")
    parser.add_argument("--half-lives", type=parse_half_lives, help="of trends to choose from, as the setting")
    parser.add_argument("--tune", action="store_true", help="search for the hyperparameters that suit the data first")
    parser.add_argument("--watermark", required=True, help="stream id of the last entry to train on")
    parser.add_argument("--backend", help="host, device or auto; default: auto")
    return parser


def run(options: TrainerOptions, form: FormTeam | None = None) -> int:
    """Train as this process; see `train` and `main`."""
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, cancel)
    tuning.limit_blas()
    imports.for_models()
    try:
        last = train(options, trainer_messages.send, form)
    except Cancelled:
        last = TrainerMessage(outcome="cancelled")
    except Exception as error:  # any failure becomes the error of the job
        last = TrainerMessage(outcome="failed", error=f"{type(error).__name__}: {error}")
    trainer_messages.send(last)
    return 1 if last.outcome == "failed" else 0


def train(
    options: TrainerOptions, send: Callable[[TrainerMessage], None], form: FormTeam | None = None
) -> TrainerMessage:
    """Read the log, fit, compare, write a snapshot; return the last message.

    Args:
        options: what to train, and how.
        send: called with a message when a phase begins, after each epoch, and after each training of a search.
        form: forms a team; None: this process trains alone.

    Raises:
        InvalidParams, InvalidRatings, BackendUnavailable, NotEnoughMemory, TrainingDiverged, DeadFactors, CorruptLog:
            the training failed; nothing was written. Memory must suffice for the training and for one more copy of the
            model in the service, so that loading a model there does not fail because of the training.
    """
    requested = msgspec.json.decode(options.params)
    has_values = options.algorithm in gpu.ALGORITHMS and gpu.ALGORITHMS[options.algorithm].params.has_values
    has_kinds = has_values and requested.get("calibration") != "none"  # without calibration there is one kind
    params = gpu.params_for(options.algorithm, ({"values": options.values} if has_kinds else {}) | requested)
    backend = gpu.weighing(params, gpu.choose(options.backend).load())
    team, remark = (None, "") if form is None else form(options, backend, lambda loss: send(TrainerMessage(loss=loss)))
    progress = Progress(send, f"{backend.name}: {backend.reason}{remark}", team, tunes=options.tune)

    progress.begin("read")
    kinds = {"is_implicit": params.is_implicit, "is_ordered": params.is_ordered}
    corpus = read_corpus(options.data, StreamId.parse(options.watermark), options.events, **kinds)
    corpus, n_far = usable(corpus, params)
    are_given = params.values != "auto" or not params.is_calibrated

    trials: list[dict[str, Any]] = []
    progress.begin("tune" if options.tune else "fit")
    params = event_weight.chosen(corpus.training, corpus.held_out, params, backend)
    if options.tune:
        start = params
        params, trials = tuned(corpus, start, backend, progress.searched)
        requested = requested | changed(params, start)
        progress.begin("fit")

    model = fitted(corpus, params, backend, progress.learned, team)
    progress.begin("measure")
    add_priors(model, corpus, backend, options.half_lives)
    content = content_maps_of(model, corpus, backend)
    backend.release()
    metrics = measure(options.data, model, corpus, backend, options.name or options.algorithm)
    metrics |= {FAR: n_far} if n_far else {}
    reason = None if are_given else change_of_kind(options.data, model, options.name or options.algorithm)
    reason = reason or objection(metrics, len(corpus.held_out))
    chosen = (*model.calibration.chosen, *untested(len(corpus.held_out)))
    model.calibration = replace(model.calibration, chosen=chosen)
    compilation.compile_model(options.algorithm, backend, progress.compiling)  # the service then loads the kernels

    progress.begin("write")
    manifest = snapshot.write(
        options.data / "snapshots",
        model,
        corpus.user_ids,
        corpus.item_ids,
        metrics=metrics,
        watermark=options.watermark,
        n_ratings=len(corpus.training),
        given=requested,
        name=options.name,
        content=content,
    )
    return progress.message(
        progress=1.0,
        metrics=metrics,
        outcome="succeeded",
        calibration=manifest.calibration,
        version=manifest.version,
        trials=trials,
        promote=reason is None,
        reason=reason,
    )


def tuned(
    corpus: Corpus, params: gpu.Params, backend: Backend, report: Callable[[float], None]
) -> tuple[gpu.Params, list[dict[str, Any]]]:
    """The best hyperparameters, and a record of each training and then of each step of the search.

    `report` gets the share that is done.
    """
    days = params.half_life_days
    ageless = params if days is None else with_changes(params, half_life_days=None)  # held-out pairs have all ages
    with naming(lambda: (corpus.user_ids, corpus.item_ids)):
        result = search.tune(
            corpus.training,
            corpus.held_out,
            ageless,
            backend=backend,
            times=corpus.times if params.is_ordered else None,
            on_trial=lambda trial, n_done, n_trials: report(n_done / n_trials),
        )
    report(1.0)
    best = result.best if days is None else with_changes(result.best, half_life_days=days)
    records = [trial.record(ageless) for trial in result.trials if math.isfinite(trial.score)]
    return best, [*records, *(step.record(ageless) for step in result.steps if math.isfinite(step.gain))]


def fitted(corpus: Corpus, params: gpu.Params, backend: Backend, on_epoch: OnEpoch, team: Team | None) -> Model:
    """The trained model; training leaves the memory that a service needs to load it."""
    ratings, size = corpus.training, (corpus.training.n_users, corpus.training.n_items)

    def kept(params: gpu.Params) -> int:
        return room.needed_bytes(params, size, size, len(ratings), backend)[backend.name]

    with naming(lambda: (corpus.user_ids, corpus.item_ids)):
        most = gpu.most_factors(backend, 1 if team is None else team.n_ranks)
        selection = gpu.selected(ratings, params, backend, most_factors=most, kept=kept)
        return gpu.fit(
            ratings,
            selection.params,
            backend=replace(backend, kept_bytes=kept(selection.params)),
            on_epoch=on_epoch,
            run=gpu.run_here if team is None else team.run,
            times=corpus.times,
            selection=selection,
        )


def add_priors(model: Model, corpus: Corpus, backend: Backend, half_lives: Mapping[str, float]) -> None:
    """Measure what belongs into the scores of `model` beside taste: what is popular now, and what users had before.

    Its calibration tells it.
    """
    if corpus.times is not None:
        days = [seconds / DAY_S for seconds in half_lives.values()]
        trend = learned(corpus.training, corpus.times, model.params, backend, days)
        model.calibration = replace(model.calibration, trend=trend)
    if corpus.occasions is not None:
        shape = corpus.training.n_users, corpus.training.n_items
        repeat = how_items_repeat(corpus.occasions, shape, model.params, backend)
        model.calibration = replace(model.calibration, repeat=repeat)


def cancel(signal_number: int, frame: FrameType | None) -> None:
    """Raise `Cancelled`, but a moment later if it would come within a finalizer or within llvmlite.

    Python lets no error out of a finalizer, so the training would go on. llvmlite would free its memory twice.
    """
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__", "").startswith("llvmlite."):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
            return
        frame = frame.f_back
    raise Cancelled


def serve_supervisor() -> None:
    """Leave stdout to messages, and end this process when its supervisor is gone."""
    logs.to_stderr_alone()

    def end_with_supervisor() -> None:
        while os.read(sys.stdin.fileno(), 1):  # its end means that the supervisor is gone
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ORPHANED_S)
        os._exit(1)  # a kernel is still running; the next training or forgetting removes our temporary files

    if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):  # not a terminal, which stays open
        threads.helper("orphanage", end_with_supervisor)


if __name__ == "__main__":
    serve_supervisor()
    sys.exit(main())
