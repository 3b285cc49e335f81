"""What only some services need. Each folder is one extra, and leaving it out leaves a whole service.

An extra has one function `register`, which adds to `Parts` what the extra brings. `service.processes.parts` has the
only list of extras, and no other room imports one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # the command line reads `Parts`, and starts fast without these
    import typer
    from msgspec import Struct

    from service.api.app import Application
    from service.api.serving import Serving
    from service.engine.engine import Engine
    from service.extras.stores.follower import Follower
    from service.extras.stores.publisher import Publisher
    from service.jobs.jobs import Jobs
    from service.jobs.trainer_messages import Team
    from service.jobs.trainer_process import TrainerModule
    from service.processes.runtime import Runtime
    from service.settings.settings import Settings
    from service.storage.log.rating_log import RatingLog
    from service.storage.streams.stream import Stream
    from service.telemetry.metrics import Metrics
    from service.telemetry.traces import Export

OnFailure = Callable[[BaseException], None]
Page = Callable[["Serving", str | None], Awaitable[dict[str, Any]]]


class Part(Protocol):
    """What has a thread."""

    def start(self) -> None:
        """Start the thread."""

    def stop(self) -> None:
        """End the thread."""


@dataclass
class Parts:
    """What extras add to a service.

    Attributes:
        routes: each adds routes, and what they need, to an application that is being made.
        operations: structs that a front sends to the engine's process, beside those of `service.api.operations`.
        engine: each adds to the engine's process of a data set, before the engine starts, such as what performs these
            operations.
        companions: each makes a thread of the process that supervises the jobs of a data set.
        schedule: makes what submits the jobs of the setting `schedules`, beside the companions. None: no extra can.
        follow: starts what stands for the archiver where `store` is set. None: no extra can follow a store.
        publish: makes what sends the folder of a worker to the store.
        pages: of the console, by their names. Each gives what the template `templates/NAME.html` of its extra shows, of
            the service and of the `id` in the query.
        span_export: makes what sends the spans of a process, if `traces` is on. None: no extra can send them.
        trainer: what to run for a training where `trainer_ranks` is above 1. None: no extra trains with several ranks.
        team: the ranks of a training on a file.
        check_serve, check_worker: each raises an error if a setting cannot be used.
        names: of files and folders in DATA.
        commands: each adds commands to `nearfield`.
    """

    routes: list[Callable[[Application], None]] = field(default_factory=list)
    operations: list[type[Struct]] = field(default_factory=list)
    engine: list[Callable[[Runtime, Engine], None]] = field(default_factory=list)
    companions: list[Callable[[Settings, Jobs, Metrics, OnFailure], Part]] = field(default_factory=list)
    schedule: Callable[[Settings, Jobs, OnFailure], Part] | None = None
    follow: Callable[[Settings, RatingLog, Engine, Metrics, OnFailure], Follower] | None = None
    publish: Callable[[Settings, Stream, RatingLog, OnFailure], Publisher] | None = None
    pages: dict[str, Page] = field(default_factory=dict)
    span_export: Export | None = None
    trainer: TrainerModule | None = None
    team: Callable[[Settings], AbstractContextManager[Team]] | None = None
    check_serve: list[Callable[[Settings], None]] = field(default_factory=list)
    check_worker: list[Callable[[Settings], None]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    commands: list[Callable[[typer.Typer], None]] = field(default_factory=list)
