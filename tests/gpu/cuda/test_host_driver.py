"""Calls of the CUDA driver in one go: functions of C stand in for the driver, so no device is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from gpu.cuda.host_driver import CLEAR, COPY_IN, COPY_OUT, FUNCTIONS, LAUNCH, N_NUMBERS, SELECT, WAIT, call

WORD, LONG = ctypes.c_uint32, ctypes.c_uint64
ARGUMENTS = {
    "cuCtxSetCurrent": [LONG],
    "cuLaunchKernel": [LONG, *[WORD] * 7, LONG, LONG, LONG],
    "cuMemsetD32Async": [LONG, WORD, LONG, LONG],
    "cuMemcpyHtoDAsync_v2": [LONG] * 4,
    "cuMemcpyDtoHAsync_v2": [LONG] * 4,
    "cuStreamSynchronize": [LONG],
}
HIGH = 2**47 + 5  # an address of more than 32 bits
CALLS = [
    (SELECT, HIGH),
    (COPY_IN, HIGH + 1, HIGH + 2, 2**33, HIGH + 3),
    (CLEAR, HIGH + 4, 7, 2**34, HIGH + 5),
    (LAUNCH, HIGH + 6, 2**31 - 1, 65535, 1, 256, 2, 3, 2**17, HIGH + 7, HIGH + 8, 0),
    (COPY_OUT, HIGH + 9, HIGH + 10, 12, HIGH + 11),
    (WAIT, HIGH + 12),
]


@pytest.fixture
def driver() -> Callable[[dict[str, int]], tuple[np.ndarray, list[tuple[int, ...]], list[object]]]:
    """Functions that note their calls, and fail with the results that are given by name."""

    def make(results: dict[str, int]) -> tuple[np.ndarray, list[tuple[int, ...]], list[object]]:
        noted, held = list[tuple[int, ...]](), list[object]()

        def function(kind: int, name: str) -> int:
            def note(*numbers: int) -> int:
                noted.append((kind, *numbers))
                return results.get(name, 0)

            held.append(ctypes.CFUNCTYPE(ctypes.c_int, *ARGUMENTS[name])(note))  # type: ignore[misc]
            return ctypes.cast(held[-1], ctypes.c_void_p).value or 0  # type: ignore[arg-type]

        addresses = [function(kind, name) for kind, name in enumerate(FUNCTIONS)]
        return np.array(addresses, dtype=np.int64), noted, held

    return make


def rows(calls: list[tuple[int, ...]]) -> np.ndarray:
    return np.array([(*one, *[0] * (N_NUMBERS - len(one))) for one in calls], dtype=np.int64)


def test_every_function_gets_its_arguments_in_order(driver):
    functions, noted, _held = driver({})
    assert call(functions, rows(CALLS)) == 0
    assert noted == CALLS


@pytest.mark.parametrize(("kind", "name"), list(enumerate(FUNCTIONS)))
def test_the_first_failure_ends_the_calls_and_is_returned(driver, kind: int, name: str):
    functions, noted, _held = driver({name: 719})
    assert call(functions, rows(CALLS)) == 719
    assert noted[-1][0] == kind
    assert noted == CALLS[: len(noted)]
