"""Checkpoints of a training on several ranks: the parameters after each part of an epoch, in its work folder.

`checkpoint-<number of completed parts>` is a folder of arrays. The newest two are kept: if the newest one is torn, the
training goes on from the other.
"""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gpu.training.loop import State
from service.base.threads import helper
from service.extras.ranks import array_folder
from service.extras.ranks.errors import CorruptWorkFile, ForeignCheckpoint

N_KEPT = 2
SMALL_BYTES = 16 * 2**20  # of parameters; up to this size a checkpoint follows every part of an epoch
PAUSE = 9  # between larger ones, in the time that the last one took: so they slow a training by a tenth
_NAME = re.compile(r"checkpoint-(\d+)")


class CheckpointWriter:
    """Writes checkpoints in a thread, one at a time."""

    def __init__(self, work: Path, digest: str, on_written: Callable[[Path], None] | None = None) -> None:
        """Prepare.

        Args:
            work: folder to write into.
            digest: that of the training's store.
            on_written: called in the thread of the writer with the folder of each checkpoint.
        """
        self._work, self._digest, self._on_written = work, digest, on_written
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._began_s, self._ended_s, self._n_bytes = 0.0, 0.0, 0  # of the last checkpoint

    def begin(self) -> bool:
        """Begin a checkpoint, which `save` completes, if one is due.

        Small ones are due after every part. After a larger one the training goes on without for `PAUSE` times as long
        as it took: bringing parameters together and writing them can take a hundred times as long as a part.
        """
        now_s, is_written = time.monotonic(), self._thread is None or not self._thread.is_alive()
        has_paused = is_written and now_s - self._ended_s >= PAUSE * (self._ended_s - self._began_s)
        if self.are_small or has_paused or self._failure is not None:
            self._began_s = now_s
            return True
        return False

    @property
    def are_small(self) -> bool:
        """Whether checkpoints are due after every part."""
        return self._n_bytes <= SMALL_BYTES

    def save(self, n_parts: int, state: State) -> None:
        """Copy the parameters and start writing them, after the previous checkpoint is complete.

        Raises:
            WorkFolderUnavailable: the previous checkpoint could not be written.
        """
        copies = {name: np.array(array) for name, array in state.items()}
        self._n_bytes = sum(array.nbytes for array in copies.values())
        self.finish()

        def write_copies() -> None:
            try:
                write(self._work, self._digest, n_parts, copies)
                if self._on_written is not None:
                    self._on_written(path_of(self._work, n_parts))
            except BaseException as error:
                self._failure = error
            self._ended_s = time.monotonic()

        self._thread = helper("checkpoint", write_copies)

    def finish(self) -> None:
        """Wait until the last checkpoint is complete.

        Raises:
            WorkFolderUnavailable: it could not be written.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            raise self._failure


def write(work: Path, digest: str, n_parts: int, state: State) -> None:
    """Write the parameters after `n_parts` parts, and remove all but the newest two checkpoints.

    Raises:
        WorkFolderUnavailable: the disk is full or broken.
    """
    array_folder.write(path_of(work, n_parts), state, {"digest": digest})
    prune(work)


def prune(work: Path) -> None:
    """Remove all but the newest two checkpoints."""
    for old in numbers(work)[N_KEPT:]:
        shutil.rmtree(path_of(work, old))


def path_of(work: Path, n_parts: int) -> Path:
    """The folder with the parameters after `n_parts` parts."""
    return work / f"checkpoint-{n_parts}"


def numbers(work: Path) -> list[int]:
    """The numbers of completed parts of all checkpoints, newest first; they may be torn."""
    matches = [_NAME.fullmatch(entry.name) for entry in work.iterdir()]
    return sorted((int(match[1]) for match in matches if match), reverse=True)


def newest(work: Path, digest: str) -> int:
    """The number of completed parts of the newest whole checkpoint; 0 if there is none.

    Removes what killed writers have left: no process may write meanwhile.

    Raises:
        ForeignCheckpoint: it belongs to a training with other ratings or parameters.
    """
    for torn in work.glob(".*.tmp"):
        shutil.rmtree(torn)
    for n_parts in numbers(work):
        try:
            read(work, digest, n_parts)
        except CorruptWorkFile:
            continue  # a writer was killed, or the disk is broken: the one before it is as good, and a little older
        return n_parts
    return 0


def read(work: Path, digest: str, n_parts: int) -> State:
    """The parameters after `n_parts` parts.

    Raises:
        CorruptWorkFile: a file is missing, torn or altered.
        ForeignCheckpoint: they belong to a training with other ratings or parameters.
    """
    state, record = array_folder.read(path_of(work, n_parts))
    if record.get("digest") != digest:
        raise ForeignCheckpoint(
            f"{path_of(work, n_parts)} belongs to a training with other ratings or parameters: remove it"
        )
    return state
