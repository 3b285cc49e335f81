"""A rank: one of the processes that train a model together; `service.extras.ranks.ranks` starts and watches it.

It reads the key of the attempt from its standard input, proves to the coordinator that it knows it, and learns the
addresses of all ranks and the work folder. Then it trains its part of the ratings. Rank 0 writes checkpoints and the
model. It ends when the coordinator ends, even by SIGKILL: the connection closes. It also ends with the process that
has started it: its standard input closes.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import socket
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import gpu
from gpu.algorithms import trainer_of
from gpu.base.errors import EngineError
from gpu.data.model import Model
from gpu.ranks import ring
from gpu.ranks.choice import exchange_on
from gpu.ranks.exchange import ALONE, Exchange
from gpu.training.loop import State, Trainer, train
from service.base import imports, threads, tuning
from service.base.errors import ServiceError
from service.extras.ranks import array_folder, checkpoints, partition_store
from service.extras.ranks.checkpoints import CheckpointWriter
from service.extras.ranks.errors import CorruptWorkFile
from service.extras.ranks.rank_messages import (
    ALIVE_EVERY_S,
    Challenge,
    Divided,
    EpochDone,
    Finished,
    Joined,
    PartDone,
    RankAlive,
    RankConnection,
    RankFailed,
    RankHello,
    Refused,
    Start,
    listen,
    proof,
    versions,
)
from service.extras.ranks.rank_process import trusts_links
from service.extras.ranks.transfers import RankTransfers

LOOK_S = 0.05  # seconds of parts between two looks at whether a checkpoint is due
ORPHANED = 3  # exit status of a rank whose coordinator or parent is gone
ACKNOWLEDGED_MS = 30_000  # without an answer of the coordinator's machine, after which it counts as gone
# Seconds. The coordinator ends a rank that hangs much earlier, and a neighbor that ends closes its connection.
RING_TIMEOUT_S = 24 * 3600.0


class _Checkpoints:
    """The checkpoint that the coordinator has chosen, and those that rank 0 writes; reports completed parts.

    All ranks bring the parameters of a checkpoint together, so after some parts rank 0 tells the others whether one is
    due. That takes some tenths of a millisecond, and a part on several GPUs may take two milliseconds. So rank 0 also
    says how many parts may follow before the next look: none beside small checkpoints, which follow every part; else as
    many as take about `LOOK_S`, at most twice as many as before.
    """

    def __init__(
        self,
        connection: RankConnection,
        n_parts: int,
        trainer: Trainer[Model],
        work: Path,
        digest: str,
        writer: CheckpointWriter | None,
        exchange: Exchange,
    ) -> None:
        self._connection, self._n_parts, self._trainer, self._exchange = connection, n_parts, trainer, exchange
        self._work, self._digest, self._writer = work, digest, writer
        self._n_between, self._n_looked, self._looked_s = 1, n_parts, time.monotonic()

    def last(self) -> tuple[int, State] | None:
        """See `gpu.training.loop.Checkpoints`."""
        n_parts = self._n_parts
        return (n_parts, checkpoints.read(self._work, self._digest, n_parts)) if n_parts else None

    def part_done(self, n_parts: int, state: Callable[[], State]) -> None:
        """See `gpu.training.loop.Checkpoints`."""
        n_new, n_of_epoch = n_parts - self._n_looked, self._trainer.n_parts
        if n_new < self._n_between and n_parts < self._trainer.n_epochs * n_of_epoch:
            return
        now_s, is_due, n_between = time.monotonic(), False, 0
        if self._writer is not None:
            is_due = self._writer.begin()
            in_time = int(LOOK_S * n_new / max(now_s - self._looked_s, 1e-9))
            n_between = 1 if self._writer.are_small else max(1, min(in_time, 2 * self._n_between))
        are_due, n_agreed = self._exchange.totals(is_due, n_between)
        self._n_between, self._n_looked, self._looked_s = int(n_agreed), n_parts, now_s
        if are_due:
            parameters = state()
            if self._writer is not None:
                self._writer.save(n_parts, parameters)
        sent, wait_seconds = self._exchange.traffic.take()
        self._connection.send(PartDone(n_parts, n_of_epoch, self._trainer.seconds, sent, wait_seconds))


def main(arguments: list[str] | None = None) -> int:
    """Train as one of several ranks; exit status 0 if the training is complete."""
    parser = argparse.ArgumentParser(prog="service.extras.ranks.rank", description=main.__doc__)
    parser.add_argument("--host", required=True, help="address of the coordinator")
    parser.add_argument("--port", type=int, required=True, help="port of the coordinator")
    parser.add_argument("--rank", type=int, required=True, help="number of this rank, from 0")
    parser.add_argument("--folder", type=Path, help="for copies, if the work folder of the coordinator is not here")
    options = parser.parse_args(arguments)
    key = bytes.fromhex(sys.stdin.readline())
    tuning.configure()
    tuning.limit_blas()
    imports.for_models()
    coordinator = options.host, options.port
    connected = socket.create_connection(coordinator)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ACKNOWLEDGED_MS)
    with listen(connected.getsockname()[0]) as listener:  # only the network of the coordinator reaches it
        connection = RankConnection(connected)
        rank = _Rank(options.rank, key, coordinator, connection, listener, options.folder)
        first = rank.hello()
        if not isinstance(first, Start):
            print(f"refused: {first.reason}", file=sys.stderr)  # noqa: T201 (the coordinator reads it)
            return 1
        threads.helper("coordinator", rank.end_with_coordinator)
        threads.helper("parent", rank.end_with_parent)
        threads.helper("alive", rank.signal_life)
        try:
            train_as(rank, first)
        except Exception as error:
            if not isinstance(error, EngineError | ServiceError):
                traceback.print_exc()
            connection.send(RankFailed.of(error))
            return 1
        connection.send(Finished())
        return 0


class _Rank(NamedTuple):
    """This rank.

    Attributes:
        number: from 0.
        key: secret of the attempt.
        coordinator: its host and port.
        connection: to the coordinator.
        listener: for the rank before in the ring.
        folder: for copies of ratings and checkpoints; None: the work folder of the coordinator is here.
    """

    number: int
    key: bytes
    coordinator: tuple[str, int]
    connection: RankConnection
    listener: socket.socket
    folder: Path | None

    def hello(self) -> Start | Refused:
        """Introduce this rank; return what the coordinator answers."""
        challenge = self.connection.next()
        assert isinstance(challenge, Challenge)  # noqa: S101 (tells the type checker)
        port = self.listener.getsockname()[1]
        self.connection.send(RankHello(self.number, proof(self.key, challenge.nonce, self.number), port, versions()))
        answer = self.connection.next()
        assert isinstance(answer, Start | Refused)  # noqa: S101 (tells the type checker)
        return answer

    def end_with_coordinator(self) -> None:
        """Wait for the end of the connection, and end this process at once: a kernel or a collective may still run."""
        while self.connection.receive() is not None:
            pass
        self._end()

    def end_with_parent(self) -> None:
        """The same for the process that has started this one."""
        while os.read(sys.stdin.fileno(), 1):
            pass
        self._end()

    def _end(self) -> None:
        if self.folder is not None:  # its parent may be gone
            shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(ORPHANED)

    def signal_life(self) -> None:
        """Send a sign of life again and again."""
        with contextlib.suppress(OSError):  # the coordinator is gone, and `end_with_coordinator` ends this process
            while True:
                self.connection.send(RankAlive())
                time.sleep(ALIVE_EVERY_S)


def train_as(rank: _Rank, start: Start) -> None:
    """Train as this rank; raises what the training raises."""
    work, transfers = Path(start.work), None
    if rank.folder is not None and not all(is_usable(work / name, digest) for name, digest in start.folders.items()):
        # This machine does not have the work folder of the coordinator under the same path: work in a folder of copies.
        transfers = RankTransfers(rank.coordinator, rank.number, rank.key)
        for name, digest in start.folders.items():
            transfers.fetch(rank.folder / name, digest)
        work = rank.folder

    def deliver(folder: Path) -> None:
        if transfers is not None:
            transfers.deliver(folder)

    with ThreadPoolExecutor(2, "start") as pool:
        reading = pool.submit(partition_store.read, work)  # while modules, CUDA and the communicator start
        chosen = gpu.choose(start.backend).load()  # type: ignore[arg-type]
        compiling = pool.submit(partition_store.compile_once, work, chosen)
        backend = replace(chosen, kept_bytes=start.kept_bytes, limit_bytes=start.limit_bytes)
        exchange: Exchange = ALONE
        if len(start.addresses) > 1:
            links = ring.connect(rank.number, start.addresses, rank.listener, rank.key, RING_TIMEOUT_S, start.weights)
            exchange = exchange_on(backend, links, can_store=trusts_links())
        rank.connection.send(Joined())
        data = reading.result()
        compiling.result()
    trainer = trainer_of(data.ratings, data.params, backend, data.test, data.calibration, exchange)
    if rank.number == 0:
        rank.connection.send(Divided(trainer.division))

    def on_epoch(report: gpu.EpochReport) -> None:
        if rank.number == 0:
            metrics = {name: value if math.isfinite(value) else None for name, value in report.metrics.items()}
            rank.connection.send(EpochDone(report.epoch, report.n_epochs, report.seconds, metrics))

    writer = CheckpointWriter(work, data.digest, deliver) if rank.number == 0 else None
    kept = _Checkpoints(rank.connection, start.n_parts, trainer, work, data.digest, writer, exchange)
    model = train(trainer, on_epoch if start.has_reports else None, kept)
    exchange.close()
    if writer is not None:
        writer.finish()
        partition_store.write_model(work, model)
        deliver(work / partition_store.MODEL)


def is_usable(folder: Path, digest: str) -> bool:
    """Whether this process may use a folder with this content, and write beside it."""
    with contextlib.suppress(CorruptWorkFile):
        return os.access(folder.parent, os.W_OK) and array_folder.digest_of(folder) == digest
    return False


if __name__ == "__main__":
    sys.exit(main())
