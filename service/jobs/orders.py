"""`Orders`: what replicas that follow a store ask the worker to do with its models, in the order in which they ask.

An order is a text in Redis: `activate VERSION` or `end NAME`. It stays there until the worker has done it. A worker
that follows one that was killed in between does it again, which changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from service.base.backoff import Backoff
from service.base.errors import ServiceError, Unavailable
from service.base.threads import PartThread, unheard
from service.jobs.table import JobTable
from service.storage.snapshots import live_versions, snapshot, version_names

ACTIVATE, END = "activate", "end"
POLL_S = 0.5  # seconds between two looks

_log = structlog.get_logger(__name__)


class Orders:
    """The thread of the worker that carries them out; trainings may go on meanwhile."""

    def __init__(self, table: JobTable, data: Path, on_failure: Callable[[BaseException], None] = unheard) -> None:
        """Prepare; `start` starts the thread."""
        self._table, self._data = table, data
        self._stopping = threading.Event()
        self._thread = PartThread("orders", self._run, on_failure)

    def start(self) -> None:
        """Start to carry out orders."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present one."""
        self._stopping.set()
        self._thread.join()

    def step(self) -> bool:
        """Carry out the oldest order; return whether there was one.

        Raises:
            Unavailable: Redis or a lock is not available; the order stays.
        """
        if (order := self._table.next_order()) is None:
            return False
        kind, _, name = order.partition(" ")
        try:
            if kind == ACTIVATE:
                folder = self._data / "snapshots"
                version = snapshot.latest_revision(folder, name)
                snapshot.verify(folder, version)
                live_versions.activate(self._data, version_names.name_of(version), version)
            elif kind == END:
                live_versions.end(self._data, name)
            else:
                raise ValueError(f"expected {ACTIVATE} or {END}; upgrade this worker if a newer replica asks")
        except Unavailable:
            raise
        except (ServiceError, ValueError) as error:  # it was possible when the replica asked, and is not any more
            _log.error("an order of a replica cannot be carried out", order=order[:200], error=str(error))
        self._table.drop_order(order)
        return True

    def _run(self) -> None:
        backoff = Backoff("the orders of replicas", self._stopping)
        while not self._stopping.is_set():
            try:
                if not self.step():
                    self._stopping.wait(POLL_S)
                backoff.worked()
            except Exception as error:  # of any kind: report it and try again
                backoff.failed(error)
