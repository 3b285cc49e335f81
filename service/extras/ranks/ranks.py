"""`Ranks`: trains a model by several processes, with restarts from checkpoints.

An attempt is all or nothing: if one rank is lost, all end, and the next attempt goes on from the newest checkpoint. At
most one part of an epoch is lost. The next attempt has one rank fewer if a rank could not be started, and after memory
has run out twice.
"""

from __future__ import annotations

import contextlib
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import gpu
from gpu.algorithms import check_ranks
from gpu.base.backend import Backend
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings
from gpu.data.signals import Calibration
from gpu.ranks.traffic import Moved
from gpu.training.loop import OnEpoch
from service.extras.ranks import checkpoints, partition_store
from service.extras.ranks.attempt import AttemptLost, AttemptPlan, TrainingAttempt
from service.extras.ranks.errors import RanksFailed, WorkFolderUnavailable
from service.extras.ranks.launcher import Launcher
from service.extras.ranks.rank_messages import Divided, EpochDone, Message, PartDone
from service.extras.ranks.rank_process import Here
from service.extras.ranks.rank_watch import RankLimits

MAX_MEMORY_LOSSES = 2  # times that memory may run out before there is one rank fewer


@dataclass
class _KeptProgress:
    """What survives an attempt.

    Attributes:
        n_parts: completed parts of the newest checkpoint.
        n_fruitless: attempts in a row that wrote no new checkpoint.
        n_memory: times that memory ran out with this number of ranks.
        n_epochs: epochs that were reported.
        seconds: training time after each number of parts.
    """

    n_parts: int = 0
    n_fruitless: int = 0
    n_memory: int = 0
    n_epochs: int = 0
    seconds: dict[int, float] = field(default_factory=lambda: {0: 0.0})


class Ranks:
    """Several ranks; `run` is the `run` of `gpu.fit`.

    Attributes:
        n_ranks: P of the present attempt.
        n_restarts: attempts that have been lost.
        attempt: the present or last one.
        division: how the ranks of that attempt divide the work; empty until it is known, and if there is only one way.
    """

    def __init__(
        self,
        n_ranks: int,
        work: Path,
        on_loss: Callable[[str], None],
        launcher: Launcher | None = None,
    ) -> None:
        """Prepare.

        Args:
            n_ranks: number of processes.
            work: folder for ratings, checkpoints and the model; `run` makes and removes it.
            on_loss: called with a sentence after each lost attempt, before the next one starts.
            launcher: starts the processes; default: on this machine.
        """
        self.n_ranks, self.n_restarts = n_ranks, 0
        self._n_wanted, self._launcher = n_ranks, launcher or Here()
        self._work, self._on_loss = work, on_loss
        self.attempt: TrainingAttempt | None = None
        self.division = ""
        self._sent, self._wait_s = Counter[str](), 0.0

    @property
    def remark(self) -> str:
        """What to add to the description of a training: how its ranks divide the work, and lost attempts."""
        division = f", {self.division}" if self.division else ""
        if not self.n_restarts:
            return division
        lost = f"{self.n_restarts} lost attempt{'s' * (self.n_restarts > 1)}"
        return f"{division}, {lost}, {self.n_ranks} ranks in the last one"

    def moved(self) -> Moved:
        """What all ranks have exchanged since the last call."""
        moved = Moved(dict(self._sent), self._wait_s)
        self._sent, self._wait_s = Counter(), 0.0
        return moved

    def run(
        self,
        ratings: Ratings,
        params: Params,
        backend: Backend,
        test: Ratings | None,
        on_epoch: OnEpoch | None,
        calibration: Calibration,
    ) -> Model:
        """Run all epochs; the arguments are those of `gpu.algorithms.run_here`, and so is the result.

        Raises:
            InvalidParams: the algorithm cannot use several ranks.
            BackendUnavailable: this machine has fewer GPUs than ranks.
            RanksFailed: rank after rank was lost without progress.
            RankRefused: a rank has other versions.
            WorkFolderUnavailable: the disk is full or broken.
            EngineError: the training failed as it would in one process.
        """
        check_ranks(params.algorithm, self.n_ranks)
        with contextlib.closing(self._launcher), new_work_folder(self._work):
            self.n_ranks = self._launcher.available(self._n_wanted, backend)
            digest = partition_store.write(self._work, ratings, test, params, calibration)
            progress = _KeptProgress()
            while True:  # make attempts until one succeeds
                plan = AttemptPlan(self._work, backend, self.n_ranks, progress.n_parts, on_epoch is not None)
                # The time of earlier attempts counts too; a rank that was killed may not have sent the last one.
                before_s = progress.seconds.get(plan.n_parts, max(progress.seconds.values()))

                def note(rank: int, message: Message, before_s: float = before_s) -> None:
                    """Count what all ranks exchange; keep and report what rank 0 says."""
                    if isinstance(message, PartDone):
                        self._sent.update(message.sent)
                        self._wait_s += message.wait_seconds
                    if rank != 0:
                        return
                    if isinstance(message, Divided):
                        self.division = message.division
                    if isinstance(message, PartDone):
                        progress.seconds[message.n_parts] = before_s + message.seconds
                    if isinstance(message, EpochDone) and on_epoch is not None and message.epoch > progress.n_epochs:
                        progress.n_epochs = message.epoch
                        metrics = {name: math.nan if v is None else v for name, v in message.metrics.items()}
                        seconds = before_s + message.seconds
                        on_epoch(gpu.EpochReport(message.epoch, message.n_epochs, seconds, metrics))

                self.division = ""
                self.attempt = TrainingAttempt(plan, self._launcher, RankLimits(), note)
                try:
                    self.attempt.run()
                except AttemptLost as lost:
                    self._go_on(progress, lost, digest, backend)
                else:
                    return partition_store.read_model(self._work, params)

    def _go_on(self, progress: _KeptProgress, lost: AttemptLost, digest: str, backend: Backend) -> None:
        """Prepare the next attempt, with as many ranks as can be expected to last.

        Raises:
            RanksFailed: there was no progress for too long.
        """
        newest = checkpoints.newest(self._work, digest)
        progress.n_fruitless = 0 if newest > progress.n_parts else progress.n_fruitless + 1
        progress.n_parts = newest
        self.n_restarts += 1
        if progress.n_fruitless == RankLimits().n_fruitless:
            raise RanksFailed(f"{progress.n_fruitless} attempts in a row made no progress; in the last one {lost}")
        progress.n_memory += lost.is_memory
        if self.n_ranks > 1 and (lost.is_start or progress.n_memory == MAX_MEMORY_LOSSES):
            self._n_wanted, progress.n_memory = self.n_ranks - 1, 0
        self.n_ranks = self._launcher.available(self._n_wanted, backend)
        resumed = f"the next one continues after part {newest} with {self.n_ranks} ranks"
        self._on_loss(f"attempt {self.n_restarts} lost: {lost}; {resumed}")


@contextlib.contextmanager
def new_work_folder(work: Path) -> Iterator[None]:
    """A new folder that is removed at the end."""
    try:
        work.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise WorkFolderUnavailable.of(work, error) from error
    try:
        yield
    finally:
        shutil.rmtree(work, ignore_errors=True)
