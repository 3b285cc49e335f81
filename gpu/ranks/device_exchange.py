"""Ranks on several devices: NCCL moves arrays between them; see `gpu.ranks.exchange.Exchange`.

A rank has one communicator and uses one stream, since two operations of NCCL at once can wait for each other. An
operation returns before it is done, in the order of the stream. It never ends if another rank has died: the process
that starts the ranks must watch them, and end all.

`Staged` copies through host memory and needs no NCCL. It serves several ranks on one device, which NCCL refuses.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import BackendUnavailable
from gpu.ranks.exchange import Exchange

OLDEST_NCCL = 22_707  # 2.27.7
INSTALL = "pip install '.[multi]' in a checkout of Nearfield"
ID_BYTES, HANDLE_BYTES = 128, 64
PROBE_BYTES = 2**20  # sent by every rank to all others before the link is trusted


def exchange_of(ring: Exchange, *, can_store: bool = True) -> Exchange:
    """The exchange of the ranks in `ring`, a ring on the host, one device each.

    Args:
        can_store: False: no kernel stores into the memory of other devices, even if it could.

    Raises:
        BackendUnavailable: NCCL is missing or too old, or devices do not reach each other.
        RankLost: a rank has ended.
    """
    if ring.size == 1:
        return ring
    exchange = Nccl(ring, can_store=can_store)
    _check_copies(exchange)
    return exchange


@functools.cache
def nccl() -> ModuleType:
    """CuPy's NCCL.

    Raises:
        BackendUnavailable: it is missing or older than `OLDEST_NCCL`.
    """
    with warnings.catch_warnings():  # CuPy warns on import where NCCL is missing
        warnings.simplefilter("ignore")
        from cupy.cuda import nccl as library  # noqa: PLC0415 - one device needs no NCCL
    if not library.available:
        raise BackendUnavailable(f"Invalid NCCL: expected {_text(OLDEST_NCCL)} or newer, got none; {INSTALL}")
    version = int(library.get_version())
    if version < OLDEST_NCCL:
        raise BackendUnavailable(
            f"Invalid NCCL: expected {_text(OLDEST_NCCL)} or newer, got {_text(version)}; {INSTALL}"
        )
    return library  # type: ignore[no-any-return]


def nccl_version() -> str:
    """The version of NCCL, such as 2.28.9, for the log.

    Raises:
        BackendUnavailable: as `nccl`.
    """
    return _text(int(nccl().get_version()))


def _text(version: int) -> str:
    return f"{version // 10_000}.{version // 100 % 100}.{version % 100}"


class Nccl:
    """The ranks of a ring, connected by NCCL on the current device and its current stream."""

    def __init__(self, ring: Exchange, *, can_store: bool) -> None:
        """Connect; the ring brings NCCL's id from rank 0 to all, and stays open until `close`."""
        self._may_store = can_store
        self.rank, self.size, self.weights = ring.rank, ring.size, ring.weights
        self.on_host, self.traffic = ring, ring.traffic
        identity = np.zeros((ring.size, ID_BYTES), dtype=np.uint8)
        if ring.rank == 0:  # its process listens for the others as long as it lives
            identity[0] = np.frombuffer(bytes(nccl().get_unique_id()), dtype=np.uint8)
        ring.gather(identity, np.arange(ring.size + 1))
        self._nccl = nccl()
        self._communicator = self._nccl.NcclCommunicator(ring.size, identity[0].tobytes(), ring.rank)
        self._kinds = {"f": self._nccl.NCCL_FLOAT32, "d": self._nccl.NCCL_FLOAT64, "i": self._nccl.NCCL_INT32}

    def gather(self, table: Any, bounds: NDArray[np.int64]) -> None:
        """Send our block to each rank and receive theirs, all at once."""
        blocks = [table[bounds[rank] : bounds[rank + 1]] for rank in range(self.size)]
        with self._counted("gather", blocks[self.rank].nbytes * (self.size - 1)):
            self._nccl.groupStart()
            for other in self._others():
                self._send(blocks[self.rank], other)
                self._receive(blocks[other], other)
            self._nccl.groupEnd()

    def reduce_scatter(self, parts: Any, bounds: NDArray[np.int64]) -> None:
        """One sum for each block, to its owner."""
        blocks = [parts[bounds[rank] : bounds[rank + 1]] for rank in range(self.size)]
        add = self._nccl.NCCL_SUM
        with self._counted("reduce_scatter", parts.nbytes - blocks[self.rank].nbytes):
            self._nccl.groupStart()
            for rank, block in enumerate(blocks):
                if block.size:
                    at = block.data.ptr
                    self._communicator.reduce(at, at, block.size, self._kind(block), add, rank, _stream())
            self._nccl.groupEnd()

    def reduce(self, array: Any) -> None:
        """A sum for all."""
        at = array.data.ptr
        with self._counted("reduce", 2 * array.nbytes * (self.size - 1) // self.size):
            self._communicator.allReduce(at, at, array.size, self._kind(array), self._nccl.NCCL_SUM, _stream())

    def shift(self, send: Any, receive: Any) -> None:
        """Both directions at once."""
        with self._counted("shift", send.nbytes):
            self._nccl.groupStart()
            self._send(send, (self.rank + 1) % self.size)
            self._receive(receive, (self.rank - 1) % self.size)
            self._nccl.groupEnd()

    def totals(self, *numbers: float) -> tuple[float, ...]:
        """Sums of the ring on the host: they are few."""
        return self.on_host.totals(*numbers)

    def barrier(self) -> None:
        """Wait for our device, then for all ranks."""
        cupy.cuda.get_current_stream().synchronize()
        self.on_host.barrier()

    def addresses(self, own: int) -> tuple[int, ...]:
        """Where the allocations that other ranks name in this call lie for our device; () if one cannot be reached.

        Args:
            own: address of our allocation, its first byte.
        """
        handles = np.zeros((self.size, HANDLE_BYTES), dtype=np.uint8)
        handles[self.rank] = np.frombuffer(cupy.cuda.runtime.ipcGetMemHandle(own), dtype=np.uint8)
        self.on_host.gather(handles, np.arange(self.size + 1))
        found: list[int] = []
        try:
            for rank in self._others():
                found.append(int(cupy.cuda.runtime.ipcOpenMemHandle(handles[rank].tobytes())))
        except cupy.cuda.runtime.CUDARuntimeError:
            pass
        (n_all,) = self.on_host.totals(len(found))
        if n_all == self.size * (self.size - 1):
            return tuple(found)
        for address in found:
            cupy.cuda.runtime.ipcCloseMemHandle(address)
        return ()

    @cached_property
    def can_store(self) -> bool:
        """Whether kernels of all ranks can store numbers in the memory of all others, and these arrive unaltered."""
        if self.totals(self._may_store) != (self.size,):
            return False
        table, mine = _zeros((self.size, PROBE_BYTES // 4), np.int32), cupy.asarray(_probe(self.rank))
        addresses = self.addresses(table.data.ptr)
        if not addresses:
            return False
        for address in addresses:
            there = cupy.cuda.UnownedMemory(address, table.nbytes, None)
            cupy.ndarray(table.shape, table.dtype, cupy.cuda.MemoryPointer(there, 0))[self.rank] = mine
        table[self.rank] = mine
        self.barrier()
        n_wrong = _n_wrong(table)
        for address in addresses:
            cupy.cuda.runtime.ipcCloseMemHandle(address)
        return self.totals(n_wrong) == (0,)  # all ranks have closed before one frees its table

    def close(self) -> None:
        """Leave; the process should end soon, as other ranks may still hold connections of NCCL."""
        self.on_host.close()

    @contextlib.contextmanager
    def _counted(self, kind: str, n_bytes: int) -> Iterator[None]:
        """Count an operation, with the time that the device spends on it."""
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        with self.traffic.of(kind, n_bytes):
            began.record()
            yield
            ended.record()
            self.traffic.measure(functools.partial(_seconds, began, ended))

    def _others(self) -> list[int]:
        """All other ranks, in an order in which no rank is the first of all."""
        return [(self.rank + step) % self.size for step in range(1, self.size)]

    def _send(self, array: Any, to: int) -> None:
        if array.nbytes:
            self._communicator.send(array.data.ptr, array.nbytes, self._nccl.NCCL_UINT8, to, _stream())

    def _receive(self, array: Any, source: int) -> None:
        if array.nbytes:
            self._communicator.recv(array.data.ptr, array.nbytes, self._nccl.NCCL_UINT8, source, _stream())

    def _kind(self, array: Any) -> int:
        return int(self._kinds[array.dtype.char])


def shared_zeros(shape: tuple[int, ...], dtype: Any, exchange: Exchange) -> tuple[Any, tuple[int, ...]]:
    """(zeros, the addresses of those of all other ranks), for kernels that write to all of them.

    The ranks' arrays have equal sizes. Addresses are valid until the rank that owns the array ends. There are none if a
    rank cannot reach another's memory.
    """
    if not isinstance(exchange, Nccl) or not exchange.can_store:
        return cupy.zeros(shape, dtype=dtype), ()
    found = _zeros(shape, dtype)
    return found, exchange.addresses(found.data.ptr)


class Staged:
    """The ranks of a ring, each with arrays on a device; every operation copies them to the host and back."""

    def __init__(self, ring: Exchange) -> None:
        self.rank, self.size, self.weights = ring.rank, ring.size, ring.weights
        self.on_host, self.traffic = ring, ring.traffic

    def gather(self, table: Any, bounds: NDArray[np.int64]) -> None:
        """See `gpu.ranks.exchange.Exchange`."""
        on_host = table.get()
        self.on_host.gather(on_host, bounds)
        table.set(on_host)

    def reduce_scatter(self, parts: Any, bounds: NDArray[np.int64]) -> None:
        """See `gpu.ranks.exchange.Exchange`."""
        on_host = parts.get()
        self.on_host.reduce_scatter(on_host, bounds)
        parts.set(on_host)

    def reduce(self, array: Any) -> None:
        """See `gpu.ranks.exchange.Exchange`."""
        on_host = array.get()
        self.on_host.reduce(on_host)
        array.set(on_host)

    def shift(self, send: Any, receive: Any) -> None:
        """See `gpu.ranks.exchange.Exchange`."""
        on_host = receive.get()
        self.on_host.shift(send.get(), on_host)
        receive.set(on_host)

    def totals(self, *numbers: float) -> tuple[float, ...]:
        """See `gpu.ranks.exchange.Exchange`."""
        return self.on_host.totals(*numbers)

    def barrier(self) -> None:
        """See `gpu.ranks.exchange.Exchange`."""
        cupy.cuda.get_current_stream().synchronize()
        self.on_host.barrier()

    def close(self) -> None:
        """See `gpu.ranks.exchange.Exchange`."""
        self.on_host.close()


def _check_copies(exchange: Nccl) -> None:
    """Send known bytes around: some machines copy between devices without an error, and wrongly.

    Raises:
        BackendUnavailable: what arrived is not what was sent.
    """
    table = cupy.zeros((exchange.size, PROBE_BYTES // 4), dtype=cupy.int32)
    table[exchange.rank] = cupy.asarray(_probe(exchange.rank))
    exchange.gather(table, np.arange(exchange.size + 1))
    n_wrong = _n_wrong(table)
    (n_all,) = exchange.totals(n_wrong)
    if n_all:
        raise BackendUnavailable(
            f"Invalid copies between devices: expected equal bytes, got {n_wrong * 4:,} wrong ones on rank "
            f"{exchange.rank}; set NCCL_P2P_DISABLE=1"
        )


def _probe(rank: int) -> NDArray[np.int32]:
    """The numbers that a rank sends to test a link."""
    return np.arange(PROBE_BYTES // 4, dtype=np.int32) * (rank + 1)


def _n_wrong(table: Any) -> int:
    """How many numbers of a table with a row for each rank are not those that the rank sends.

    Counted on the host: CuPy would compile its kernel of a reduction for 3.5 s in every rank that starts.
    """
    found, expected = table.get(), np.stack([_probe(rank) for rank in range(len(table))])
    return int(np.count_nonzero(found != expected))


def _zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros in an allocation of their own, not of CuPy's pool: handles name whole ones. Waits until they are there."""
    n_bytes = max(int(np.prod(shape)) * np.dtype(dtype).itemsize, 1)
    memory = cupy.cuda.MemoryPointer(cupy.cuda.Memory(n_bytes), 0)
    stream = cupy.cuda.get_current_stream()
    memory.memset_async(0, n_bytes, stream)
    stream.synchronize()
    return cupy.ndarray(shape, dtype, memory)


def _seconds(began: Any, ended: Any) -> float:
    ended.synchronize()
    return float(cupy.cuda.get_elapsed_time(began, ended)) / 1e3


def _stream() -> int:
    return int(cupy.cuda.get_current_stream().ptr)
