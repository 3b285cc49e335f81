"""Turns of the data sets of a service: one trains at a time, and of those that wait, the one that trained longest ago.

DATA/sets/.training.lock       held by the data set that trains
DATA/sets/.turns/NAME.waiting  held by a data set that waits for its turn
DATA/sets/.turns/NAME.trained  empty; its modification time is the start of the data set's last turn

The system frees the locks of a process that dies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from service.settings import data_sets
from service.settings.settings import Settings
from service.storage.files import FileLock

WAITS = "the job waits for the training of another data set"
TURNS = f"{data_sets.FOLDER}/.turns"
_WAITING, _TRAINED = ".waiting", ".trained"


def turn(
    settings: Settings, pause: Callable[[], None], tell: Callable[[str], None]
) -> contextlib.AbstractContextManager[object]:
    """Wait until this data set may train: two trainings would share processors and memory.

    Args:
        settings: of the data set.
        pause: waits for a moment; an exception of it ends the wait.
        tell: is told why it waits, and once that is over, an empty text.

    Returns:
        The turn, which ends with this context.
    """
    if not settings.data_sets:
        return contextlib.nullcontext()
    name, folder = settings.data_set or data_sets.DEFAULT, settings.root / TURNS
    folder.mkdir(parents=True, exist_ok=True)
    has_told = False

    def waits_longer(other: Path) -> bool:
        """Whether another data set waits whose last turn was before this one's."""
        if other.stem == name or last_turn(folder, other.stem) >= last_turn(folder, name):
            return False
        if (lock := FileLock.try_take(other)) is not None:
            lock.release()
        return lock is None

    with FileLock.take(folder / f"{name}{_WAITING}"):
        while (
            any(map(waits_longer, folder.glob(f"*{_WAITING}")))
            or (lock := FileLock.try_take(settings.root / data_sets.TURN)) is None
        ):
            if not has_told:
                tell(WAITS)
                has_told = True
            pause()
    (folder / f"{name}{_TRAINED}").touch()
    if has_told:
        tell("")
    return lock


def last_turn(folder: Path, name: str) -> tuple[int, str]:
    """When a data set began its last turn, nanoseconds, and its name; 0: it never had one."""
    with contextlib.suppress(FileNotFoundError):
        return (folder / f"{name}{_TRAINED}").stat().st_mtime_ns, name
    return 0, name
