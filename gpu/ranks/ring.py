"""Ranks in a ring, on the host: each rank sends to the next and receives from the one before.

`Ring` has the collective operations; a `Link` moves bytes. `SocketLink` connects processes, also of several machines,
by TCP. `gpu.ranks.threads` has ranks that are threads of one process.

With P ranks and n bytes, `gather` sends n (P − 1) / P bytes a rank, `reduce_scatter` as much, and `reduce` twice that.
These are the least that any order of sending needs.
"""

from __future__ import annotations

import contextlib
import hmac
import queue
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import RankLost
from gpu.ranks.exchange import Exchange
from gpu.ranks.traffic import Traffic

TIMEOUT_S = 60.0  # seconds without a byte after which another rank counts as lost
BUFFERED = 4096  # bytes; connections hold many messages of this size that nobody has read
NONCE = 32  # bytes
DIGEST = "sha256"
Bytes = memoryview


class Link(Protocol):
    """Sends bytes to the next rank, and receives from the one before, at the same time."""

    def exchange(self, send: Bytes, receive: Bytes) -> None:
        """Send all of `send` and fill `receive`; returns when both are done.

        Raises:
            RankLost: a neighbor has ended, or moved no byte in time.
        """

    def close(self) -> None:
        """End the link; both neighbors notice."""


class Ring:
    """An `Exchange` of arrays in host memory over a `Link`; see `gpu.ranks.exchange.Exchange`."""

    def __init__(self, rank: int, size: int, link: Link, weights: Sequence[float] | None = None) -> None:
        """`weights`: see `gpu.ranks.exchange.Exchange`. Default: equal ones."""
        self.rank, self.size, self._link = rank, size, link
        self.weights = (1.0,) * size if weights is None else tuple(weights)
        self.traffic = Traffic()

    @property
    def on_host(self) -> Exchange:
        """Itself."""
        return self

    def gather(self, table: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """In step s, rank r passes on the block of rank r − s."""
        with self.traffic.of("gather"):
            for step in range(self.size - 1):
                self._pass_on(_block(table, bounds, self._before(step)), _block(table, bounds, self._before(step + 1)))

    def reduce_scatter(self, parts: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """The sum of a block starts at the rank after its owner, and goes around: the owner adds its part last."""
        with self.traffic.of("reduce_scatter"):
            for step in range(self.size - 1):
                own = _block(parts, bounds, self._before(step + 2))
                sums = np.empty_like(own)
                self._pass_on(_block(parts, bounds, self._before(step + 1)), sums)
                np.add(sums, own, out=own)

    def reduce(self, array: NDArray[Any]) -> None:
        """Each rank adds up one share of the array; then all gather the shares."""
        flat = array.reshape(-1)
        bounds = np.arange(self.size + 1, dtype=np.int64) * len(flat) // self.size
        with self.traffic.of("reduce"):
            self.reduce_scatter(flat, bounds)
            self.gather(flat, bounds)

    def shift(self, send: NDArray[Any], receive: NDArray[Any]) -> None:
        """One step around the ring."""
        if self.size == 1:
            receive[...] = send
        else:
            with self.traffic.of("shift"):
                self._pass_on(send, receive)

    def totals(self, *numbers: float) -> tuple[float, ...]:
        """Sums in float64."""
        array = np.array(numbers, dtype=np.float64)
        self.reduce(array)
        return tuple(array.tolist())

    def barrier(self) -> None:
        """A sum: nobody has it before all have sent their part."""
        self.totals(0.0)

    def close(self) -> None:
        """End the link."""
        self._link.close()

    def _before(self, n: int) -> int:
        return (self.rank - n) % self.size

    def _pass_on(self, send: NDArray[Any], receive: NDArray[Any]) -> None:
        began = time.perf_counter()
        self._link.exchange(_bytes(send), _bytes(receive))
        self.traffic.add(send.nbytes, time.perf_counter() - began)


def _block(table: NDArray[Any], bounds: NDArray[np.int64], rank: int) -> NDArray[Any]:
    return table[bounds[rank] : bounds[rank + 1]]


def _bytes(array: NDArray[Any]) -> Bytes:
    if not array.flags.c_contiguous:
        raise ValueError(f"Invalid array: expected contiguous rows, got strides {array.strides} of {array.shape}")
    return array.reshape(-1).view(np.uint8).data


class SocketLink:
    """A link over two TCP connections, made by `connect`."""

    def __init__(self, to_next: socket.socket, from_last: socket.socket, timeout_s: float = TIMEOUT_S) -> None:
        """Take both connections over.

        Args:
            timeout_s: seconds without a byte after which a neighbor counts as lost.
        """
        self._to_next, self._from_last = to_next, from_last
        for connection in (to_next, from_last):
            connection.settimeout(timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wanted: queue.SimpleQueue[Bytes | None] = queue.SimpleQueue()
        self._sent: queue.SimpleQueue[OSError | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send, name="ring-sender", daemon=True)
        self._sender.start()

    def exchange(self, send: Bytes, receive: Bytes) -> None:
        """Send much in a thread of its own: two ranks that both send first would wait for each other.

        A little fits into the buffers of a connection, and a change of threads takes longer than to send it.
        """
        is_much, failure = len(send) > BUFFERED, None
        if is_much:
            self._wanted.put(send)
        else:
            failure = _failure_of_sending(self._to_next, send)
        try:
            if failure is None:
                _fill(self._from_last, receive)
        except OSError as error:
            raise RankLost(f"the rank before is gone: {error or type(error).__name__}") from None
        finally:
            if is_much:
                failure = self._sent.get()
        if failure is not None:
            raise RankLost(f"the next rank is gone: {failure or type(failure).__name__}")

    def close(self) -> None:
        """Close both connections and end the thread."""
        for connection in (self._to_next, self._from_last):
            connection.close()
        self._wanted.put(None)
        self._sender.join()

    def _send(self) -> None:
        while (data := self._wanted.get()) is not None:
            self._sent.put(_failure_of_sending(self._to_next, data))


def _failure_of_sending(connection: socket.socket, data: Bytes) -> OSError | None:
    """Send all of `data`; returns why that failed."""
    try:
        while len(data):  # `sendall` would limit the time of all bytes together
            data = data[connection.send(data) :]
    except OSError as error:
        return error
    return None


def _fill(connection: socket.socket, target: Bytes) -> None:
    while len(target):
        n = connection.recv_into(target)
        if n == 0:
            raise ConnectionError("it closed the connection")
        target = target[n:]


def connect(
    rank: int, addresses: Sequence[tuple[str, int]], listener: socket.socket, key: bytes, timeout_s: float = TIMEOUT_S,
    weights: Sequence[float] | None = None,
) -> Ring:  # fmt: skip
    """The ring of the ranks that listen at `addresses`; each proves that it knows the key.

    Args:
        rank: this rank.
        addresses: (host, port) of each rank.
        listener: the socket that listens at `addresses[rank]`; closed here.
        key: secret of the training.
        timeout_s: seconds to wait for the neighbors, now and at any later step.
        weights: see `gpu.ranks.exchange.Exchange`. Default: equal ones.

    Raises:
        RankLost: a neighbor does not come in time, or does not know the key.
    """
    size = len(addresses)
    with contextlib.ExitStack() as sockets, _named(rank):
        sockets.enter_context(listener).settimeout(timeout_s)
        to_next = sockets.enter_context(socket.create_connection(addresses[(rank + 1) % size], timeout_s))
        from_last, _ = listener.accept()
        sockets.enter_context(from_last).settimeout(timeout_s)
        nonce = secrets.token_bytes(NONCE)
        from_last.sendall(nonce)
        _prove(to_next, key, rank)
        _verify(from_last, key, nonce, (rank - 1) % size)
        sockets.pop_all()
        listener.close()
    return Ring(rank, size, SocketLink(to_next, from_last, timeout_s), weights)


@contextlib.contextmanager
def _named(rank: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RankLost(f"rank {rank} cannot reach its neighbors: {error or type(error).__name__}") from None


def _prove(connection: socket.socket, key: bytes, rank: int) -> None:
    """Answer the random number of the next rank."""
    nonce = bytearray(NONCE)
    _fill(connection, memoryview(nonce))
    connection.sendall(_digest(key, nonce, rank))


def _verify(connection: socket.socket, key: bytes, nonce: bytes, rank: int) -> None:
    answer = bytearray(hmac.new(key, digestmod=DIGEST).digest_size)
    _fill(connection, memoryview(answer))
    if not hmac.compare_digest(answer, _digest(key, nonce, rank)):
        raise ConnectionError(f"expected rank {rank} with the key of this training, got another process")


def _digest(key: bytes, nonce: bytes | bytearray, rank: int) -> bytes:
    return hmac.new(key, bytes(nonce) + rank.to_bytes(4, "little"), DIGEST).digest()
