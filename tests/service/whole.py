"""The parts of a service, wired as in `service.processes.runtime` but without HTTP, with an event loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu.base.backend import HOST, Backend
from service.engine.engine import Engine
from service.engine.learner import Learner
from service.engine.model_swap import HotSwap
from service.engine.pending_queries import Limits
from service.engine.queries import Query, Recommend, Recommendation
from service.engine.state.history import History
from service.jobs.jobs import Job, Jobs
from service.jobs.supervisor import Supervisor
from service.jobs.table import JobTable
from service.settings.settings import Settings
from service.storage.archiver import Archiver
from service.storage.events import Fields, RatingEvent, StreamId, encode_ratings, encode_subject
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions
from service.storage.streams.stream import Stream
from service.telemetry.metrics import Metrics
from tests.service.trained import train
from tests.service.waiting import eventually

DEFAULT_MODELS = ["culsh-implicit", "culsh", "sgd", "esgd", "als-implicit", "als", "nmf"]

# For a machine that stands still:
SEEN_S = 50.0  # seconds
LIMITS = Limits(max_batch=256, max_waiting=100, max_wait_s=60.0)


class Whole:
    """One running service; use as a context manager."""

    def __init__(self, url: str, data: Path, limits: Limits = LIMITS, backend: Backend = HOST) -> None:
        self.data, self.failures = data, list[BaseException]()
        self.metrics, self.log = Metrics(), RatingLog(data / "ratings")
        self.stream = Stream(url, self.log.last_id)
        self.table = JobTable(url)
        self.engine = Engine(History(), backend, DEFAULT_MODELS, limits, self.metrics, self.failures.append)
        self.learner = Learner(self.engine, self.stream, self.log)
        self.archiver = Archiver(self.stream, self.log)
        self.hotswap = HotSwap(data, self.engine, self.metrics)
        self.jobs = Jobs(self.table, self.stream, data, self.hotswap.served, self.hotswap.failures.reason_of)
        settings = Settings(data=data, backend="host")
        self.supervisor = Supervisor(settings, self.table, self.stream, self.log, self.metrics)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> Whole:
        self._thread.start()
        self.engine.start(self.loop)
        for part in (self.learner, self.archiver, self.hotswap, self.supervisor):
            part.start()
        eventually(lambda: self.engine.readiness.ready)
        return self

    def __exit__(self, *_: object) -> None:
        for part in (self.supervisor, self.hotswap, self.archiver, self.learner, self.engine):
            part.stop()
        self._do(self.stream.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        self.stream.close()
        self.table.close()

    def _do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def rate(self, *ratings: tuple[str, str, float | None]) -> StreamId:
        return self.send([RatingEvent(*rating, 1.0) for rating in ratings])

    def send(self, ratings: Sequence[RatingEvent]) -> StreamId:
        """Append in entries of 200, and wait until they are seen."""
        parts = [ratings[start : start + 200] for start in range(0, len(ratings), 200)]
        last = [self._do(self.stream.writer.append(encode_ratings(part))) for part in parts][-1]
        self.see(last)
        return last

    def subject(self, kind: Any, subject: str) -> StreamId:
        return self.append(encode_subject(kind, subject))

    def append(self, fields: Fields, *, is_seen: bool = True) -> StreamId:
        stream_id: StreamId = self._do(self.stream.writer.append(fields))
        if is_seen:
            self.see(stream_id)
        return stream_id

    def see(self, stream_id: StreamId) -> None:
        """Return once the entry is seen. A request waits for two seconds, and a busy machine may need longer."""
        self._do(self.engine.wait_for(stream_id, SEEN_S))

    def settle(self) -> None:
        """Return once no refit waits: an entry that is seen counts, but items are refitted later."""
        eventually(lambda: not any(model.online.n_waiting for model in self.engine.models()))

    def ask(self, query: Query) -> Any:
        return self.ask_all([query], is_raising=True)[0]

    def ask_all(self, queries: Sequence[Query], *, is_raising: bool = False) -> list[Any]:
        async def one(query: Query) -> Any:
            return await self.engine.ask(query)

        async def together() -> list[Any]:
            return await asyncio.gather(*map(one, queries), return_exceptions=not is_raising)

        return self._do(together())

    def recommend(self, user: str, **options: Any) -> Recommendation:
        return self.ask(Recommend(user=user, **options))

    def shown(self, user: str, **options: Any) -> list[str]:
        return [item.item for item in self.recommend(user, **options).items]

    def ended(self, job: Job) -> Job:
        eventually(lambda: self.jobs.get(job.id).state in ("succeeded", "failed", "cancelled"))
        return self.jobs.get(job.id)

    def train(self, algorithm: str, name: Any = None, **params: Any) -> str:
        """Train in this process, which is faster than a job, and make the version live."""
        version, name = self.trained(algorithm, name, **params), name or algorithm
        live_versions.set_version(self.data, name, version)
        self.hotswap.poke()
        eventually(lambda: self.hotswap.served().get(name) == version)
        return version

    def trained(self, algorithm: str, name: Any = None, **params: Any) -> str:
        """A snapshot of today, not yet live."""
        watermark = self.engine.as_of
        self.stream.request_commit(watermark)
        eventually(lambda: self.log.last_id() >= watermark)
        return str(train(self.data, algorithm, params, watermark, name=name).version)
