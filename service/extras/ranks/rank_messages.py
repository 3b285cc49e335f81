"""Messages between the coordinator of a training (`service.extras.ranks.ranks`) and its ranks: JSON lines over TCP.

The coordinator sends `Challenge` and `Start`, or `Refused`. A rank sends `RankHello`, `Joined`, `RankAlive` every
second, `PartDone`, and in the end `Finished` or `RankFailed`. Rank 0 also sends `Divided` and `EpochDone`. All other
messages belong to `service.extras.ranks.transfers`.
"""

from __future__ import annotations

import contextlib
import hmac
import platform
import socket
import threading
from importlib import metadata
from typing import Any

import msgspec
import numpy as np

import service
from gpu.base import errors as engine_errors
from gpu.base.errors import EngineError, RankLost
from service.base.errors import ServiceError
from service.extras.ranks import errors

ALIVE_EVERY_S = 0.5  # seconds between two signs of life
MAX_BYTES = 1 << 20  # of one message
_RECEIVED_BYTES = 1 << 16  # at once


class Challenge(msgspec.Struct, tag=True, frozen=True):
    """A random number in hexadecimal digits; a rank answers with its HMAC under the key of the attempt."""

    nonce: str


class RankHello(msgspec.Struct, tag=True, frozen=True):
    """The answer of a rank: its number, its proof, the port of its ring and its versions."""

    rank: int
    proof: str
    port: int
    versions: dict[str, str]


class Refused(msgspec.Struct, tag=True, frozen=True):
    """Why the coordinator does not accept a rank."""

    reason: str


class Start(msgspec.Struct, tag=True, frozen=True):
    """All ranks are there.

    Attributes:
        addresses: host and port of the ring of each rank.
        weights: how much of the work each rank should get; see `gpu.ranks.exchange.Exchange`.
        work: work folder of the training, on the coordinator's machine.
        folders: folders in it that the rank needs, and the SHA-256 of the manifest of each.
        backend, kept_bytes, limit_bytes: see `gpu.base.backend.Backend`.
        n_parts: completed parts of the checkpoint to go on from; 0: none.
        has_reports: whether metrics are computed after each epoch.
    """

    addresses: list[tuple[str, int]]
    weights: tuple[float, ...]
    work: str
    folders: dict[str, str]
    backend: str
    kept_bytes: int
    limit_bytes: int | None
    n_parts: int
    has_reports: bool


class Joined(msgspec.Struct, tag=True, frozen=True):
    """The rank has reached its neighbors."""


class RankAlive(msgspec.Struct, tag=True, frozen=True):
    """The process of the rank still runs."""


class Divided(msgspec.Struct, tag=True, frozen=True):
    """How the ranks divide the work, for the log; see `gpu.training.loop.Trainer.division`."""

    division: str


class PartDone(msgspec.Struct, tag=True, frozen=True):
    """A part is complete.

    Attributes:
        n_parts: completed parts.
        n_of_epoch: parts of an epoch.
        seconds: of training in this attempt.
        sent, wait_seconds: since the last part; see `gpu.ranks.traffic.Moved`.
    """

    n_parts: int
    n_of_epoch: int
    seconds: float
    sent: dict[str, int]
    wait_seconds: float


class EpochDone(msgspec.Struct, tag=True, frozen=True):
    """The fields of `gpu.EpochReport`; a metric that is NaN is null."""

    epoch: int
    n_epochs: int
    seconds: float
    metrics: dict[str, float | None]


class RankFailed(msgspec.Struct, tag=True, frozen=True):
    """An exception: name of its class, message, and attributes that are plain values."""

    kind: str
    message: str
    fields: dict[str, Any] = {}

    @classmethod
    def of(cls, error: BaseException) -> RankFailed:
        """The message for `error`."""
        plain = {name: value for name, value in vars(error).items() if isinstance(value, str | int | float | None)}
        return cls(type(error).__name__, str(error), plain)

    def error(self) -> EngineError | ServiceError | None:
        """The exception itself, if it is one of the training; None if it concerns one rank and a new attempt helps."""
        kind = (vars(engine_errors) | vars(errors)).get(self.kind)
        if not (isinstance(kind, type) and issubclass(kind, EngineError | ServiceError)) or kind is RankLost:
            return None
        error = BaseException.__new__(kind, self.message)  # some take other arguments than a message
        error.args = (self.message,)
        vars(error).update(self.fields)
        return error


class Finished(msgspec.Struct, tag=True, frozen=True):
    """The rank has done everything; rank 0 has written the model."""


class Fetch(msgspec.Struct, tag=True, frozen=True):
    """A rank wants a folder of the coordinator's work folder; rank and proof are those of `RankHello`."""

    rank: int
    proof: str
    folder: str


class Deliver(msgspec.Struct, tag=True, frozen=True):
    """A rank has a folder for the coordinator's work folder, with these files and their bytes."""

    rank: int
    proof: str
    folder: str
    sizes: dict[str, int]


class Sizes(msgspec.Struct, tag=True, frozen=True):
    """The files of the folder that a rank wants, and their bytes."""

    sizes: dict[str, int]


class TransferAccepted(msgspec.Struct, tag=True, frozen=True):
    """The other side may send the files, or: they have arrived unaltered."""


_Training = Start | Joined | RankAlive | Divided | PartDone | EpochDone | RankFailed | Finished
Message = Challenge | RankHello | Refused | _Training | Fetch | Deliver | Sizes | TransferAccepted


class RankConnection:
    """Messages over a socket. Any thread may send; one thread receives."""

    def __init__(self, connection: socket.socket) -> None:
        """Own the socket."""
        self.socket = connection
        self._rest = b""
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            OSError: the other side is gone.
        """
        with self._lock:
            self.socket.sendall(msgspec.json.encode(message) + b"\n")

    def receive(self) -> list[Message] | None:
        """Wait for bytes; the messages that are complete with them, perhaps none. None: the other side is gone.

        Raises:
            MsgspecError: it does not send messages of this kind.
        """
        try:
            data = self.socket.recv(_RECEIVED_BYTES)
        except OSError:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_BYTES:
            raise msgspec.MsgspecError(f"a message has more than {MAX_BYTES} bytes")
        messages = [msgspec.json.decode(line, type=Message) for line in lines]
        return messages if data else None

    def next(self) -> Message:
        """Wait for one message; for a rank, which receives one at a time.

        Raises:
            ConnectionError: the coordinator is gone.
        """
        while (messages := self.receive()) is not None:
            if messages:
                return messages[0]
        raise ConnectionError("the coordinator is gone")

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def listen(host: str) -> socket.socket:
    """A socket that listens at an address of this machine, on a free port."""
    return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def proof(key: bytes, nonce: str, rank: int) -> str:
    """The proof that a rank knows the key."""
    return hmac.new(key, f"{nonce} {rank}".encode(), "sha256").hexdigest()


def versions() -> dict[str, str]:
    """Versions that all ranks of a training must share, so that they compute the same."""
    version_of = {"nearfield": service.__version__, "numpy": np.__version__, "python": platform.python_version()}
    with contextlib.suppress(metadata.PackageNotFoundError):  # only in the extra `cluster`
        version_of["distributed"] = metadata.version("distributed")
    return version_of
