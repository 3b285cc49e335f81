"""What a run of faults found, for the table of docs/faults.md: printed at the end of `make faults`."""

import os
import statistics
from dataclasses import dataclass, field

TRIALS = int(os.environ.get("FAULT_TRIALS", "0"))  # of the long run; 0: the short one of `make test`
IS_LONG = TRIALS > 0


@dataclass
class Row:
    """One kind of fault.

    Attributes:
        fault: for people.
        n_trials: how often it was made.
        n_acknowledged, n_lost, n_duplicated: ratings.
        ready_s: from the fault, or from the restart after it, until ready answers 200.
    """

    fault: str
    n_trials: int = 0
    n_acknowledged: int = 0
    n_lost: int = 0
    n_duplicated: int = 0
    ready_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        median, longest = (statistics.median(self.ready_s), max(self.ready_s)) if self.ready_s else (0.0, 0.0)
        ready = f"{median:.1f} s, at most {longest:.1f} s" if self.ready_s else "at once"
        counts = self.n_trials, self.n_acknowledged, self.n_lost, self.n_duplicated
        return f"| {self.fault} | {' | '.join(f'{n:,}' for n in counts)} | {ready} |"


ROWS: dict[str, Row] = {}
MEASURED: list[str] = []  # what is no row of the table, a line each


def row(fault: str) -> Row:
    """The row of this fault."""
    return ROWS.setdefault(fault, Row(fault))


def table() -> str:
    head = "| Fault | Trials | Acknowledged | Lost | Duplicated | Time to ready (median, longest) |"
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- |", *map(str, ROWS.values())])
