"""Folders on the way between the coordinator and ranks that do not see its work folder.

A rank opens a second connection to the coordinator, proves that it knows the key, and sends `Fetch` or `Deliver`. Side
by side:

    rank                                coordinator
    Fetch (ratings or a checkpoint)  →
                                     ←  Sizes
    TransferAccepted                 →
                                     ←  the files
    Deliver (a checkpoint, the model) →
                                     ←  TransferAccepted
    the files                        →
                                     ←  TransferAccepted, after all checksums
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from service.base import threads
from service.base.errors import ServiceError
from service.extras.ranks import array_folder, checkpoints, folder_copy
from service.extras.ranks.rank_messages import (
    Challenge,
    Deliver,
    Fetch,
    Message,
    RankConnection,
    RankFailed,
    Sizes,
    TransferAccepted,
    proof,
)

TIMEOUT_S = 60.0  # seconds without a byte after which a transfer is torn
_M = TypeVar("_M", bound=Message)
_FOLDER = re.compile(r"ratings|model|checkpoint-\d+")


class Transfers:
    """The coordinator's side: each transfer has a thread.

    Attributes:
        n_bytes: moved so far, by all transfers.
        failure: the work folder cannot be written; None while it can.
    """

    def __init__(self, work: Path) -> None:
        """Move folders from and to the work folder `work`."""
        self._work, self.n_bytes = work, 0
        self.failure: ServiceError | None = None
        self._running: list[tuple[RankConnection, threading.Thread]] = []

    def serve(self, connection: RankConnection, wanted: Fetch | Deliver) -> None:
        """Start a transfer with a rank that has proved who it is; the caller closes the connection after `end`."""

        def count(n_bytes: int) -> None:
            self.n_bytes += n_bytes  # two threads may lose a count: the coordinator looks for changes only

        def transfer() -> None:
            with contextlib.suppress(OSError, msgspec.MsgspecError):  # the rank is gone: its main connection shows it
                try:
                    if not _FOLDER.fullmatch(wanted.folder):
                        raise ConnectionError(
                            f"Invalid folder: expected ratings, model or checkpoint-N, got {wanted.folder!r}"
                        )
                    folder = self._work / wanted.folder
                    if isinstance(wanted, Fetch):
                        sizes = folder_copy.sizes(folder)
                        connection.send(Sizes(sizes))
                        expect(connection, TransferAccepted)
                        folder_copy.send(folder, sizes, connection.socket, count)
                    else:
                        connection.send(TransferAccepted())
                        folder_copy.receive(folder, wanted.sizes, connection.socket, count)
                        checkpoints.prune(self._work)
                        connection.send(TransferAccepted())
                except ServiceError as error:  # the rank may still send, and would not hear of it
                    self.failure = error
                except OSError as error:
                    connection.send(RankFailed.of(error))

        connection.socket.settimeout(TIMEOUT_S)
        self._running.append((connection, threads.helper("transfer", transfer)))

    def end(self) -> None:
        """Tear what is still on the way; nothing is written afterward."""
        for connection, thread in self._running:
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
            thread.join()


class RankTransfers:
    """A rank's side."""

    def __init__(self, coordinator: tuple[str, int], rank: int, key: bytes) -> None:
        """Connect to `coordinator` (host, port) for each transfer, as rank `rank` that knows `key`."""
        self._coordinator, self._rank, self._key = coordinator, rank, key

    def fetch(self, target: Path, digest: str) -> None:
        """Make `target` a copy of the folder of this name in the coordinator's work folder.

        Args:
            target: the folder.
            digest: SHA-256 of its manifest.

        Raises:
            ConnectionError, TimeoutError: the copy is torn or altered; another attempt may succeed.
            WorkFolderUnavailable: there is no room for it.
        """
        with self._opened() as (connection, own_proof):
            connection.send(Fetch(self._rank, own_proof, target.name))
            sizes = expect(connection, Sizes).sizes
            connection.send(TransferAccepted())
            folder_copy.receive(target, sizes, connection.socket)
        if array_folder.digest_of(target) != digest:
            raise ConnectionError(f"{target.name} arrived altered: its manifest does not have the expected SHA-256")

    def deliver(self, folder: Path) -> None:
        """Copy a folder to the coordinator's work folder; returns when it is there.

        Raises:
            ConnectionError, TimeoutError: the coordinator is gone, or got an altered copy.
            WorkFolderUnavailable: there is no room for it.
        """
        sizes = folder_copy.sizes(folder)
        with self._opened() as (connection, own_proof):
            connection.send(Deliver(self._rank, own_proof, folder.name, sizes))
            expect(connection, TransferAccepted)
            folder_copy.send(folder, sizes, connection.socket)
            expect(connection, TransferAccepted)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[RankConnection, str]]:
        with socket.create_connection(self._coordinator, TIMEOUT_S) as opened:
            connection = RankConnection(opened)
            challenge = expect(connection, Challenge)
            yield connection, proof(self._key, challenge.nonce, self._rank)


def expect(connection: RankConnection, kind: type[_M]) -> _M:
    """The next message, if it is of this kind; else raises the error that it tells, or `ConnectionError`."""
    message = connection.next()
    if isinstance(message, kind):
        return message
    if isinstance(message, RankFailed):
        raise message.error() or ConnectionError(message.message)
    raise ConnectionError(f"Invalid message: expected {kind.__name__}, got {type(message).__name__}")
