"""The kernel of sums: compiled for devices, and run on the CPU, where it gives the bits of the host in any order."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gpu.cuda import kernels
from gpu.data.recency import curve
from gpu.next import host
from gpu.next.histories import Histories
from gpu.next.objective import UNIT, in_fixed_point
from gpu.next.params import NextParams
from tests.gpu.cuda.test_kernels import compile_with_nvcc, needs_nvcc
from tests.gpu.next.walks import walks
from tests.gpu.online.device.test_exact_on_cpu import COMPILER, needs_compiler

SHIM = Path(__file__).parents[1] / "online" / "device" / "on_cpu.hpp"
THREADS = 7
MORE = f"""
static Index blockDim{{{THREADS}}};
static int min(int a, int b) {{ return a < b ? a : b; }}
static void atomicAdd(unsigned long long* at, unsigned long long value) {{ *at += value; }}
"""
DRIVER = """
extern "C" void run(int order, const int* items, const int* n_newer, const long long* places, const long long* firsts,
                    const long long* counts, const long long* popular, const long long* weights,
                    const long long* shared_by, int window, long long n_items, unsigned long long* together,
                    unsigned long long* following) {
    launch(n_items, THREADS, order, [=] { add_pairs(items, n_newer, places, firsts, counts, popular, weights, shared_by,
                                                    window, n_items, together, following); });
}
"""


@needs_compiler
@pytest.mark.parametrize("window", [1, 5, 300])
def test_sums_have_the_bits_of_the_host_in_any_order_of_threads(window: int, tmp_path: Path) -> None:
    path = tmp_path / "kernels.cpp"
    driver = DRIVER.replace("THREADS", str(THREADS))
    path.write_text("\n".join((SHIM.read_text("utf-8"), MORE, kernels.source("next"), driver)), "utf-8")
    options = [*kernels.options({}), "-O2", "-w", "-shared", "-fPIC", "-o", str(tmp_path / "kernels.so")]
    subprocess.run([str(COMPILER), *options, str(path)], check=True)
    run = ctypes.CDLL(str(tmp_path / "kernels.so")).run
    ratings, times = walks(40, 20, 9)
    ordered = ratings.ordered(np.argsort(np.argsort(times.seconds)))
    weights = curve(NextParams(decay_items=3.0, old_weight=0.1, window=window))
    histories = Histories.of(ordered, np.arange(20, dtype=np.int32))
    items, n_newer = histories.packed()
    places, counts = np.argsort(items, kind="stable"), np.bincount(items, minlength=20)
    by_item = places, np.cumsum(counts) - counts, counts, np.argsort(-counts)
    given = [np.ascontiguousarray(one) for one in (items, n_newer, *by_item, *in_fixed_point(weights))]
    gram, cross = host.sums(histories, weights, 20)
    for order in (0, 1):
        together, following = np.zeros((2, 20, 20), dtype=np.int64)
        addresses = [ctypes.c_void_p(one.ctypes.data) for one in (*given, together, following)]
        run(order, *addresses[:8], window, ctypes.c_longlong(20), *addresses[8:])
        whole = together + together.T - np.diag(np.diagonal(together))
        assert np.array_equal(whole / UNIT, gram)
        assert np.array_equal(following / UNIT, cross)


@needs_nvcc
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_it_compiles(architecture: str, tmp_path: Path) -> None:
    compile_with_nvcc("next", {}, architecture, tmp_path)
