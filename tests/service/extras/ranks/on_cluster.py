"""Trains on a Dask cluster of two processes of this machine, for test_cluster.py. Prints one JSON object.

It is a process of its own: distributed leaves sockets to the garbage collector, which warns about them, and our tests
turn warnings into errors.
"""

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from distributed import LocalCluster

import gpu
from service.extras.ranks import cluster
from service.extras.ranks.cluster import Cluster
from service.extras.ranks.cluster_address import ClusterAddress
from service.extras.ranks.commands import scheduler
from service.extras.ranks.errors import ClusterUnavailable, RankRefused
from service.extras.ranks.rank_messages import versions
from service.extras.ranks.ranks import Ranks
from tests.data import planted
from tests.service.process import descendants

PARAMS = gpu.params_for("als", {"n_factors": 4, "n_epochs": 30})


def ranks() -> list[psutil.Process]:
    """The processes of ranks."""
    return descendants("service.extras.ranks.rank")


def trained(address: ClusterAddress, *, is_killed: bool) -> dict[str, Any]:
    """Train on two workers, of which one may be killed; what happened."""
    work, losses, environments = Path(tempfile.mkdtemp()) / "work", list[str](), list[dict[str, str]]()
    group = Ranks(2, work, losses.append, launcher=Cluster(address))

    def on_epoch(report: gpu.EpochReport) -> None:
        if report.epoch == 5 and not environments:
            found = ranks()
            environments.extend(rank.environ() for rank in found)
            if is_killed:
                os.kill(found[1].ppid(), signal.SIGKILL)

    model, expected = gpu.fit(planted(), PARAMS, on_epoch=on_epoch, run=group.run), gpu.fit(planted(), PARAMS)
    deadline = time.monotonic() + 60  # the rank of a killed worker ends by itself
    while ranks() and time.monotonic() < deadline:
        time.sleep(0.1)
    return {
        "has_equal_bits": all((array == expected.arrays[name]).all() for name, array in model.arrays.items()),
        "losses": losses,
        "n_ranks": group.n_ranks,
        "has_threads_of_dask": any("OMP_NUM_THREADS" in environment for environment in environments),
        "n_environments": len(environments),
        "left": [rank.cmdline() for rank in ranks()] + [str(work)] * work.exists(),
    }


def refused(address: ClusterAddress, n_ranks: int) -> str:
    """Why a training on `n_ranks` workers does not begin."""
    group = Ranks(n_ranks, Path(tempfile.mkdtemp()) / "work", print, launcher=Cluster(address, wait_s=1))
    try:
        gpu.fit(planted(), PARAMS, run=group.run)
    except (ClusterUnavailable, RankRefused) as error:
        return str(error)
    return "not refused"


def second_scheduler(address: ClusterAddress) -> tuple[str, list[str]]:
    """Why a scheduler does not start at an address that is in use, and the files that it leaves."""
    reason, before = "it started", tempfile.tempdir
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        try:
            scheduler(address.host, address.port)
        except ClusterUnavailable as error:
            reason = str(error)
        tempfile.tempdir = before
        return reason, [path.name for path in Path(folder).iterdir()]


def main() -> None:
    """Run all trainings."""
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as local:
        address = ClusterAddress(local.scheduler_address)
        found: dict[str, Any] = {"three": refused(address, 3), "busy": second_scheduler(address)}
        found["undisturbed"] = trained(address, is_killed=False)
        found["killed"] = trained(address, is_killed=True)
        vars(cluster)["versions"] = lambda: versions() | {"numpy": "1.0"}
        found["versions"] = refused(address, 1)
    found["gone"] = refused(address, 2)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
