"""`Quotas`: how much a data set may hold, and how much it holds (docs/decisions/0129).

A write costs nothing: the engine compares a few numbers ten times a second, and tells the fronts when one is reached.
So what is written meanwhile goes beyond, a few tenths of a second of writes. New users and items are counted exactly
from `NEAR` of their quotas on, since the fronts then ask with each batch.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import Struct

from service.base.errors import ServiceError
from service.engine.state.history import History
from service.settings.data_sets import FOLDER

NEAR = 0.9  # share of a quota from which on new users and items are counted before a write
GB = 1e9  # bytes
_REMEDIES = {
    "ratings": "delete ratings or forget users",
    "users": "forget users",
    "items": "leave out the new ones",
    "memory_gb": "forget users, or end a model",
    "disk_gb": "remove files of lists, or end a model",
}


class QuotaExceeded(ServiceError):
    """The data set holds as much as it may: nothing was written. It may still be read, and what it holds be deleted."""

    status, slug, title = 507, "quota-exceeded", "Quota exceeded"


class Quota(Struct):
    """One quota of a data set.

    Attributes:
        name: of its setting, after `quota_`.
        held: how much there is, or was used within 24 hours.
        quota: how much there may be, in the same unit.
    """

    name: str
    held: float
    quota: float


class Quotas:
    """Compares what a data set holds with its quotas; of any thread.

    Args:
        quotas: by name, as `Settings.quotas`.
        history: counts ratings, users and items.
        folder: of the data set; those of further data sets in it do not count.
        minutes: minutes of trainings within 24 hours; it may wait for Redis.
    """

    def __init__(
        self, quotas: Mapping[str, float], history: History, folder: Path, minutes: Callable[[], float]
    ) -> None:
        self._quotas, self._history, self._folder, self._minutes = quotas, history, folder, minutes
        self._measured = dict.fromkeys(("memory_gb", "disk_gb", "training_minutes"), 0.0)

    def measure(self) -> None:
        """Measure what waits for the disk and Redis. Raises `StreamUnavailable`."""
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        self._measured["memory_gb"] = pages * resource.getpagesize() / GB
        self._measured["disk_gb"] = bytes_of(self._folder) / GB
        self._measured["training_minutes"] = self._minutes()

    def held(self, name: str) -> float:
        """How much there is of `name`; memory, disk and minutes as of the last `measure`."""
        if name in self._measured:
            return self._measured[name]
        history = self._history
        return history.strengths.table.n_ratings if name == "ratings" else getattr(history, name).n_known

    def used(self, name: str) -> float:
        """The share of a quota that is held."""
        return self.held(name) / self._quotas[name]

    @property
    def are_ids_near(self) -> bool:
        """Whether the new users and items of a write have to be counted first, by `check_new`."""
        return self.used("users") >= NEAR or self.used("items") >= NEAR

    def refusal(self) -> QuotaExceeded | None:
        """The error of writes that add something, or None."""
        full = (name for name in ("ratings", "memory_gb", "disk_gb") if self.used(name) >= 1)
        return next((self._exceeded(name, "") for name in full), None)

    def check_new(self, users: Collection[str], items: Collection[str]) -> None:
        """Check that the new ones among distinct `users` and `items` may come.

        Raises:
            QuotaExceeded: they would be too many.
        """
        for name, ids in (("users", users), ("items", items)):
            n_new = sum(one not in getattr(self._history, name) for one in ids)
            if n_new and self.held(name) + n_new > self._quotas[name]:
                raise self._exceeded(name, f", and the request has {n_new:,} new ones")

    def shown(self) -> list[Quota]:
        """All quotas, with what is held."""
        return [Quota(name, round(self.held(name), 3), quota) for name, quota in self._quotas.items()]

    def _exceeded(self, name: str, more: str) -> QuotaExceeded:
        amounts = f"{self.held(name):,.12g} of at most {self._quotas[name]:,.12g} {name.replace('_gb', ' (GB)')}"
        return QuotaExceeded(
            f"The data set holds {amounts}{more}: nothing was written; {_REMEDIES[name]}, or raise the setting"
            f" quota_{name}"
        )


def bytes_of(folder: Path) -> int:
    """The bytes of all files in the folder of a data set, without those of further data sets."""
    n_bytes = 0
    for path, folders, names in os.walk(folder):
        if Path(path) == folder and FOLDER in folders:
            folders.remove(FOLDER)
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # a temporary file, or one that was merged
                n_bytes += os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118 (`Path` takes ten times as long)
    return n_bytes
