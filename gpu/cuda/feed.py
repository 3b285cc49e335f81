"""Arrays of the host, such as mapped files, that follow each other through two buffers on the device.

Several threads copy pieces of an array to pinned memory, which is where the disk is read, and from there to the device,
on a stream of each buffer. While kernels read one buffer, the other one is filled. Arrays are used in a fixed cyclic
order, so the next ones are known: copies go on after the last one with the first one. Arrays that change on the device
are copied back in the same way, before their buffer is filled again. Where arrays of several parcels overlap, one that
reads what another one changes waits for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.scratch import pinned

N_BUFFERS = 2
N_COPIERS = 12  # threads that copy to pinned memory; one moves 7 GB a second, a link 55
PIECE_BYTES = 8 * 2**20  # bytes copied at a time; with less, the threads wait for Python's lock
ALIGNMENT = 256  # bytes; of each array in a buffer


class Parcel(NamedTuple):
    """Arrays that are on the device together.

    Attributes:
        arrays: on the host, contiguous.
        spare_bytes: bytes of memory after them, not initialized.
        n_changed: how many of the arrays, the last ones, change on the device and are copied back.
        is_of_others: whether it has arrays that change with other parcels.
    """

    arrays: Sequence[NDArray[Any]]
    spare_bytes: int
    n_changed: int = 0
    is_of_others: bool = False

    @property
    def n_bytes(self) -> int:
        """Bytes that it takes of a buffer."""
        return sum(map(_aligned, (*(array.nbytes for array in self.arrays), self.spare_bytes)))


class Feed:
    """Loads parcels in turn, the next one while the one before is used.

    One thread calls it. A parcel that is not the next one is loaded when it is asked for.
    """

    def __init__(self) -> None:
        self._parcels: list[Parcel] = []
        self._buffers: list[_Buffer] = []
        self._copiers = ThreadPoolExecutor(N_COPIERS, "feed", initializer=cupy.cuda.Device().use)
        self._slots: SimpleQueue[_Slot] = SimpleQueue()
        self._returns: dict[int | None, list[Future[None]]] = {}

    def add(self, parcel: Parcel) -> int:
        """Append to the cyclic order; returns the number of the parcel. All are added before the first is taken."""
        self._parcels.append(parcel)
        return len(self._parcels) - 1

    def take(self, number: int) -> tuple[list[Any], Any]:
        """(the arrays of a parcel on the device, its spare memory as uint8); valid until `release`.

        Work that the current stream gets from now on waits for the copies.
        """
        if not self._buffers:
            n_bytes = max(parcel.n_bytes for parcel in self._parcels)
            self._buffers = [_Buffer(n_bytes) for _ in range(N_BUFFERS)]
            for _ in range(2 * N_COPIERS):
                self._slots.put(_Slot(pinned(PIECE_BYTES), cupy.cuda.Event(block=True, disable_timing=True)))
        buffer = self._buffers[0]
        if buffer.number != number:
            buffer = self._buffers[1]
            self._buffers.reverse()
        self._load(buffer, number)
        self._load_ahead(self._buffers[1], number, 1)
        for copy in buffer.copies:
            copy.result()
        buffer.loaded.record(buffer.stream)
        cupy.cuda.get_current_stream().wait_event(buffer.loaded)
        return _views(buffer.memory, self._parcels[number])

    def release(self, number: int, *, is_changed: bool = False) -> None:
        """Let the buffer of this parcel be filled again, as soon as the current stream has done its present work.

        Args:
            is_changed: copy what has changed back to the host first; see `wait`.
        """
        buffer = self._buffers[0]
        assert buffer.number == number, "the parcel was not taken"  # noqa: S101 - a caller's mistake
        buffer.free.record()
        if is_changed:
            buffer.stream.wait_event(buffer.free)
            parcel = self._parcels[number]
            pieces = self._pieces(buffer, number, len(parcel.arrays) - parcel.n_changed)
            tasks, left = range(min(N_COPIERS, len(pieces))), iter(pieces)
            self._returns[number] = [self._copiers.submit(self._copy_back, left, buffer.stream) for _ in tasks]
        buffer.is_old = self._parcels[number].is_of_others  # others may change it before it is taken again
        self._buffers.reverse()
        self._load_ahead(buffer, number, N_BUFFERS)

    def wait(self) -> None:
        """Wait until all that has changed is on the host."""
        for copies in self._returns.values():
            for copy in copies:
                copy.result()

    def forget(self) -> None:
        """Load all again that is taken from now on: arrays of the host have changed."""
        self.wait()
        for buffer in self._buffers:
            for copy in buffer.copies:
                copy.result()
            buffer.number = None

    def _load_ahead(self, buffer: _Buffer, number: int, n_later: int) -> None:
        """Begin to fill a buffer with a parcel after `number`, unless one before it may still change its arrays."""
        *before, later = ((number + k) % len(self._parcels) for k in range(n_later + 1))
        if not (self._parcels[later].is_of_others and any(self._parcels[one].n_changed for one in before)):
            self._load(buffer, later)

    def _load(self, buffer: _Buffer, number: int) -> None:
        """Begin to fill a buffer, unless it has this parcel."""
        if buffer.number == number and not buffer.is_old:
            return
        for copy in buffer.copies:
            copy.result()
        # Copies back of what the buffer has had, and of this parcel, were submitted before: threads may wait for them.
        changed = self._returns if self._parcels[number].is_of_others else {buffer.number, number}
        before = [copy for one in changed for copy in self._returns.get(one, ())]
        buffer.number, buffer.is_old = number, False
        buffer.stream.wait_event(buffer.free)
        pieces = self._pieces(buffer, number, 0)
        tasks, left = range(min(N_COPIERS, len(pieces))), iter(pieces)
        buffer.copies = [self._copiers.submit(self._copy, left, buffer.stream, before) for _ in tasks]

    def _pieces(self, buffer: _Buffer, number: int, n_left_out: int) -> list[tuple[NDArray[np.uint8], int]]:
        """(piece of an array of a parcel, its address in the buffer), of all arrays but the first ones."""
        views, _ = _views(buffer.memory, self._parcels[number])
        arrays = [array.reshape(-1).view(np.uint8) for array in self._parcels[number].arrays]
        return [
            (array[first : first + PIECE_BYTES], there.data.ptr + first)
            for array, there in list(zip(arrays, views, strict=True))[n_left_out:]
            for first in range(0, len(array), PIECE_BYTES)
        ]

    def _copy_back(self, left: Iterator[tuple[NDArray[np.uint8], int]], stream: Any) -> None:
        """Copy pieces from their addresses; the threads share `left`, an iterator of a list."""
        kind = cupy.cuda.runtime.memcpyDeviceToHost
        for piece, address in left:
            slot = self._slots.get()
            slot.copied.synchronize()
            cupy.cuda.runtime.memcpyAsync(slot.memory.ctypes.data, address, len(piece), kind, stream.ptr)
            slot.copied.record(stream)
            slot.copied.synchronize()
            np.copyto(piece, slot.memory[: len(piece)])
            self._slots.put(slot)

    def _copy(self, left: Iterator[tuple[NDArray[np.uint8], int]], stream: Any, before: Sequence[Future[None]]) -> None:
        """Copy pieces to their addresses; the threads of a load share `left`, an iterator of a list."""
        for copy in before:
            copy.result()
        kind = cupy.cuda.runtime.memcpyHostToDevice
        for piece, address in left:
            slot = self._slots.get()
            slot.copied.synchronize()
            np.copyto(slot.memory[: len(piece)], piece)
            cupy.cuda.runtime.memcpyAsync(address, slot.memory.ctypes.data, len(piece), kind, stream.ptr)
            slot.copied.record(stream)
            self._slots.put(slot)


class _Slot(NamedTuple):
    """Pinned memory for a piece, and the event after its last copy to the device."""

    memory: NDArray[np.uint8]
    copied: Any


class _Buffer:
    """Memory of the device.

    Attributes:
        memory: uint8.
        stream: of the copies into it.
        free, loaded: events: no earlier work reads it any more; all copies are done.
        number: the parcel that it has or gets.
        is_old: whether that has to be loaded again.
        copies: the pieces of that parcel.
    """

    def __init__(self, n_bytes: int) -> None:
        self.memory = cupy.empty(n_bytes, dtype=cupy.uint8)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.free, self.loaded = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        self.free.record()  # memory of the pool may still be read
        self.number: int | None = None
        self.is_old = False
        self.copies: list[Future[None]] = []
        weakref.finalize(self, self.stream.synchronize)  # before the pool gets the memory back


def _views(memory: Any, parcel: Parcel) -> tuple[list[Any], Any]:
    """The arrays of the parcel, and its spare memory, in a buffer."""
    arrays, first = [], 0
    for array in parcel.arrays:
        arrays.append(memory[first : first + array.nbytes].view(array.dtype))
        first += _aligned(array.nbytes)
    return arrays, memory[first : first + parcel.spare_bytes]


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def link_rate(n_bytes: int = 2**30) -> float:
    """Bytes a second that one copy of `n_bytes` from pinned memory moves, the best of five."""
    source, to, stream = pinned(n_bytes), cupy.empty(n_bytes, dtype=cupy.uint8), cupy.cuda.Stream(non_blocking=True)
    source[:] = 1
    best = np.inf
    for _ in range(5):
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        began.record(stream)
        kind = cupy.cuda.runtime.memcpyHostToDevice
        cupy.cuda.runtime.memcpyAsync(to.data.ptr, source.ctypes.data, n_bytes, kind, stream.ptr)
        ended.record(stream)
        ended.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(began, ended) / 1e3)
    return n_bytes / best
