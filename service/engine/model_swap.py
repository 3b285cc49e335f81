"""`HotSwap`: the thread that makes the engine answer with the versions in `live.json`.

It compiles kernels, loads snapshots, swaps models in and ends those that the file has no longer. Work that touches the
history or learns runs as slices on the engine thread; the long work, such as reading files and moving arrays, does not.
A model goes live only when it has learned every entry of the history, so `as_of` never goes back. On any failure the
old model stays; at a start the newest older version that can be read answers instead. `LoadFailures` has the reason.
Only a lost device ends the service.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from gpu.algorithms import ALGORITHMS, params_for
from gpu.base.backend import HOST, Backend
from gpu.data.decay import weighing
from gpu.data.memory import check_room
from gpu.online import ReadyModel, prepare_online, rehearse, room
from gpu.ranking import item_index
from service.base.errors import NotReady, ServiceError
from service.base.threads import PartThread
from service.engine import compilation
from service.engine.background import Slices
from service.engine.engine import Engine
from service.engine.load_failures import LoadFailures
from service.engine.models import model_info
from service.engine.models.live_model import LiveModel, rows_of
from service.engine.readiness import MODELS
from service.storage.errors import CorruptLiveFile, CorruptSnapshot
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot, version_names
from service.storage.snapshots.live_versions import Live
from service.storage.snapshots.manifest import Manifest
from service.storage.snapshots.snapshot import Snapshot
from service.telemetry import traces
from service.telemetry.metrics import Metrics
from service.telemetry.trace_context import Trace

POLL_S = 1.0  # seconds between two looks at `live.json`
START_POLL_S = 0.02  # seconds between two looks whether the stream has been read
END_S, END_POLL_S = 2.0, 0.01  # seconds that `end` waits for the thread, and between two looks
CATCH_UP_S = 10.0  # seconds; longest wait for a model's refits before it goes live: a heavy stream never lets them end

_log = structlog.get_logger(__name__)


class HotSwap:
    """Follows `live.json`; also lists snapshots, activates one and ends a model on request.

    Attributes:
        failures: the versions that could not be loaded, and why.
        cause: the span of the training of a version; None if it is not known.
    """

    def __init__(self, data: Path, engine: Engine, metrics: Metrics) -> None:
        """Prepare; `start` starts the thread."""
        self._data, self._folder = data, data / "snapshots"
        self._engine, self._metrics, self._log = engine, metrics, RatingLog(data / "ratings")
        self.failures = LoadFailures(data, metrics)
        self.cause: Callable[[str], Trace | None] = lambda version: None
        self._live: Live | None = None  # what `live.json` had when it was read last; None if it was corrupt
        self._file_state: object = ()  # of `live.json` at that time
        self._listed: frozenset[str] = frozenset()  # names in `live.json` at the last `step`
        self._compiled: set[tuple[str, Backend]] = set()  # algorithms and backends whose kernels are loaded
        # Of the start only, by version: the manifests of those that are verified, and the first one in memory.
        self._verified: dict[str, Manifest] = {}
        self._read_ahead: dict[str, Snapshot] = {}
        self._poked, self._stopping = threading.Event(), threading.Event()
        self._thread = PartThread("hotswap", self._run, engine.fail)

    def start(self) -> None:
        """Start to follow `live.json`."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a swap in progress is given up when the engine has stopped."""
        self.failures.end()
        self._stopping.set()
        self.poke()
        self._thread.join()

    # --- from any thread

    def served(self) -> dict[str, str]:
        """Name to version of the models that learn in this process; all but the shadows answer."""
        return {live_model.name: live_model.version for live_model in self._engine.models()}

    def models(self) -> list[model_info.ModelInfo]:
        """Every snapshot on disk, by name, the newest first."""
        return [self._info(version) for version in snapshot.versions(self._folder)]

    def activate(self, version: str) -> model_info.ModelInfo:
        """Make `version` live under its name, without comparing it with the live one. Verifies its files first.

        Returns before the swap; `ModelInfo.live` is true when this process answers with it.

        Raises:
            UnknownVersion: there is no such snapshot.
            CorruptSnapshot: it is torn or altered; nothing has changed.
            CorruptLiveFile, LockTimeout: `live.json` cannot be changed.
        """
        version = snapshot.verify_latest(self._folder, version)
        live_versions.activate(self._data, version_names.name_of(version), version)
        self.failures.try_again(version)
        self.poke()
        return self._info(version)

    def end(self, name: str) -> None:
        """Make no version live under `name`; its snapshots stay.

        Returns when it does not answer in this process any more, or after `END_S` if this thread is loading a model.

        Raises:
            UnknownModel: none is live.
            CorruptLiveFile, LockTimeout: `live.json` cannot be changed.
        """
        live_versions.end(self._data, name)
        self.poke()
        until_s = time.monotonic() + END_S
        while name in self.served() and time.monotonic() < until_s:
            time.sleep(END_POLL_S)

    def poke(self) -> None:
        """Make the thread look at `live.json` now."""
        self._poked.set()

    def _info(self, version: str) -> model_info.ModelInfo:
        served, shadows = self.served(), self._engine.live.shadows
        return model_info.describe(self._folder, version, served, shadows, self.failures.reason_of(version))

    # --- the thread

    def _run(self) -> None:
        try:
            self.compile()
            while not self._stopping.is_set():
                if not self._engine.stages.is_done("stream"):  # after the replay, so that its refits are done once
                    self._stopping.wait(START_POLL_S)
                    continue
                self.step()
                self._verified.clear()
                self._read_ahead.clear()
                self._engine.stages.report(MODELS)
                self._engine.live.expected = frozenset()
                self._poked.wait(POLL_S)
                self._poked.clear()
        except NotReady:
            _log.info("hot swap ends with the engine")

    def compile(self) -> None:
        """Compile the kernels of the live models and verify their files, while the log is being read.

        The first model then waits in memory: its arrays take no more than mapping it will take later. No failure counts
        here: to load the model will fail the same way, and name it.
        """
        compilation.check_cache()
        engine, stages, live = self._engine, self._engine.stages, self._read()
        versions = {} if live is None else live.versions
        engine.live.expected = frozenset(versions.keys() - engine.live.shadows)

        def compile_kernels() -> None:  # half of the stage; the other half is reading snapshots and refitting users
            try:
                places = {model_info.place_of(self._folder, *one, engine.backend) for one in versions.items()}
                self._compile_kernels(places, lambda share, note: stages.report(MODELS, share / 2, note))
            except Exception as error:
                _log.error("kernels cannot be compiled", error=str(error), kind=type(error).__name__)
            stages.report(MODELS, 0.5, f"loading the models {', '.join(versions)}")

        with ThreadPoolExecutor(1, "kernels") as pool:
            compiling = pool.submit(compile_kernels)
            for version in versions.values():
                if self._stopping.is_set() or stages.is_done("stream"):
                    break
                try:
                    with self.failures.attempt(version):
                        loaded = snapshot.load(self._folder, version)
                        model, self._verified[version] = loaded.model, loaded.manifest
                        self._read_ahead = self._read_ahead or {version: loaded}
                        del loaded
                        # The kernels of a device depend on the size of a model, and take up to 15 seconds.
                        item_index.prepare(model.params.width, weighing(model.params, engine.backend))
                    compiling.result()  # a rehearsal calls kernels of the host
                    with self.failures.attempt(version):
                        rehearse(model, engine.backend)
                except ServiceError:
                    continue
                except Exception as error:
                    _log.error("kernels cannot be compiled", error=str(error), kind=type(error).__name__)

    def step(self) -> None:
        """Remove the models that `live.json` has no longer; load every version in it that does not answer yet.

        A version waits for the entries that it was trained on. A version that failed is not tried again, unless memory
        was short and no other version of its name answers: another process, such as a training, may have freed memory
        meanwhile.
        """
        if (live := self._read()) is None:
            return
        self.failures.wanted = live.versions.values()
        # A file that is gone ends none: somebody repairs it.
        ended = self._listed - live.versions.keys() if live.is_written else frozenset()
        self._listed = frozenset(live.versions)
        for name in ended & self.served().keys():
            self._engine.run_slices(self._removing(name)).result()
            self._show_live()
            self._engine.backend.release()
            _log.info("model has ended", model=name)
        for name, version in live.versions.items():
            served = self.served().get(name)
            if served == version or not self.failures.is_due(version, has_other=served is not None):
                continue
            self._replace(name, version)
            if self.failures.lacks_room(version):
                continue
            # An old model is better than none: the newest usable one before `version`, or of all if that is gone.
            # Every answer names its version, and `live.json` is not changed.
            versions = snapshot.versions(self._folder, name)
            for older in versions[versions.index(version) + 1 if version in versions else 0 :]:
                if name in self.served():
                    break
                self._replace(name, older)

    def _is_ahead(self, version: str) -> bool:
        """Whether `version` was trained on entries of the log that this process has yet to learn.

        A worker elsewhere may read faster, for example if the link to Redis fails here. Without them the history has
        no rows for what the version knows of their users and items, and would lose it for good.
        """
        try:
            watermark = StreamId.parse(snapshot.read_manifest(self._folder, version).watermark)
            return self._engine.as_of < watermark <= self._log.last_id()  # else it is not from this log
        except (ServiceError, OSError):  # as to load it will tell
            return False

    def load(self, name: str, version: str) -> Snapshot:
        """Read a version that should be live under `name`.

        Raises:
            NotEnoughMemory: it does not fit beside the models that answer, on the host or on the device; the message
                has the needed and the free bytes.
            CorruptSnapshot: it is torn or altered, or a model of another algorithm than `live.json` says.
            UnknownVersion: it is gone.
        """
        manifest = snapshot.read_manifest(self._folder, version)
        params = params_for(manifest.algorithm, manifest.parameters)
        backend = weighing(params, self._engine.backend)
        table = self._engine.history.table_of(has_strengths=params.is_implicit)
        trained, present = (manifest.n_users, manifest.n_items), (table.n_users, table.n_items)
        loaded = self._read_ahead.pop(version, None)
        needed = room.needed_bytes(params, trained, present, table.n_ratings, backend)
        if loaded is not None:
            needed[HOST.name] -= loaded.model.n_bytes
        for place, n_bytes in needed.items():
            what = f"{version} in addition to the models that answer ({place})"
            check_room(what, n_bytes, HOST if place == HOST.name else backend)
        loaded = loaded or snapshot.load(self._folder, version, self._verified.get(version))
        if name in ALGORITHMS and loaded.manifest.algorithm != name:
            raise CorruptSnapshot(f"snapshot {version}: expected a model of {name}, as live.json says")
        return loaded

    def swap(self, loaded: Snapshot) -> None:
        """Map a snapshot to the rows of the history, let it catch up, and make it live in place of its predecessor."""
        engine, history = self._engine, self._engine.history
        table = history.table_of(has_strengths=loaded.model.is_implicit)
        backend = weighing(loaded.model.params, engine.backend)
        item_index.prepare(loaded.model.params.width, backend)
        self._compile_kernels([(loaded.manifest.algorithm, backend)], lambda share, note: None)
        is_live = False
        while not is_live:  # again if a user is forgotten meanwhile
            n_forgotten = engine.n_forgotten
            user_rows, item_rows = engine.run_slices(rows_of(loaded, history)).result()
            model = loaded.model.mapped(user_rows, item_rows, table.n_users, table.n_items)
            # Not on the engine thread: it takes long, and the first time a device compiles for seconds.
            ready = prepare_online(model, table, history.users.keys, history.items.keys, backend)
            is_live = engine.run_slices(self._installing(loaded, ready, n_forgotten)).result()

    def _read(self) -> Live | None:
        """What `live.json` has; None, and an obstacle, if it is torn or altered. Shadows follow it at once."""
        state = live_versions.state_of(self._data)  # of the time before it is read
        if self._live is None or state != self._file_state:
            try:
                self._live = live_versions.read_all(self._data)
            except CorruptLiveFile as error:
                if self._live is not None or state != self._file_state:  # log it once
                    _log.error("no model is loaded; without one popular items answer", error=str(error))
                self._live = None
                self._engine.stages.obstruct(MODELS, str(error))
            else:
                self._engine.stages.clear(MODELS)
            self._file_state = state
        if self._live is not None and self._live.shadows != self._engine.live.shadows:
            self._engine.live.shadows = self._live.shadows
            self._show_live()
        return self._live

    def _compile_kernels(self, places: Collection[tuple[str, Backend]], on_progress: compilation.OnProgress) -> None:
        """Compile the kernels of (algorithm, backend where it learns), once per process: models of both share them."""
        missing = {place for place in places if place[0] in ALGORITHMS} - self._compiled
        backends = {backend for _, backend in missing}
        for n, backend in enumerate(sorted(backends, key=lambda one: one.name)):

            def report(share: float, note: str, n_done: int = n) -> None:
                on_progress((n_done + share) / len(backends), note)

            algorithms = sorted(algorithm for algorithm, own in missing if own == backend)
            compilation.prepare(algorithms, backend, report, self._stopping.is_set)
        self._compiled |= missing

    def _replace(self, name: str, version: str) -> None:
        """Load a version and swap it in, unless it is ahead; on a failure keep what answers, and the reason."""
        if self._is_ahead(version):
            return
        started_s = time.monotonic()
        failure: Exception | None = None
        try:
            with self.failures.attempt(version):
                self.swap(self.load(name, version))
        except NotReady:
            raise
        except Exception as error:
            failure = error
        seconds = time.monotonic() - started_s
        if (tracer := traces.active()) is not None:
            # At the start of the service no training is the cause.
            cause = self.cause(version) if self._engine.stages.is_done(MODELS) else None
            if (trace := tracer.rare() if cause is None else cause.child()) is not None:
                labels = {"nearfield.model.name": name, "nearfield.model.version": version_names.shown(version)}
                kind = None if failure is None else traces.error_of(failure)
                tracer.record("swap", trace, seconds, labels, error=kind)
        if failure is None:
            self.failures.try_again(version)
            self._metrics.swaps.labels(name, "swapped").inc()
            self._metrics.swap_seconds.labels(name).observe(seconds)
            self._show_live()
            _log.info("model is live", version=version, seconds=round(seconds, 3))
        else:
            self.failures.note(name, version, failure, self.served().get(name))
            self._engine.backend.check()
        self._engine.backend.release()  # free the memory of the old model: a training may need it

    def _show_live(self) -> None:
        """Let `/metrics` name the models that learn now."""
        metrics = self._metrics
        for series in (metrics.model_info, metrics.model_age_seconds, metrics.model_shadow):
            series.clear()
        for name, version in self.served().items():
            metrics.model_info.labels(name, version_names.shown(version)).set(1)
            metrics.model_age_seconds.labels(name).set_function(functools.partial(_age_s, version))
            metrics.model_shadow.labels(name).set(name in self._engine.live.shadows)

    # --- slices on the engine thread

    def _removing(self, name: str) -> Slices:
        self._engine.remove(name)
        yield

    def _installing(self, loaded: Snapshot, ready: ReadyModel, n_forgotten: int) -> Slices:
        """Make a model live when it has caught up; returns false if a user was forgotten since its rows were read."""
        engine = self._engine
        if engine.n_forgotten != n_forgotten:
            return False
        live_model = LiveModel(loaded.manifest, ready, engine.history, loaded.content)
        engine.prepare(live_model)
        try:
            patient_until_s = time.monotonic() + CATCH_UP_S
            yield
            while not engine.try_install(live_model, is_patient=time.monotonic() < patient_until_s):
                yield
        except BaseException:
            engine.live.discard(live_model)
            raise
        return True


def _age_s(version: str) -> float:
    """Age of a version in seconds."""
    return time.time() - version_names.time_of(version)
