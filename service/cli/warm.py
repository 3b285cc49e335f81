"""`python -m service.cli.warm`: compile the kernels that declare a use into Numba's cache, as the image does.

`python -m service.cli.warm KERNEL …`: one of several processes that compile these kernels
(`service.engine.compilation`). It prints the name of each kernel that it has compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from gpu.base.host import compilation
from gpu.base.host.declared import Use
from gpu.base.host.kernel_cache import take_turns
from service.base import tuning


def main(kernels: Sequence[str]) -> None:
    """Compile these kernels, or without names all that Python calls: for answers, learning and training."""
    tuning.configure()
    take_turns()
    with compilation.watched(partial(print, flush=True) if kernels else lambda _: None):
        for kernel in kernels or compilation.called_for(set(Use)):
            compilation.compile_kernel(kernel)


if __name__ == "__main__":
    main(sys.argv[1:])
