"""`Cluster`: starts ranks on the workers of a Dask cluster, one on each. Needs the extra `cluster`.

A task of Dask cannot be killed, and one that holds Python's lock loses its worker. So a rank is a process here too. The
task only starts it, waits, and kills it when the coordinator says so or its worker closes. Dask neither repeats nor
moves such a task: `service.extras.ranks.ranks` begins a new attempt instead.
"""

from __future__ import annotations

import contextlib
import importlib
import platform
import shutil
import socket
import tempfile
import time
from collections import Counter
from importlib import metadata, util
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gpu.base.backend import Backend
from service.extras.ranks.cluster_address import ClusterAddress
from service.extras.ranks.errors import ClusterUnavailable, RankRefused
from service.extras.ranks.launcher import RankEnd
from service.extras.ranks.rank_messages import versions
from service.extras.ranks.rank_process import LEAVE_S, RankProcess, environment
from service.jobs.gpu_order import inherited
from service.settings.addresses import is_loopback
from service.settings.settings import Settings

CONNECT_S = 10.0  # seconds until the scheduler has answered
WAIT_S = 60.0  # seconds until there are enough workers
STALE_S = 15.0  # a worker that was heard this much earlier than the latest one is not used: its machine may be gone
END_S = 10.0  # seconds that a worker gets to kill its rank
POLL_S = 0.05
CLOSING = ("closing", "closing_gracefully", "closed", "failed")  # states of a worker
DASK_SETS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")
_stopped: set[str] = set()  # of a worker: names of tasks that the coordinator has ended


class _Task(NamedTuple):
    """What a worker needs to start a rank.

    Attributes:
        name: of the task.
        rank, coordinator, key, backend: see `service.extras.ranks.launcher.Launcher.start`.
        place, n_here: number of the rank among those of its machine, and their number.
    """

    name: str
    rank: int
    coordinator: tuple[str, int]
    key: bytes
    backend: Backend
    place: int
    n_here: int


class Cluster:
    """The launcher; see `service.extras.ranks.launcher.Launcher`."""

    def __init__(self, cluster: ClusterAddress, wait_s: float = WAIT_S) -> None:
        """Prepare; `available` connects.

        Args:
            cluster: address of its scheduler.
            wait_s: seconds to wait for workers.

        Raises:
            ClusterUnavailable: the package distributed is not installed.
        """
        self._distributed, self._cluster, self._wait_s = dask(), cluster, wait_s
        self._client: Any = None
        self._workers: list[str] = []

    def available(self, n_ranks: int, backend: Backend) -> int:
        """At the first call all ranks must find a worker, later at least one.

        Raises:
            ClusterUnavailable: the scheduler does not answer, or has too few workers for too long.
            RankRefused: a worker has other versions.
        """
        del backend
        n_needed, address = 1, self._cluster.address
        if self._client is None:
            certificates, n_needed = security(self._cluster), n_ranks
            try:
                self._client = self._distributed.Client(
                    address, security=certificates, timeout=CONNECT_S, set_as_default=False
                )
            except (OSError, ValueError) as error:  # a certificate that is not accepted is one of both
                raise ClusterUnavailable(
                    f"The scheduler {address} does not answer: {error or type(error).__name__}; start it by"
                    " `nearfield cluster scheduler`"
                ) from error
        deadline = time.monotonic() + self._wait_s
        while len(workers := self._alive()) < n_needed:
            if time.monotonic() > deadline:
                raise ClusterUnavailable(
                    f"The cluster {address} has {len(workers)} of {n_needed} workers after {self._wait_s:g} s; run"
                    f" `nearfield cluster worker --scheduler {address}` on more machines, or ask for fewer ranks"
                )
            time.sleep(POLL_S * 10)
        self._workers = sorted(workers, key=lambda worker: not is_here(_host(worker)))[:n_ranks]
        # Compare versions by functions that any version of Nearfield has: a rank would do it too late.
        for name, expected in versions().items():
            function, arguments = (platform.python_version, ()) if name == "python" else (metadata.version, (name,))
            answers = self._client.run(function, *arguments, workers=self._workers, on_error="return")
            for worker, version in answers.items():
                if version != expected:
                    raise RankRefused(
                        f"Invalid worker {worker}: expected {name} {expected}, got {version}; install the same versions"
                        " on all machines"
                    )
        return len(self._workers)

    def weights(self, n_ranks: int, backend: Backend) -> tuple[float, ...]:
        """Equal ones."""
        del backend
        return (1.0,) * n_ranks

    def host(self) -> str:
        """The interface toward a worker on another machine, or else toward the scheduler."""
        hosts = [host for host in map(_host, self._workers) if not is_loopback(host)]
        return toward(hosts[-1] if hosts else self._cluster.host)

    def start(self, rank: int, n_ranks: int, coordinator: tuple[str, int], key: bytes, backend: Backend) -> _HeldRank:
        """A task for one worker; rank 0 is on this machine if it has a worker."""
        worker = self._workers[rank]
        before = Counter(map(_host, self._workers[:rank]))
        on_all = Counter(map(_host, self._workers[:n_ranks]))
        name = f"nearfield-rank-{rank}-{key.hex()[:16]}"
        task = _Task(name, rank, coordinator, key, backend, before[_host(worker)], on_all[_host(worker)])
        future = self._client.submit(
            hold, tuple(task), key=name, workers=[worker], allow_other_workers=False, pure=False, retries=0
        )
        return _HeldRank(self, worker, name, future)

    def close(self) -> None:
        """Leave the cluster; its workers stay."""
        if self._client is not None:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                self._client.close(timeout=CONNECT_S)
            self._client = None

    def stop(self, worker: str, name: str) -> bool:
        """Have a worker kill the rank of a task; False if there is no such worker any more."""
        if self._client.status != "running" or worker not in self._alive():
            return False
        self._client.run(stop, name, workers=[worker], on_error="ignore")
        return True

    def _alive(self) -> list[str]:
        """Addresses of the workers that were heard lately, in a fixed order."""
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, KeyError) as error:  # a client without a connection knows no workers
            raise ClusterUnavailable(
                f"The scheduler {self._cluster.address} is gone; start it again, and the workers after it"
            ) from error
        latest_s = max((worker["last_seen"] for worker in workers.values()), default=0.0)
        return sorted(name for name, worker in workers.items() if latest_s - worker["last_seen"] < STALE_S)


class _HeldRank:
    """A rank that a task of Dask holds; see `service.extras.ranks.launcher.Rank`."""

    def __init__(self, cluster: Cluster, worker: str, name: str, future: Any) -> None:
        self._cluster, self._worker, self._name, self._future = cluster, worker, name, future

    def ended(self) -> RankEnd | None:
        """How it ended, as far as Dask knows: if its worker is gone, only its connection shows it."""
        if self._future.status == "pending":
            return None
        if self._future.status == "error":
            error = self._future.exception(timeout=END_S)
            return RankEnd(1, f"worker {self._worker}: {type(error).__name__}: {error}")
        if self._future.status != "finished":
            return RankEnd(1, f"worker {self._worker}: the task is {self._future.status}")
        try:
            return RankEnd._make(self._future.result(timeout=END_S))
        except Exception as error:  # the worker may be lost before it has sent the result
            return RankEnd(1, f"worker {self._worker}: {error}")

    def leave(self) -> None:
        """Wait for the end of the task."""
        self._wait(LEAVE_S)

    def end(self) -> None:
        """Have it killed by its worker. If the worker or the scheduler is gone, it ends with its connection."""
        with contextlib.suppress(Exception):  # the scheduler or the worker may go meanwhile
            if self._future.status == "pending" and self._cluster.stop(self._worker, self._name):
                self._wait(END_S)
            self._future.cancel(force=True)

    def _wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self._future.status == "pending" and time.monotonic() < deadline:
            time.sleep(POLL_S)


def hold(content: tuple[Any, ...]) -> tuple[Any, ...]:
    """Start a rank, and wait until it ends or has to; on a worker. `content` is a `_Task`; returns an `RankEnd`."""
    task, worker = _Task._make(content), dask().get_worker()
    folder = Path(tempfile.mkdtemp(prefix="nearfield-rank-"))
    variables = environment(inherited(without=DASK_SETS), task.place, task.n_here, task.backend)
    try:
        process = RankProcess(task.rank, task.coordinator, task.key, variables, folder)
        try:
            while (ended := process.ended()) is None:
                if task.name in _stopped or worker.status.name in CLOSING:
                    break
                time.sleep(POLL_S)
        finally:
            process.end()
        ended = ended or process.ended()
        assert ended is not None  # noqa: S101 (tells the type checker)
        return tuple(ended)
    finally:
        _stopped.discard(task.name)
        shutil.rmtree(folder, ignore_errors=True)


def stop(name: str) -> None:
    """Have `hold` kill the rank of a task; on a worker."""
    _stopped.add(name)


def dask() -> Any:
    """The package distributed.

    Raises:
        ClusterUnavailable: it is not installed.
    """
    require_dask()
    return importlib.import_module("distributed")


def require_dask() -> None:
    """Check that the package distributed is installed, without importing it.

    Raises:
        ClusterUnavailable: it is not.
    """
    if util.find_spec("distributed") is None:
        raise ClusterUnavailable(
            "Invalid cluster: expected the package distributed, got none; install nearfield with the extra cluster"
            " (pip install '.[cluster]' in a checkout)"
        )


def check(settings: Settings) -> None:
    """Check the cluster in the settings, if there is one, before the first training needs it.

    Raises:
        InvalidSetting: its address is none, or needs TLS, or its certificates cannot be used.
        ClusterUnavailable: the package distributed is not installed.
    """
    if (cluster := ClusterAddress.of(settings)) is not None:
        cluster.check_files()
        require_dask()


def security(cluster: ClusterAddress) -> Any:
    """The certificates, for each of the three roles; None on loopback without TLS.

    Raises:
        InvalidSetting: they cannot be used.
    """
    cluster.check_files()
    if cluster.scheme == "tcp":
        return None
    files = {
        f"tls_{role}_{kind}": path
        for role in ("client", "scheduler", "worker")
        for kind, path in (("cert", cluster.tls_cert), ("key", cluster.tls_key))
    }
    return dask().Security(tls_ca_file=cluster.tls_ca, require_encryption=True, **files)


def toward(host: str) -> str:
    """The address of this machine's interface toward a host; nothing is sent."""
    family, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        interface: str = probe.getsockname()[0]
        return interface


def is_here(host: str) -> bool:
    """Whether an address belongs to this machine."""
    with contextlib.suppress(OSError), socket.create_server((host, 0)):
        return True
    return False


def _host(worker: str) -> str:
    return urlsplit(worker).hostname or worker
