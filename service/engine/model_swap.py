"""`HotSwap`: the thread that makes the engine answer with the versions in `live.json`.

This thread loads files, uploads arrays and builds the ranking index. Work that touches the history or learns runs as
slices on the engine thread. A model goes live only when it has learned every entry of the history, so `as_of` never
goes back. On any failure the old model stays; at a start the newest older version that can be read answers instead.
`failure_of` gives the reason. Only a lost device ends the service.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection
from pathlib import Path

import structlog

from gpu.algorithms import ALGORITHMS
from gpu.backend import HOST, Backend
from gpu.decay import weighing
from gpu.memory import check_room
from gpu.online import ReadyModel, prepare_online, rehearse, room
from gpu.params import params_for
from gpu.ranking import item_index
from service.base.errors import NotReady, ServiceError
from service.base.threads import PartThread
from service.engine import compilation, model_series, swap_trace
from service.engine.background import Slices
from service.engine.engine import Engine
from service.engine.live_file import LiveFile
from service.engine.load_failures import LoadFailures
from service.engine.models import model_info
from service.engine.models.live_model import LiveModel, rows_of
from service.engine.readiness import MODELS
from service.storage.errors import CorruptSnapshot
from service.storage.snapshots import live_versions, snapshot, version_names
from service.storage.snapshots.live_versions import Live
from service.storage.snapshots.manifest import Manifest
from service.storage.snapshots.snapshot import Snapshot
from service.telemetry.metrics import Metrics

POLL_S = 1.0  # seconds between two looks at `live.json`
END_S, END_POLL_S = 2.0, 0.01  # seconds that `end` waits for the thread, and between two looks
CATCH_UP_S = 10.0  # seconds; longest wait for a model's refits before it goes live: a heavy stream never lets them end

_log = structlog.get_logger(__name__)


class _Outdated(Exception):
    """A user was forgotten while a model was mapped to the rows of the history: map it again."""


class HotSwap:
    """Follows `live.json`; also lists snapshots and activates one on request."""

    def __init__(self, data: Path, engine: Engine, metrics: Metrics) -> None:
        """Prepare; `start` starts the thread."""
        self._data, self._engine, self._metrics = data, engine, metrics
        self.trace = swap_trace.SwapTrace(engine.stages)
        self._folder = data / "snapshots"
        self.failures = LoadFailures(data, metrics)
        self._file = LiveFile(data, engine.stages)
        self._poked, self._stopping = threading.Event(), threading.Event()
        self._compiled: set[tuple[str, Backend]] = set()  # algorithms and backends whose kernels are loaded
        self._verified: dict[str, Manifest] = {}  # by version; of the start only
        self._thread = PartThread("hotswap", self._run, engine.fail)

    def start(self) -> None:
        """Start to follow `live.json`."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a swap in progress is given up when the engine has stopped."""
        self.failures.end()
        self._stopping.set()
        self._poked.set()
        self._thread.join()

    # --- from any thread

    def served(self) -> dict[str, str]:
        """Name to version of the models that learn in this process; all but the shadows answer."""
        return {live_model.name: live_model.version for live_model in self._engine.models()}

    def failure_of(self, version: str) -> str | None:
        """Why `version` could not be loaded; None if it was not tried or is live."""
        return self.failures.reason_of(version)

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
        version = snapshot.latest_revision(self._folder, version)
        snapshot.verify(self._folder, version)
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
        serving = self.served(), self._engine.live.shadows
        return model_info.describe(self._folder, version, *serving, self.failure_of(version))

    # --- the thread

    def _run(self) -> None:
        try:
            compilation.check_cache()
            self._compile_wanted()
            self._verify_wanted()
            self._rehearse_wanted()
            while not self._stopping.is_set():
                if self._engine.stages.is_done("stream"):  # after the replay, so that its refits are done once
                    self.step()
                    self._verified.clear()
                    self._engine.stages.report(MODELS)
                    self._engine.live.expected = frozenset()
                    self._poked.wait(POLL_S)
                    self._poked.clear()
                else:
                    self._stopping.wait(0.02)
        except NotReady:
            _log.info("hot swap ends with the engine")

    def _compile_wanted(self) -> None:
        """Compile the kernels of the live models while the log is being read."""
        wanted = self._wanted()
        places = {model_info.place_of(self._folder, *one, self._engine.backend) for one in wanted.items()}
        self._engine.live.expected = frozenset(wanted.keys() - self._engine.live.shadows)
        stages = self._engine.stages
        # Half of the stage; the other half is reading snapshots and refitting users.
        try:
            self._compile(places, lambda share, note: stages.report(MODELS, share / 2, note))
        except Exception as error:  # loading a model will fail the same way and name the model
            _log.error("kernels cannot be compiled", error=str(error), kind=type(error).__name__)
        stages.report(MODELS, 0.5, f"loading the models {', '.join(wanted)}")

    def _verify_wanted(self) -> None:
        """Verify the live models while the log is being read; their files are then in memory when they are loaded."""
        for version in self._wanted().values():
            if self._stopping.is_set() or self._engine.stages.is_done("stream"):
                return
            with contextlib.suppress(ServiceError):  # to load it will fail the same way, and say why
                self._verified[version] = snapshot.verify(self._folder, version)

    def _rehearse_wanted(self) -> None:
        """Compile the device's kernels of the live models while the log is being read: it takes up to 15 seconds."""
        for version, manifest in self._verified.items():
            if self._stopping.is_set() or self._engine.stages.is_done("stream"):
                return
            try:
                with self.failures.attempt(version):
                    model = snapshot.load(self._folder, version, manifest).model
                    item_index.prepare(model.params.width, weighing(model.params, self._engine.backend))
                    rehearse(model, self._engine.backend)
            except CorruptSnapshot:  # to load it will fail the same way, and say why
                continue
            except Exception as error:  # as in `_compile_wanted`
                _log.error("kernels cannot be compiled", error=str(error), kind=type(error).__name__)

    def _compile(self, places: Collection[tuple[str, Backend]], on_progress: compilation.OnProgress) -> None:
        """Compile the kernels of (algorithm, backend where it learns), once per process: models of both share them."""
        missing = {place for place in places if place[0] in ALGORITHMS} - self._compiled
        backends = {backend for _, backend in missing}
        for n, backend in enumerate(sorted(backends, key=lambda one: one.name)):

            def report(share: float, note: str, n_done: int = n) -> None:
                on_progress((n_done + share) / len(backends), note)

            algorithms = sorted(algorithm for algorithm, own in missing if own == backend)
            compilation.prepare(algorithms, backend, report, self._stopping.is_set)
        self._compiled |= missing

    def step(self) -> None:
        """Remove the models that `live.json` has no longer; load every version in it that does not answer yet.

        A version that failed is not tried again, unless memory was short and no other version of its name answers:
        another process, such as a training, may have freed memory meanwhile.
        """
        if (live := self._file.read()) is None:
            return
        self.failures.wanted = live.versions.values()
        self._remove_ended(live)
        self._follow_shadows(live)
        for name, version in live.versions.items():
            served = self.served().get(name)
            if served != version and self.failures.is_due(version, has_other=served is not None):
                self._swap(name, version)
                if name not in self.served() and not self.failures.lacks_room(version):
                    self._swap_older(name, version)

    def _remove_ended(self, live: Live) -> None:
        for name in self._file.ended(live) & self.served().keys():
            self._engine.run_slices(self._removing(name)).result()
            self._show_live()
            self._engine.backend.release()
            _log.info("model has ended", model=name)

    def _removing(self, name: str) -> Slices:
        self._engine.remove(name)
        yield

    def _wanted(self) -> dict[str, str]:
        """Name to version of what is to be loaded at the start."""
        if (live := self._file.read()) is None:
            return {}
        self._follow_shadows(live)
        return live.versions

    def _follow_shadows(self, live: Live) -> None:
        if live.shadows != self._engine.live.shadows:
            self._engine.live.shadows = live.shadows
            self._show_live()

    def _swap_older(self, name: str, version: str) -> None:
        """Load the newest usable version older than `version`, or the newest of all if `version` is gone.

        An old model is better than none. Every answer names its version, and `live.json` is not changed.
        """
        versions = snapshot.versions(self._folder, name)
        for older in versions[versions.index(version) + 1 if version in versions else 0 :]:
            if name not in self.served():
                self._swap(name, older)

    def _swap(self, name: str, version: str) -> None:
        started_s = time.monotonic()
        try:
            self._check_room(snapshot.read_manifest(self._folder, version))
            with self.failures.attempt(version):
                loaded = snapshot.load(self._folder, version, self._verified.get(version))
                if name in ALGORITHMS and loaded.manifest.algorithm != name:
                    raise CorruptSnapshot(f"snapshot {version}: expected a model of {name}, as live.json says")
                self._prepare(loaded)
        except NotReady:
            raise
        except Exception as error:
            self.trace.record(name, version, started_s, error)
            self.failures.note(name, version, error, self.served().get(name))
            self._engine.backend.check()
        else:
            self.trace.record(name, version, started_s)
            self.failures.try_again(version)
            self._metrics.swaps.labels(name, "swapped").inc()
            self._metrics.swap_seconds.labels(name).observe(time.monotonic() - started_s)
            self._show_live()
            _log.info("model is live", version=version, seconds=round(time.monotonic() - started_s, 3))
        self._engine.backend.release()  # free the memory of the old model: a training may need it

    def _check_room(self, manifest: Manifest) -> None:
        """Check that the model fits into memory together with the models that answer.

        Raises:
            NotEnoughMemory: it does not, on the host or on the device; the message has the needed and the free bytes.
        """
        params = params_for(manifest.algorithm, manifest.parameters)
        backend = weighing(params, self._engine.backend)
        table = self._engine.history.table_of(has_strengths=params.is_implicit)
        sizes = (manifest.n_users, manifest.n_items), (table.n_users, table.n_items)
        for name, n_bytes in room.needed_bytes(params, *sizes, table.n_ratings, backend).items():
            what = f"{manifest.version} in addition to the models that answer ({name})"
            check_room(what, n_bytes, HOST if name == HOST.name else backend)

    def _prepare(self, loaded: Snapshot) -> None:
        engine, history = self._engine, self._engine.history
        table = history.table_of(has_strengths=loaded.model.is_implicit)
        backend = weighing(loaded.model.params, engine.backend)
        item_index.prepare(loaded.model.params.width, backend)
        self._compile([(loaded.manifest.algorithm, backend)], lambda share, note: None)
        while True:
            n_forgotten = engine.n_forgotten
            user_rows, item_rows = engine.run_slices(rows_of(loaded, history)).result()
            model = loaded.model.mapped(user_rows, item_rows, table.n_users, table.n_items)
            # Not on the engine thread: it takes long, and the first time a device compiles for seconds.
            ready = prepare_online(model, table, history.users.keys, history.items.keys, backend)
            try:
                engine.run_slices(self._installing(loaded, ready, n_forgotten)).result()
            except _Outdated:
                continue
            return

    def _installing(self, loaded: Snapshot, ready: ReadyModel, n_forgotten: int) -> Slices:
        engine = self._engine
        if engine.n_forgotten != n_forgotten:
            raise _Outdated
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

    def _show_live(self) -> None:
        model_series.show(self._metrics, self.served(), self._engine.live.shadows)
