"""Compiled kernels are found in folders that cannot be written, and kept in memory where there is no folder."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu.base.host import kernel_cache

# Calls one kernel; with "read-only", no folder can be written, as on a read-only root.
# With "full", no file can be written.
PROGRAM = """
import json, sys
from numba.core import caching
def refuse(self):
    raise OSError(30, "Read-only file system", self.get_cache_path())
if "read-only" in sys.argv:
    for locator in vars(caching).values():
        if isinstance(locator, type) and hasattr(locator, "ensure_cache_path"):
            locator.ensure_cache_path = refuse
if "full" in sys.argv:
    def fail(self, path):
        raise OSError(28, "No space left on device", path)
    caching.IndexDataCacheFile._open_for_write = fail
import numpy as np
from gpu.data import host_solve as solve
from gpu.base.host import compilation, kernel_cache
if "take-turns" in sys.argv:
    kernel_cache.take_turns()
compiled = []
with compilation.watched(compiled.append):
    matrix, right = np.eye(3) * 2, np.ones(3)
    solve.solve(matrix, right)
names = {"data.host_solve.solve", "data.host_solve.factorize", "data.host_solve.subtract"}
found = sorted(compiled), compilation.can_save(), sorted(compilation.uncached(names))
print(json.dumps([right.round(6).tolist(), *found]))
"""
KERNELS = ["data.host_solve.factorize", "data.host_solve.solve", "data.host_solve.subtract"]
NONE = list[str]()
SOLUTION = [0.5, 0.5, 0.5]


def started(folder: Path, *how: str) -> subprocess.Popen[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", PROGRAM, *how]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> list[Any]:
    written, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    return json.loads(written)


def run(folder: Path, *how: str) -> list[object]:
    return answer(started(folder, *how))


def test_a_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    assert run(tmp_path) == [SOLUTION, KERNELS, True, NONE]
    assert run(tmp_path, "read-only") == [SOLUTION, NONE, False, NONE]


def test_without_any_folder_kernels_are_compiled_in_memory(tmp_path: Path) -> None:
    assert run(tmp_path / "none", "read-only") == [SOLUTION, KERNELS, False, NONE]
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_a_damaged_file_is_compiled_again(tmp_path: Path, ending: str) -> None:
    run(tmp_path)
    damaged = [file for file in tmp_path.rglob(f"*{ending}") if file.name.startswith("host_solve")]
    assert damaged
    for file in damaged:
        file.write_bytes(file.read_bytes()[:40])
    assert run(tmp_path) == [SOLUTION, KERNELS, True, NONE]
    assert run(tmp_path) == [SOLUTION, NONE, True, NONE]


def test_a_full_disk_does_not_end_a_compilation(tmp_path: Path) -> None:
    assert run(tmp_path, "full") == [SOLUTION, KERNELS, True, NONE]
    assert not list(tmp_path.rglob("*.nb?"))


def test_of_two_processes_that_take_turns_one_compiles(tmp_path: Path) -> None:
    both = [started(tmp_path, "take-turns") for _ in range(2)]
    compiled = [answer(process)[1] for process in both]
    assert sorted(name for names in compiled for name in names) == KERNELS


# Two kernels in a module that takes the place of one of `gpu`; calls the one that is named.
CALLS = """
import importlib.util, sys
import numpy as np
import gpu.base.host
spec = importlib.util.spec_from_file_location("gpu.example", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
numbers = np.zeros(1000)
getattr(module, sys.argv[2])(numbers)
assert numbers.tolist() == [1.0] * 1000
"""
EXAMPLE = """
from numba import njit, prange
@njit(cache=True, parallel=True)
def parallel(x):
    for n in prange(len(x)):
        x[n] += 1
@njit(cache=True)
def caller(x):
    parallel(x)
"""


def test_a_caller_of_a_parallel_kernel_of_another_process_starts_the_threads(tmp_path: Path) -> None:
    """The first process compiles the parallel kernel, the second one its caller; the third one loads the caller."""
    module, environment = tmp_path / "example.py", os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    module.write_text(EXAMPLE)
    for kernel in ("parallel", "caller", "caller"):
        command = [sys.executable, "-c", CALLS, str(module), kernel]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, (kernel, done.returncode, done.stderr)


class Unwritable:
    def __reduce__(self) -> Any:
        raise ValueError("cannot be saved")


def test_the_index_never_names_code_that_is_not_there(tmp_path: Path) -> None:
    files = kernel_cache.Files(str(tmp_path), "kernel", "stamp")
    files.save("first", "code of the first")
    with pytest.raises(ValueError, match="cannot be saved"):
        files.save("second", Unwritable())
    assert files._load_index() == {"first": "kernel.1.nbc"}
    files.save("second", "code of the second")
    files.save("first", "new code")
    assert [files.load(key) for key in ("first", "second", "third")] == ["new code", "code of the second", None]


def test_processes_number_their_functions_differently() -> None:
    program = "import gpu.base.host; from numba.core.bytecode import FunctionIdentity as f; print(next(f._unique_ids))"
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in range(2)]  # noqa: PLW1510
    assert runs[0].stdout != runs[1].stdout
    assert all(int(run.stdout) > 0 for run in runs)
