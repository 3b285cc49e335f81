"""A rank: one of the processes that train a model together; `service.jobs.ranks` starts and watches it.

It reads the key of the attempt from its standard input, proves to the coordinator that it knows it, and learns the
ports of all ranks and the work folder. Then it trains its part of the ratings. Rank 0 writes checkpoints and the model.
It ends when the coordinator ends, even by SIGKILL: the connection closes.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import socket
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

import gpu
from gpu.algorithms import trainer_of
from gpu.errors import EngineError
from gpu.exchange import ALONE, Exchange
from gpu.host import exchange as ring
from gpu.model import Model
from gpu.training.loop import State, Trainer, train
from service import threads, tuning
from service.errors import ServiceError
from service.jobs.rank_messages import (
    ALIVE_EVERY_S,
    Alive,
    Challenge,
    Connection,
    EpochDone,
    Failed,
    Finished,
    Hello,
    Joined,
    PartDone,
    Refused,
    Start,
    proof,
    versions,
)
from service.storage import checkpoints, partition_store
from service.storage.checkpoints import CheckpointWriter

LOOPBACK = "127.0.0.1"
ORPHANED = 3  # exit status of a rank whose coordinator is gone
# Seconds. The coordinator ends a rank that hangs much earlier, and a neighbor that ends closes its connection.
RING_TIMEOUT_S = 24 * 3600.0


class _Checkpoints:
    """The checkpoint that the coordinator has chosen, and those that rank 0 writes; reports the end of each part."""

    def __init__(self, connection: Connection, start: Start, digest: str, trainer: Trainer[Model], rank: int) -> None:
        self._connection, self._start, self._digest, self._trainer = connection, start, digest, trainer
        self._work = Path(start.work)
        self._writer = CheckpointWriter(self._work, digest) if rank == 0 else None

    def last(self) -> tuple[int, State] | None:
        """See `gpu.training.loop.Checkpoints`."""
        n_parts = self._start.n_parts
        return (n_parts, checkpoints.read(self._work, self._digest, n_parts)) if n_parts else None

    def save(self, n_parts: int, state: State) -> None:
        """See `gpu.training.loop.Checkpoints`."""
        if self._writer is not None:
            self._writer.save(n_parts, state)
        self._connection.send(PartDone(n_parts, self._trainer.n_parts, self._trainer.seconds))


def main(arguments: list[str] | None = None) -> int:
    """Train as one of several ranks; exit status 0 if the training is complete."""
    parser = argparse.ArgumentParser(prog="service.jobs.rank", description=main.__doc__)
    parser.add_argument("--port", type=int, required=True, help="port of the coordinator on loopback")
    parser.add_argument("--rank", type=int, required=True, help="number of this rank, from 0")
    options = parser.parse_args(arguments)
    key = bytes.fromhex(sys.stdin.readline())
    tuning.configure()
    tuning.limit_blas()
    with socket.create_server((LOOPBACK, 0)) as listener:
        connection = Connection(socket.create_connection((LOOPBACK, options.port)))
        first = _hello(connection, options.rank, key, listener)
        if not isinstance(first, Start):
            print(f"refused: {first.reason}", file=sys.stderr)  # noqa: T201 (the coordinator reads it)
            return 1
        threads.helper("coordinator", lambda: _end_with(connection))
        threads.helper("alive", lambda: _signal_life(connection))
        return _ended(connection, options.rank, key, listener, first)


def _hello(connection: Connection, rank: int, key: bytes, listener: socket.socket) -> Start | Refused:
    """Introduce this rank; return what the coordinator answers."""
    challenge = connection.next()
    assert isinstance(challenge, Challenge)  # noqa: S101 (tells the type checker)
    port = listener.getsockname()[1]
    connection.send(Hello(rank, proof(key, challenge.nonce, rank), port, versions()))
    answer = connection.next()
    assert isinstance(answer, Start | Refused)  # noqa: S101 (tells the type checker)
    return answer


def _ended(connection: Connection, rank: int, key: bytes, listener: socket.socket, start: Start) -> int:
    """Train, and return the exit status; a failure is sent to the coordinator."""
    try:
        _train(connection, rank, key, listener, start)
    except Exception as error:
        if not isinstance(error, EngineError | ServiceError):
            traceback.print_exc()
        connection.send(Failed.of(error))
        return 1
    connection.send(Finished())
    return 0


def _train(connection: Connection, rank: int, key: bytes, listener: socket.socket, start: Start) -> None:
    work = Path(start.work)
    backend = replace(gpu.choose(start.backend), kept_bytes=start.kept_bytes)  # type: ignore[arg-type]
    exchange = _joined(backend, rank, key, listener, start)
    connection.send(Joined())
    data = partition_store.read(work)
    trainer = trainer_of(data.ratings, data.params, backend, data.test, data.calibration, exchange)

    def on_epoch(report: gpu.EpochReport) -> None:
        if rank == 0:
            metrics = {name: value if math.isfinite(value) else None for name, value in report.metrics.items()}
            connection.send(EpochDone(report.epoch, report.n_epochs, report.seconds, metrics))

    kept = _Checkpoints(connection, start, data.digest, trainer, rank)
    model = train(trainer, on_epoch if start.has_reports else None, kept)
    exchange.close()
    if rank == 0:
        partition_store.write_model(work, model)


def _joined(backend: gpu.Backend, rank: int, key: bytes, listener: socket.socket, start: Start) -> Exchange:
    """The exchange with the other ranks, if there are any."""
    if len(start.ports) == 1:
        return ALONE
    addresses = [(LOOPBACK, port) for port in start.ports]
    return backend.exchange(ring.connect(rank, addresses, listener, key, RING_TIMEOUT_S))


def _end_with(connection: Connection) -> None:
    """Wait for the end of the connection, and end this process at once: a kernel or a collective may still run."""
    while connection.receive() is not None:
        pass
    os._exit(ORPHANED)


def _signal_life(connection: Connection) -> None:
    with contextlib.suppress(OSError):  # the coordinator is gone, and `_end_with` ends this process
        while True:
            connection.send(Alive())
            time.sleep(ALIVE_EVERY_S)


if __name__ == "__main__":
    sys.exit(main())
