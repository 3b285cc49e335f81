"""`Calls`: copies and launches of a batch, collected and then made together, without the GIL.

See docs/decisions/0117-one-call-makes-all-calls-of-the-driver.md.
"""

from __future__ import annotations

import ctypes
import functools

import cupy
import numpy as np
from cupy_backends.cuda.api.driver import CUDADriverError
from numpy.typing import NDArray

from gpu.cuda.host_driver import CLEAR, COPY_IN, COPY_OUT, FUNCTIONS, LAUNCH, N_NUMBERS, SELECT, WAIT, call


class Calls:
    """Calls of the CUDA driver on one device or several.

    What they read and write must stay until `run` has returned: memory of the host, and arguments of kernels too.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._streams: dict[tuple[int, int], None] = {}  # contexts and streams, in order
        self._stream = 0

    def begin(self) -> None:
        """What follows is for the current device and its current stream."""
        context, self._stream = _context(), cupy.cuda.get_current_stream().ptr
        self._streams[context, self._stream] = None
        self._add(SELECT, context)

    def launch(self, kernel: int, grid: tuple[int, int], threads: int, arguments: int, shared_bytes: int = 0) -> None:
        """Run the kernel at an address; `arguments` is the address of the list of addresses of its arguments."""
        self._add(LAUNCH, kernel, *grid, 1, threads, 1, 1, shared_bytes, self._stream, arguments, 0)

    def clear(self, memory: int, n_words: int) -> None:
        """Set words of 32 bits on the device to 0."""
        self._add(CLEAR, memory, 0, n_words, self._stream)

    def copy_in(self, memory: int, column: NDArray[np.generic]) -> None:
        """Copy pinned memory to the device."""
        self._add(COPY_IN, memory, column.ctypes.data, column.nbytes, self._stream)

    def copy_out(self, column: NDArray[np.generic], memory: int) -> None:
        """Copy to pinned memory from the device."""
        self._add(COPY_OUT, column.ctypes.data, memory, column.nbytes, self._stream)

    def run(self) -> None:
        """Make the calls, and wait until all devices are done.

        Raises:
            CUDADriverError: a call failed; those after it are not made, and devices may still work on those before.
        """
        before = _context()
        for context, stream in self._streams:
            self._add(SELECT, context)
            self._add(WAIT, stream)
        self._add(SELECT, before)
        result = call(_functions(), np.array(self._rows, dtype=np.int64))
        if result:
            call(_functions(), np.array(self._rows[-1:], dtype=np.int64))
            raise CUDADriverError(result)

    def _add(self, kind: int, *numbers: int) -> None:
        self._rows.append((kind, *numbers) + (0,) * (N_NUMBERS - 1 - len(numbers)))


def _context() -> int:
    """Address of the context of the current device."""
    found = ctypes.c_void_p()
    result = _library().cuCtxGetCurrent(ctypes.byref(found))
    if result:
        raise CUDADriverError(result)
    return found.value or 0


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def _functions() -> NDArray[np.int64]:
    """See `host_driver.call`."""
    addresses = [ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value for name in FUNCTIONS]
    return np.array(addresses, dtype=np.int64)
