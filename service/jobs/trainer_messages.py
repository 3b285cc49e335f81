"""The messages of a trainer or a lister to its supervisor: one per phase and epoch, and a last one with the outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

import gpu
from gpu.ranks.traffic import Moved
from service.jobs.promotion import finite
from service.storage.snapshots.manifest import StoredCalibration

STEPS = {  # the phases of a training, in words
    "read": "reading",
    "tune": "searching for parameters",
    "fit": "training",
    "measure": "measuring",
    "write": "writing",
}
TUNING_SHARE = 0.8  # share of the search in the progress of a job that tunes


class TrainerMessage(msgspec.Struct, omit_defaults=True):
    """A message of the trainer to its supervisor.

    Attributes:
        progress: share of the epochs that are done.
        metrics: of the epoch; in the last message, of the held-out pairs.
        backend: whether it trains on the host or the device, and why.
        outcome: only in the last message.
        calibration: only in the last message, the values derived from the data.
        trials: only in the last message, the trainings of a search for parameters.
        ranks: number of processes that train together.
        sent, wait_seconds: what they have exchanged since the last message; see `gpu.ranks.traffic.Moved`.
        phase: what begins or goes on now; such a message has nothing else but `step`.
        step: the same, or the epoch, in words that the job shows.
        loss: why an attempt of several ranks was lost; such a message has nothing else.
        version: the snapshot that was written.
        promote: whether the model is good enough to go live; if not, `reason` has why.
        error: why the training failed.
    """

    progress: float = 0.0
    metrics: dict[str, float] = {}
    backend: str | None = None
    outcome: Literal["succeeded", "failed", "cancelled"] | None = None
    calibration: StoredCalibration | None = None
    trials: list[dict[str, Any]] = []
    ranks: int = 1
    sent: dict[str, int] = {}
    wait_seconds: float = 0.0
    phase: str | None = None
    step: str | None = None
    loss: str | None = None
    version: str | None = None
    promote: bool = False
    reason: str | None = None
    error: str | None = None

    def job_fields(self) -> dict[str, str]:
        """What it changes in its job; nothing after a failure, so that the job keeps what its last epoch said."""
        if self.outcome not in (None, "succeeded"):
            return {}
        fields = {"progress": f"{self.progress:.4f}", "metrics": msgspec.json.encode(self.metrics).decode()}
        fields |= {} if self.step is None else {"phase": self.step}
        return fields if self.backend is None else fields | {"backend": self.backend}


class Team(Protocol):
    """Several processes that train one model together.

    Attributes:
        n_ranks: their present number.
        n_restarts: how often they have begun again from a checkpoint, because one was lost.
    """

    n_ranks: int
    n_restarts: int

    @property
    def remark(self) -> str:
        """What to add to the description of a training: how they divide the work, and what was lost."""

    @property
    def run(self) -> gpu.Run:
        """Train with them; for `gpu.fit`."""

    def moved(self) -> Moved:
        """What they have exchanged since the last call."""


class Progress:
    """Tells the supervisor how far a training is."""

    def __init__(
        self, send: Callable[[TrainerMessage], None], backend: str, team: Team | None = None, *, tunes: bool = False
    ) -> None:
        """Prepare.

        Args:
            send: called with each message.
            backend: whether the training is on the host or the device, and why.
            team: the processes that train together; None: this one.
            tunes: whether the training begins with a search for parameters.
        """
        self._send, self._backend, self._team = send, backend, team
        self._tuned_share = TUNING_SHARE if tunes else 0.0

    def begin(self, phase: str) -> None:
        """A phase begins, one of `STEPS`."""
        self._send(TrainerMessage(phase=phase, step=STEPS[phase]))

    def compiling(self, number: int, of: int) -> None:
        """A kernel that the service will need is compiled, or loaded."""
        self._send(TrainerMessage(phase="measure", step=f"compiling {number} of {of}"))

    def searched(self, share: float) -> None:
        """A training of the search is over; `share` of all are."""
        self._send(self.message(progress=self._tuned_share * share, step=f"{STEPS['tune']}, {share:.0%}"))

    def learned(self, report: gpu.EpochReport) -> None:
        """An epoch is over."""
        share = self._tuned_share + (1 - self._tuned_share) * report.epoch / report.n_epochs
        step = f"epoch {report.epoch} of {report.n_epochs}"
        self._send(self.message(progress=share, metrics=finite(report.metrics), step=step))

    def message(self, **fields: Any) -> TrainerMessage:
        """A message with these fields, where the training runs, and what a team has exchanged since the last one."""
        if self._team is None:
            return TrainerMessage(backend=self._backend, **fields)
        sent, wait_seconds = self._team.moved()
        backend = self._backend + self._team.remark
        return TrainerMessage(backend=backend, ranks=self._team.n_ranks, sent=sent, wait_seconds=wait_seconds, **fields)


def send(message: TrainerMessage) -> None:
    """Write it to stdout, as a line of JSON."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()
