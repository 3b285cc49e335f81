"""Runs a peer's fit in another interpreter; data and results pass as .npz files in a temporary folder."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Fold
from benchmarks.peers import child
from benchmarks.peers.contract import ESTIMATES, Peer, Problem, Settings
from service.base.errors import ServiceError

ROOT = Path(__file__).parents[1]
LIMIT_S = 600.0  # seconds for a fit, with the start of the interpreter and the reading of the data
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "LK_NUM_THREADS",
    "LK_NUM_BACKEND_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip


class PeerMissing(ServiceError):
    """The interpreter lacks the library of a peer; the message says how to install it."""


class Answer(NamedTuple):
    """Result of a fit: its seconds, arrays as in `Fitted`, and the library's version. A failed fit has only `note`."""

    seconds: float
    arrays: dict[str, NDArray[Any]]
    version: str
    note: str = ""


class Harness:
    """Runs each fit of a peer in its own process, with `n_threads` threads and at most `limit_s` seconds."""

    def __init__(self, python: Path, n_threads: int, limit_s: float = LIMIT_S) -> None:
        self._python, self._n_threads, self._limit_s = python, n_threads, limit_s

    @property
    def where(self) -> str:
        """The hardware of a fit, for the tables."""
        return f"host, {self._n_threads} thread{'s' if self._n_threads > 1 else ''}"

    def run(self, peer: Peer, fold: Fold, settings: Settings) -> Answer:
        """Fit `peer` to the training part.

        Raises:
            PeerMissing: that interpreter lacks the library.
        """
        with tempfile.TemporaryDirectory(prefix="nearfield-peer-") as name:
            folder = Path(name)
            child.write_problem(folder / "problem.npz", problem_of(peer.task, fold))
            (folder / "request.json").write_text(json.dumps({"name": peer.name, "settings": settings}), "utf-8")
            try:
                done = self._call(folder)
            except subprocess.TimeoutExpired:
                return _failed(f"over {self._limit_s:g} s")
            if done.returncode == child.NOT_INSTALLED:
                raise PeerMissing(f"{done.stderr.strip()}; pip install -r benchmarks/peers/requirements.txt")
            if done.returncode:
                return _failed(f"exit status {done.returncode}: {done.stderr.strip()[-200:]}")
            return _read(folder)

    def _call(self, folder: Path) -> subprocess.CompletedProcess[str]:
        command = [str(self._python), "-m", "benchmarks.peers.child", str(folder)]
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(self._n_threads))
        return subprocess.run(  # noqa: S603
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=self._limit_s, check=False
        )


def problem_of(task: str, fold: Fold) -> Problem:
    """The data of a fit. Test values are left out, so that no peer can see them."""
    users, items, values = fold.train.coo()
    pairs = fold.test.coo()[:2] if task == ESTIMATES else (users[:0], items[:0])
    return Problem(users, items, values, (fold.train.n_users, fold.train.n_items), *pairs)


def _read(folder: Path) -> Answer:
    answer = json.loads((folder / "answer.json").read_text("utf-8"))
    with np.load(folder / "answer.npz") as file:
        return Answer(answer["seconds"], dict(file), answer["version"])


def _failed(note: str) -> Answer:
    return Answer(math.nan, {}, "", note)
