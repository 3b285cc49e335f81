"""`LiveFile`: what `live.json` asks of this process. Belongs to the thread of hot swap."""

from __future__ import annotations

from pathlib import Path

import structlog

from service.engine.readiness import MODELS, Stages
from service.storage.errors import CorruptLiveFile
from service.storage.snapshots import live_versions
from service.storage.snapshots.live_versions import Live

_log = structlog.get_logger(__name__)


class LiveFile:
    """Reads the file, and notices names that were in it and have gone."""

    def __init__(self, data: Path, stages: Stages) -> None:
        """Prepare; `stages` shows why no model can be loaded."""
        self._data, self._stages = data, stages
        self._is_corrupt = False
        self._read: Live | None = None
        self._state: object = None  # of the file when it was read
        self._listed: frozenset[str] = frozenset()  # names in the file when `ended` was last asked

    def read(self) -> Live | None:
        """What the file has; None, and an obstacle, if it is torn or altered."""
        state = live_versions.state_of(self._data)
        if self._read is not None and state == self._state:
            return self._read
        self._read, self._state = None, state  # of the time before it is read
        try:
            live = self._read = live_versions.read_all(self._data)
        except CorruptLiveFile as error:
            self._stages.obstruct(MODELS, str(error))
            if not self._is_corrupt:  # log it once
                _log.error("no model is loaded; without one popular items answer", error=str(error))
            self._is_corrupt = True
            return None
        self._stages.clear(MODELS)
        self._is_corrupt = False
        return live

    def ended(self, live: Live) -> frozenset[str]:
        """The names that have gone since the last call. A file that is gone ends none: somebody repairs it."""
        ended = self._listed - live.versions.keys() if live.is_written else frozenset()
        self._listed = frozenset(live.versions)
        return ended
