"""The two kernels of one body: their names and their files in the cache. Their results: `test_hamming`."""

import json
import os
import subprocess
import sys
from pathlib import Path

from gpu.base.host import compilation
from gpu.hashing import host_hamming as hamming

# Ranks two items by the kernel that it names; prints the kernels that it has compiled, and the rank keys.
PROGRAM = """
import json, sys
import numpy as np
from gpu.hashing import host_hamming as hamming
from gpu.base.host import compilation
best = np.full((2, 1), -1, dtype=np.int64)
compiled = []
with compilation.watched(compiled.append):
    getattr(hamming, sys.argv[1])(best, np.eye(2, dtype=np.uint64), np.arange(2), np.arange(2))
print(json.dumps([sorted(compiled), best.tolist()]))
"""


def compiled_by(folder: Path, kernel: str) -> tuple[list[str], list[list[int]]]:
    """The kernels that a process compiles when it calls `kernel`, and the result."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", PROGRAM, kernel]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    names, best = json.loads(done.stdout)
    return names, best


def test_kernels_are_listed_under_both_names() -> None:
    serial, parallel = (
        compilation.kernels()[f"hashing.host_hamming.{name}"] for name in ("rank_blocks", "rank_blocks_parallel")
    )
    assert serial.py_func.__code__ is parallel.py_func.__code__
    assert hamming.rank_blocks.__name__ == "rank_blocks"


def test_a_kernel_never_loads_the_machine_code_of_the_other(tmp_path: Path) -> None:
    serial, one = compiled_by(tmp_path, "rank_blocks")
    parallel, other = compiled_by(tmp_path, "rank_blocks_parallel")
    assert "hashing.host_hamming.rank_blocks" in serial
    assert parallel == ["hashing.host_hamming.rank_blocks_parallel"]  # what it calls is in the cache
    assert one == other
    assert compiled_by(tmp_path, "rank_blocks")[0] == compiled_by(tmp_path, "rank_blocks_parallel")[0] == []
