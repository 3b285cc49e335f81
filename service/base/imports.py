"""Imports what threads need, before there are threads.

Two threads that import modules of one package at once can wait for each other. Python then raises an error in one of
them, and the service ends. So each process calls one of these functions first, and its threads import nothing of SciPy,
Numba, Arrow, safetensors and the kernels. A process that forks shares their memory with its children.
"""

from __future__ import annotations

import importlib

import pyarrow as pa

from gpu.base.host import compilation


def for_files() -> None:
    """What reads and writes the files of DATA: for processes that answer nothing and train nothing."""
    pa.array([""])  # Arrow looks for pandas and imports dateutil at the first conversion of a list
    for name in ("encodings.unicode_escape", "pyarrow.compute", "pyarrow.dataset", "safetensors.numpy", "_strptime"):
        importlib.import_module(name)


def for_models() -> None:
    """What loads models, answers with them or trains them, and all of `for_files`."""
    for_files()
    compilation.load()
