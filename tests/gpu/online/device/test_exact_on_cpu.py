"""The kernels of exact refits, run on the CPU by `on_cpu.hpp`: rows as the host solves them, in any order of threads.

So what they compute is tested where there is no device too; `test_exact.py` tests it where there is one.
"""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.backend import HOST
from gpu.cuda import kernels
from gpu.data import refit_rules
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.nmf.params import NmfParams
from gpu.online.exact_rows import RatedRows
from tests.gpu.cuda.test_kernels import compile_with_nvcc, needs_nvcc
from tests.gpu.online.device.test_exact import (
    assert_same_rows,
    beside_priors,
    model_of,
    oracle,
    placed,
    rows_of,
    sums_of,
    whole,
)

COMPILER = shutil.which("c++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="c++ is not installed")
LENGTHS = [0, 1, 2, 17, 100, 0, 5, 300, 33]
CASES = [
    AlsParams(n_factors=4), AlsParams(n_factors=66, biases=False), AlsParams(n_factors=65), AlsParams(n_factors=260),
    AlsImplicitParams(n_factors=16), AlsImplicitParams(n_factors=130),
]  # fmt: skip
NONNEGATIVE = [(NmfParams(n_factors=3), LENGTHS), (NmfParams(n_factors=260), [0, 9])]
DRIVER = """
extern "C" void in_shared(int order, Rows* rows, Side* side, Constants* constants, double* carry, double* found) {
    launch(rows->n, THREADS, order, [=] { solve_in_shared(*rows, *side, *constants, carry, found); });
}
extern "C" void in_memory(int order, Rows* rows, Side* side, Constants* constants, double* carry, double* found) {
    static std::vector<double> workspace(2 * SIZE);
    launch(2, THREADS, order, [=] { solve_in_memory(*rows, *side, *constants, carry, found, workspace.data()); });
}
extern "C" void nonnegative(int order, Rows* rows, Side* side, Constants* constants, double* carry, double* found) {
    launch(rows->n, N_THREADS, order, [=] { solve_nonnegative(*rows, *side, *constants, carry, found); });
}
"""
ADDRESSES = "bounds", "ridges", "others", "values", "priors"
ROWS = np.dtype([(name, "<u8") for name in ADDRESSES] + [("flags", "<i4", 4)])
SIDE = np.dtype([(name, "<u8") for name in ("factors", "biases", "gram", "usual", "pull")] + [("trace", "<f8")])


class Library(NamedTuple):
    """Kernels compiled for one model, and what they read of it."""

    functions: ctypes.CDLL
    side: np.ndarray
    constants: np.ndarray
    kept: list[np.ndarray]
    n_factors: int

    def solve(self, function: str, order: int, rows: RatedRows, pieces: tuple[int, ...] = ()) -> np.ndarray:
        """[x; b] of `rows`; of a single one in launches that end behind `pieces` of its ratings."""
        found, carry = np.full((len(rows.ridges), self.n_factors + 1), np.nan), np.full(1 << 19, np.nan)
        ends = [*pieces, len(rows.values)] if pieces else [None]
        begins = [0, *pieces]
        for begin, end in zip(begins, ends, strict=True):
            part = rows if end is None else rows.piece(begin, end)
            flags = len(part.ridges), begin > 0, end is None or end == len(rows.values), 0
            arrays = [np.ascontiguousarray(part[at]) for at in (2, 3, 0, 1, 4)]
            given = np.array((*(array.ctypes.data if array.size else 0 for array in arrays), flags), dtype=ROWS)
            structures = (array.ctypes.data for array in (given, self.side, self.constants, carry, found))
            self.functions[function](order, *map(ctypes.c_void_p, structures))
        return found


def library(model: Model, folder: Path) -> Library:
    objective, sums, n_factors = refit_rules.objective_of(model), sums_of(model), model.params.width
    macros = {"F": n_factors, "BIASES": int(objective.has_biases), "IMPLICIT": int(objective.is_implicit)}
    path = folder / "kernels.cpp"
    shim = (Path(__file__).parent / "on_cpu.hpp").read_text("utf-8")
    path.write_text("\n".join((shim, kernels.source("exact"), DRIVER)), "utf-8")
    options = [*kernels.options(macros), "-O2", "-w", "-shared", "-fPIC", "-o", str(folder / "kernels.so")]
    subprocess.run([str(COMPILER), *options, str(path)], check=True)
    gram = sums.gram + np.triu(sums.gram, 1).T
    kept: list[Any] = [model.item_factors, model.item_bias, gram, sums.usual, gram @ sums.usual]
    side = np.array((*(array.ctypes.data for array in kept), np.trace(gram)), dtype=SIDE)
    numbers = (
        objective.alpha,
        objective.mean,
        objective.unit,
        refit_rules.SMALLEST_RIDGE,
        refit_rules.TINY,
        refit_rules.TOLERANCE,
    )
    constants = np.array((*numbers, refit_rules.N_SWEEPS), dtype=",".join(["<f8"] * 6 + ["<i8"]))
    return Library(ctypes.CDLL(str(folder / "kernels.so")), side, constants, kept, n_factors)


def assert_right(params: Params, functions: tuple[str, ...], folder: Path, lengths: list[int]) -> None:
    model = model_of(params, 400)
    rows, compiled = rows_of(model, lengths), library(model, folder)
    expected = whole(placed(model, HOST).users(rows))
    found = [compiled.solve(function, order, rows) for function in functions for order in (0, 1)]
    assert_same_rows(found[0], expected)
    assert not found[0][0].any()
    for other in found[1:]:
        assert other.tobytes() == found[0].tobytes()
    last = rows.part(len(lengths) - 1, len(lengths))
    assert compiled.solve(functions[0], 1, last, (1, 5, 6, 8)).tobytes() == found[0][-1:].tobytes()


@needs_compiler
@pytest.mark.parametrize("params", CASES, ids=str)
def test_rows_of_als(params: Params, tmp_path: Path) -> None:
    assert_right(params, ("in_shared", "in_memory") if params.width < 200 else ("in_memory",), tmp_path, LENGTHS)


@needs_compiler
@pytest.mark.parametrize("params", [CASES[0], CASES[1], CASES[4]], ids=str)
def test_rows_of_als_with_priors(params: Params, tmp_path: Path) -> None:
    model = model_of(params, 400)
    rows, compiled = beside_priors(rows_of(model, LENGTHS), params.width), library(model, tmp_path)
    expected, found = whole(placed(model, HOST).users(rows)), compiled.solve("in_shared", 0, rows)
    assert_same_rows(found, expected)
    assert_same_rows(found[[3, 6, 8]], np.array([oracle(model, rows, b) for b in (3, 6, 8)]), 1e-6)
    assert compiled.solve("in_memory", 1, rows).tobytes() == found.tobytes()
    last = rows.part(len(LENGTHS) - 1, len(LENGTHS))
    assert compiled.solve("in_shared", 1, last, (1, 5, 6, 8)).tobytes() == found[-1:].tobytes()


@needs_compiler
@pytest.mark.parametrize(("params", "lengths"), NONNEGATIVE, ids=str)
def test_rows_of_nmf(params: Params, lengths: list[int], tmp_path: Path) -> None:
    assert_right(params, ("nonnegative",), tmp_path, lengths)


@needs_nvcc
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize(
    ("n_factors", "biases", "implicit"), [(3, 0, 1), (64, 0, 1), (65, 1, 0), (200, 0, 0), (256, 1, 0), (1024, 0, 1)]
)
def test_kernels_compile(n_factors: int, biases: int, implicit: int, architecture: str, tmp_path: Path) -> None:
    macros = {"F": n_factors, "BIASES": biases, "IMPLICIT": implicit}
    compile_with_nvcc("exact", macros, architecture, tmp_path)
