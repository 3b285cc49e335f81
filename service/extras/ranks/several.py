"""`nearfield train --ranks [--cluster]`: several processes, with a temporary folder, removed even after a signal."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from service.cli.console import complain
from service.extras.ranks.cluster import Cluster
from service.extras.ranks.cluster_address import ClusterAddress
from service.extras.ranks.ranks import Ranks


@contextlib.contextmanager
def ranks_of(n_ranks: int, cluster: ClusterAddress | None = None) -> Iterator[Ranks]:
    """The ranks of a training.

    SIGTERM, and the end of the terminal, end the block and then this process in an orderly way.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # nohup ignores the end of the terminal
                signal.signal(number, _end)
        with tempfile.TemporaryDirectory(prefix="nearfield-") as folder:
            launcher = None if cluster is None else Cluster(cluster)
            yield Ranks(n_ranks, Path(folder) / "work", _report, launcher=launcher)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(loss: str) -> None:
    complain(loss, 0)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
