"""The setting `schedules`: lines of five fields of cron in UTC, and what to do at the times that they name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from gpu.algorithms import ALGORITHMS
from service.base.ids import check_id

Action = Literal["train", "lists"]
ACTIONS: dict[str, Action] = {"train": "train", "lists": "lists"}
FIELDS = (
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, or L for the last one"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of the week", "0 to 7, where 0 and 7 are Sunday, or SUN to SAT"),
)
N_FIELDS = len(FIELDS)
EXAMPLE = "'0 3 * * * train culsh' or '30 5 * * 1 lists weekly'"
START = datetime(2000, 1, 1, tzinfo=UTC)  # a time to judge fields at


class Schedule(NamedTuple):
    """One line.

    Attributes:
        line: its text.
        cron: its five fields.
        action: what to do.
        name: of the model to train, or of the scenario to list by.
    """

    line: str
    cron: str
    action: Action
    name: str

    def last(self, now_s: int) -> int:
        """The last time up to `now_s`, both in Unix seconds."""
        return _time(self.cron, now_s + 1, is_before=True)

    def next(self, now_s: int) -> int:
        """The first time after `now_s`, both in Unix seconds."""
        return _time(self.cron, now_s)


def parse_schedules(text: str) -> list[Schedule]:
    """The lines of `text`, which `;` or line ends separate.

    Raises:
        ValueError: a line is no schedule, or comes twice.
    """
    schedules: list[Schedule] = []
    for number, line in enumerate(text.replace(";", "\n").splitlines(), 1):
        if not line.strip():
            continue
        place = f"line {number} of schedules"
        # Words that are missing are empty; the last one may have spaces, as names of scenarios may.
        *fields, action, name = [*line.split(maxsplit=N_FIELDS + 1), *[""] * (N_FIELDS + 2)][: N_FIELDS + 2]
        for at, (field, expected) in enumerate(FIELDS):
            if fields[at] and not _is_possible([*["*"] * at, fields[at], *["*"] * (N_FIELDS - at - 1)]):
                raise ValueError(
                    f"Invalid {field} of {place}: expected {expected}, with *, commas, - and / as in cron, got"
                    f" {fields[at]!r}"
                )
        if action not in ACTIONS or not name:
            raise ValueError(
                f"Invalid {place}: expected five fields of cron in UTC, then train MODEL or lists SCENARIO, such as"
                f" {EXAMPLE}, got {line.strip()!r}"
            )
        if not _is_possible(fields):
            raise ValueError(f"Invalid day of {place}: expected one that the month has, got {' '.join(fields)!r}")
        name = check_id(name.rstrip())
        schedules.append(Schedule(" ".join([*fields, action, name]), " ".join(fields), ACTIONS[action], name))
        if schedules[-1] in schedules[:-1]:
            raise ValueError(f"Invalid {place}: expected each line once, got {line.strip()!r} again")
    return schedules


def check_schedules(text: str, default_models: Collection[str], *, has_store: bool) -> None:
    """Check that a service with these other settings can do what the setting `schedules` says.

    Raises:
        ValueError: it cannot, or see `parse_schedules`.
    """
    for schedule in parse_schedules(text):
        known = {*ALGORITHMS, *default_models}
        if schedule.action == "train" and schedule.name not in known:
            raise ValueError(
                f"Invalid model of schedules: expected an algorithm or one of the setting default_models"
                f" ({', '.join(sorted(known))}), got {schedule.line!r}"
            )
        if schedule.action == "lists" and has_store:
            raise ValueError(
                f"Invalid schedules: expected train alone with a store, whose replicas have no files of lists, got"
                f" {schedule.line!r}"
            )


def _is_possible(fields: Sequence[str]) -> bool:
    """Whether any time has these five fields."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 (only who has schedules needs it)

    try:
        next(CronSim(" ".join(fields), START))
    except (CronSimError, StopIteration):
        return False
    return True


def _time(cron: str, from_s: int, *, is_before: bool = False) -> int:
    """The first time after `from_s`, or the last one before."""
    from cronsim import CronSim  # noqa: PLC0415

    return int(next(CronSim(cron, datetime.fromtimestamp(from_s, UTC), reverse=is_before)).timestamp())
