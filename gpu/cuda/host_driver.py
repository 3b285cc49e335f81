"""`call`: functions of the CUDA driver, one after the other, in one call from Python without the GIL.

Each launch from Python gives the GIL away, and the thread waits until another one gives it back. A batch of lists has
eight calls (docs/decisions/0117-one-call-makes-all-calls-of-the-driver.md).

Each call is a row of int64 numbers: its kind, then the arguments of the function of this kind, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for

SELECT, LAUNCH, CLEAR, COPY_IN, COPY_OUT, WAIT = range(6)
FUNCTIONS = (  # of the driver, by kind
    "cuCtxSetCurrent",
    "cuLaunchKernel",
    "cuMemsetD32Async",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuStreamSynchronize",
)
N_NUMBERS = 12  # of a row


def _taking(*bits: int) -> Callable[..., Any]:
    """Code that calls the function at an address; `bits` are those of each integer, and the result is a `CUresult`."""

    def typed(typing_context: Any, address: Any, values: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds = [ir.IntType(n) for n in bits]
            given = [builder.extract_value(arguments[1], n) for n in range(len(bits))]
            narrow = [
                one if kind == one.type else builder.trunc(one, kind) for one, kind in zip(given, kinds, strict=True)
            ]
            function = ir.FunctionType(ir.IntType(32), kinds).as_pointer()
            return builder.call(builder.inttoptr(arguments[0], function), narrow)

        return types.int32(address, values), build

    made: Callable[..., Any] = intrinsic(typed)
    return made


_with_one = _taking(64)
_with_copy = _taking(64, 64, 64, 64)
_with_words = _taking(64, 32, 64, 64)
_with_grid = _taking(64, 32, 32, 32, 32, 32, 32, 32, 64, 64, 64)


@called_for(Use.RANKING_ON_DEVICE)
@njit(cache=True, nogil=True)
def call(functions: NDArray[np.int64], calls: Annotated[NDArray[np.int64], 2]) -> int:
    """Call `calls` (N, `N_NUMBERS`) in order, up to the first one that fails; return its `CUresult`, or 0.

    Args:
        functions: addresses of `FUNCTIONS`.
    """
    for row in range(len(calls)):
        kind, to = calls[row, 0], calls[row]
        address = functions[kind]
        if kind == LAUNCH:
            grid, block = (to[2], to[3], to[4]), (to[5], to[6], to[7])
            result = _with_grid(address, (to[1], *grid, *block, to[8], to[9], to[10], to[11]))
        elif kind == CLEAR:
            result = _with_words(address, (to[1], to[2], to[3], to[4]))
        elif kind in (COPY_IN, COPY_OUT):
            result = _with_copy(address, (to[1], to[2], to[3], to[4]))
        else:
            result = _with_one(address, (to[1],))
        if result != 0:
            return int(result)
    return 0
