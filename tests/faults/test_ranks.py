"""Ranks of a training are killed at random moments: the model has the bits of an undisturbed training."""

from __future__ import annotations

import functools
import os
import random
import re
import signal
import statistics
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import gpu
from gpu.base.backend import BackendName
from service.extras.ranks.attempt import TrainingAttempt
from service.extras.ranks.launcher import Launcher
from service.extras.ranks.rank_process import RankProcess
from service.extras.ranks.ranks import Ranks
from tests.data import planted
from tests.faults import results
from tests.service.extras.ranks.one_gpu import launcher_for
from tests.service.waiting import eventually

N_SHORT, N_LONG = 3, 50
LONGEST_S = 2.5  # between two kills; a restart takes about as long, so that some kills hit it
PARAMS = gpu.params_for("als", {"n_factors": 8, "n_epochs": 200})


class Killer:
    """Kills a random rank at random moments until `n` kills are made, or the training ends.

    Attributes:
        n_kills: kills so far.
        resumed_s: from a kill to the end of the first part afterward.
        n_lost: parts that were complete, and lost, by kill.
    """

    def __init__(self, work: Path, n: int, draw: random.Random, launcher: Launcher | None = None) -> None:
        self.ranks = Ranks(2, work, self._note, launcher=launcher)
        self.n_kills, self.resumed_s, self.n_lost = 0, list[float](), list[int]()
        self._n, self._draw, self._has_ended = n, draw, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def _note(self, loss: str) -> None:
        """Compare what rank 0 had completed with the part that the next attempt begins after."""
        assert self.ranks.attempt is not None
        resumed_after = re.search(r"after part (\d+)", loss)
        assert resumed_after is not None
        if n_done := self.ranks.attempt._watch._parts[0]:
            self.n_lost.append(n_done - int(resumed_after[1]))

    def _run(self) -> None:
        n_early = 0  # kills in a row before the first part of an attempt; three would end the training
        while self.n_kills < self._n and not self._has_ended.wait(self._draw.uniform(0, LONGEST_S)):
            if n_early == 2:
                eventually(lambda: self._has_ended.is_set() or self._has_parts(3), 60)
            attempt = self.ranks.attempt
            if attempt is None or not attempt.processes or self._has_ended.is_set():
                continue
            n_early = 0 if self._has_parts(3) else n_early + 1
            killed_s = time.monotonic()
            rank = self._draw.choice(attempt.processes)
            assert isinstance(rank, RankProcess)
            try:
                os.kill(rank.pid, signal.SIGKILL)
            except ProcessLookupError:  # the training has just ended
                continue
            self.n_kills += 1
            eventually(functools.partial(self._is_replaced, attempt), 60)
            self._measure(killed_s)

    def _is_replaced(self, attempt: TrainingAttempt) -> bool:
        return self.ranks.attempt is not attempt or self._has_ended.is_set()

    def _has_parts(self, n: int) -> bool:
        attempt = self.ranks.attempt
        return attempt is not None and len(attempt._watch._ended_s) > n

    def _measure(self, killed_s: float) -> None:
        """Wait for the next part, in half of the cases; in the other half the next kill may come first."""
        if self._draw.random() < 0.5:
            eventually(lambda: self._has_ended.is_set() or self._has_parts(1), 60)
            if self._has_parts(1) and self.ranks.attempt is not None:
                self.resumed_s.append(self.ranks.attempt._watch._ended_s[1] - killed_s)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("place", ["host", pytest.param("device", marks=pytest.mark.gpu)])
def test_killed_ranks_change_no_bit(place: BackendName, tmp_path: Path) -> None:
    backend, launcher = gpu.choose(place), launcher_for(2) if place == "device" else None
    wanted = min(results.TRIALS, N_LONG) or N_SHORT
    ratings, draw = planted(2000, 300), random.Random(wanted)
    expected, n_kills, n_trainings = gpu.fit(ratings, PARAMS, backend=backend), 0, 0
    resumed_s, n_lost = list[float](), list[int]()
    while n_kills < wanted:
        reports: list[gpu.EpochReport] = []
        with Killer(tmp_path / "work", wanted - n_kills, draw, launcher) as killer:
            model = gpu.fit(ratings, PARAMS, backend=backend, on_epoch=reports.append, run=killer.ranks.run)
        for name, array in expected.arrays.items():
            np.testing.assert_array_equal(model.arrays[name], array, err_msg=name)
        assert [report.epoch for report in reports] == list(range(1, 201))
        assert not (tmp_path / "work").exists()
        n_kills, n_trainings = n_kills + killer.n_kills, n_trainings + 1
        resumed_s, n_lost = resumed_s + killer.resumed_s, n_lost + killer.n_lost
    assert max(n_lost, default=0) <= 1
    times = f"{statistics.median(resumed_s):.1f} s, at most {max(resumed_s):.1f} s" if resumed_s else "not measured"
    results.MEASURED.append(
        f"SIGKILL of a rank, {place}: {n_kills} kills in {n_trainings} trainings, no bit changed; resumed after {times}"
    )
