"""The kernels' source: complete, in the wheel's reach, and compiled without a warning where there is a compiler."""

from __future__ import annotations

import importlib.resources
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpu.als import device_plan as plan
from gpu.als import device_tiling as tiling
from gpu.als.objective import AlsObjective
from gpu.cuda import kernels

NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
# n_factors, kind, whether A fits into shared memory: every branch of the source, tiles of 4 and of 8
PLAIN = [
    (4, "biases", True), (40, "implicit", True), (100, "explicit", True), (100, "biases", True),
    (128, "implicit", True), (256, "biases", False), (256, "implicit", False),
]  # fmt: skip
FUSED = [(4, "biases"), (100, "explicit"), (128, "implicit"), (256, "biases")]
WIDE = [(145, 0), (200, 1), (256, 0), (256, 1)]  # F, BIASES


# CHUNKS, WIDE, SEARCH, DISLIKES, LINE_THREADS
NEAR = [
    (1, 0, 0, 0, 256), (2, 0, 0, 0, 256), (4, 0, 0, 0, 256), (5, 1, 0, 0, 512), (32, 1, 0, 0, 1024), (4, 1, 1, 0, 1024),
    (1, 0, 0, 1, 256), (2, 0, 0, 1, 256), (3, 1, 1, 1, 512), (32, 1, 0, 1, 1024),
]  # fmt: skip
GATHER = [(0, 1), (0, 3), (0, 8), (1, 1), (1, 2), (1, 16)]  # DOUBLE, and pieces of a row that a lane holds
HALS = [(0, 4), (0, 12), (0, 16), (1, 2), (1, 8)]  # DOUBLE, and columns of a chunk


# Macros: half-words of a signature, and those of one launch; kinds of Ψ; hash functions a thread and width of ratings
HASHING = [
    ("lsh", {"S": 76, "FIRST": 0, "COUNT": 76}), ("lsh", {"S": 2, "FIRST": 0, "COUNT": 2}),
    ("lsh", {"S": 158, "FIRST": 106, "COUNT": 52}), ("hamming", {}),
    *(("lsh_psi", {"KIND": kind, "STEPS": 64, "LIMIT": 127}) for kind in range(5)),
    ("cooccurrence", {}), ("similarity", {"HASHES": 10, "HALF": 1}), ("similarity", {"HASHES": 1, "HALF": 0}),
]  # fmt: skip
OLDEST_HASHING = [HASHING[1], HASHING[3], HASHING[4], HASHING[-1]]  # one of each source, not the long unrolled ones
# F, LANES, K, HALF, IMPLICIT, DISLIKES, LEARN, THREADS
SGD = [
    (8, 2, 0, 1, 0, 0, 0, 1024), (32, 8, 32, 0, 0, 0, 1, 640), (64, 8, 16, 1, 1, 0, 1, 768), (96, 8, 0, 1, 0, 0, 1, 64),
    (128, 8, 0, 1, 0, 0, 1, 640), (256, 16, 256, 1, 0, 0, 1, 256),
    (64, 8, 16, 1, 1, 1, 1, 768), (64, 8, 16, 1, 1, 1, 0, 768), (8, 1, 8, 0, 1, 1, 1, 512),
    (64, 16, 256, 1, 1, 1, 1, 384),
]  # fmt: skip
ESGD = [1, 2, 4, 8, 24, 33, 256]  # pieces of a row
# The factors of a row with its padding; tiles of 16 users
TOPN = [("topn", {"G": g}) for g in (16, 256)] + [("topn_scan", {"G": g, "MT": mt}) for g in (48, 320) for mt in (1, 4)]


def targets(variants: list[Any], oldest: str) -> list[Any]:
    """(variant, architecture): all for Hopper, and one for the oldest devices, whose branches of the source are few."""
    return [(one, "sm_90") for one in variants] + [(variants[0], oldest)]


def problem_of(n_factors: int, kind: str) -> AlsObjective:
    biases, is_implicit = kind == "biases", kind == "implicit"
    return AlsObjective(n_factors, biases, is_implicit, 1.0, 0.0, 0.05, 1.0, 0.0, 6, 1e-4, "cg", "float16")


def compile_with_nvcc(name: str, defines: dict[str, int], architecture: str, tmp_path: Path) -> None:
    """Compile to machine code; a warning fails."""
    path = tmp_path / f"{name}.cu"
    path.write_text(kernels.source(name), "utf-8")
    strict = ("-Werror", "all-warnings")
    target = ("-cubin", f"-arch={architecture}", "-o", str(tmp_path / "out.cubin"))
    command = [str(NVCC), *kernels.options(defines), *strict, *target, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_source_begins_with_what_all_share():
    common = (importlib.resources.files(kernels) / kernels.COMMON).read_text("utf-8")
    names = [file.name for file in importlib.resources.files(kernels).iterdir() if file.name.endswith(".cu")]
    assert names
    for name in names:
        assert kernels.source(name.removesuffix(".cu")).startswith(common)


def test_plan_and_kernel_agree_on_which_rows_are_short():
    assert f"constexpr int SHORT = NARROW ? {plan.SHORT} : {plan.SHORT_OF_WIDE}," in kernels.source("als")
    assert f"NARROW = CT <= {plan.NARROW // 16};" in kernels.source("als")


def test_macros_are_in_a_fixed_order():
    assert kernels.options({"B": 2, "A": 1}) == ("-std=c++17", "-DA=1", "-DB=2")


class Loaded:
    """A module whose kernels have one limit each, shared by all handles of a kernel, as in CUDA."""

    max_dynamic_shared_size_bytes = 0

    def get_function(self, function: str) -> Loaded:
        del function
        return self


def test_shared_memory_once_allowed_stays_allowed(monkeypatch):
    loaded = Loaded()
    monkeypatch.setattr(kernels, "module", lambda name, defines, architecture: loaded)
    for n_bytes in (0, 60_000, 50_000, 0, 60_000, 70_000, 60_000):
        found = kernels.kernel("some", "function", {}, n_bytes)
        assert found.max_dynamic_shared_size_bytes >= n_bytes
    assert loaded.max_dynamic_shared_size_bytes == 70_000


@needs_nvcc
@pytest.mark.parametrize(("n_factors", "kind", "in_shared"), PLAIN)
def test_plain_kernels_compile(n_factors, kind, in_shared, tmp_path):
    macros = tiling.defines(problem_of(n_factors, kind), in_shared)
    compile_with_nvcc("als_plain", macros, "sm_90", tmp_path)


@needs_nvcc
@pytest.mark.parametrize(("numbers", "architecture"), targets(GATHER, "sm_80"))
def test_products_of_sparse_rows_compile(numbers, architecture, tmp_path):
    compile_with_nvcc("hals_gather", dict(zip(("DOUBLE", "HELD"), numbers, strict=True)), architecture, tmp_path)


@needs_nvcc
@pytest.mark.parametrize(("numbers", "architecture"), targets(HALS, "sm_80"))
def test_sweeps_of_nmf_compile(numbers, architecture, tmp_path):
    compile_with_nvcc("hals", dict(zip(("DOUBLE", "CHUNK"), numbers, strict=True)), architecture, tmp_path)


@needs_nvcc
@pytest.mark.parametrize("name", ["als_slots", "descent_sums"])
@pytest.mark.parametrize("architecture", ["sm_90", "sm_75"])
def test_kernels_that_add_up_compile(name, architecture, tmp_path):
    compile_with_nvcc(name, {}, architecture, tmp_path)


@needs_nvcc
@pytest.mark.parametrize(("numbers", "architecture"), targets(NEAR, "sm_75"))
def test_kernels_of_neighbors_compile(numbers, architecture, tmp_path):
    names = "CHUNKS", "WIDE", "SEARCH", "DISLIKES", "LINE_THREADS"
    macros = dict(zip(names, numbers, strict=True))
    compile_with_nvcc("descent_neighbors", macros, architecture, tmp_path)


@needs_nvcc
@pytest.mark.parametrize(("numbers", "architecture"), targets(SGD, "sm_75"))
def test_kernels_of_descent_compile(numbers, architecture, tmp_path):
    names = "F", "LANES", "K", "HALF", "IMPLICIT", "DISLIKES", "LEARN", "THREADS"
    compile_with_nvcc("sgd", dict(zip(names, numbers, strict=True)), architecture, tmp_path)


@needs_nvcc
@pytest.mark.parametrize("in_shared", [0, 1])
def test_kernels_of_tiles_compile(in_shared, tmp_path):
    compile_with_nvcc("descent_tiles", {"SHARED_COUNTS": in_shared}, "sm_75", tmp_path)


@needs_nvcc
@pytest.mark.parametrize(("n_pieces", "architecture"), targets(ESGD, "sm_75"))
def test_kernels_of_esgd_compile(n_pieces, architecture, tmp_path):
    macros = {"PIECES": n_pieces, "THREADS": 1024, "VECTOR": int(architecture == "sm_90")}
    compile_with_nvcc("esgd", macros, architecture, tmp_path)


@needs_nvcc
@pytest.mark.parametrize(("source", "architecture"), [*targets(TOPN, "sm_80"), (TOPN[-1], "sm_80")])
def test_kernels_of_ranking_compile(source, architecture, tmp_path):
    name, macros = source
    compile_with_nvcc(name, macros, architecture, tmp_path)


@needs_nvcc
def test_kernels_of_the_mirror_compile(tmp_path):
    compile_with_nvcc("packing", {}, "sm_75", tmp_path)


@needs_nvcc
def test_plain_kernels_compile_for_older_devices(tmp_path):
    compile_with_nvcc("als_plain", tiling.defines(problem_of(100, "biases"), True), "sm_75", tmp_path)
    compile_with_nvcc("als_plain", tiling.defines(problem_of(100, "biases"), True), "sm_80", tmp_path)


@needs_nvcc
@pytest.mark.parametrize(("problem", "architecture"), targets(FUSED, "sm_80"))
def test_tensor_core_kernels_compile(problem, architecture, tmp_path):
    n_factors, kind = problem
    macros = {"F": n_factors, "BIASES": int(kind == "biases"), "IMPLICIT": int(kind == "implicit")}
    compile_with_nvcc("als", {**macros, "STEP": 0, "STRIDE": n_factors + macros["BIASES"]}, architecture, tmp_path)


@needs_nvcc
@pytest.mark.parametrize("implicit", [0, 1])
def test_kernels_of_blocks_compile(implicit, tmp_path):
    kind = "implicit" if implicit else "explicit"
    compile_with_nvcc("als", {"F": 64, "BIASES": 0, "IMPLICIT": implicit, "STEP": 1, "STRIDE": 512}, "sm_80", tmp_path)
    compile_with_nvcc("als_plain", tiling.defines(problem_of(64, kind), True, 512), "sm_75", tmp_path)
    for half in (0, 1):
        macros = {"BLOCK": 64, "HALF": half, "IMPLICIT": implicit, "BIASES": 1 - implicit, "STRIDE": 512}
        compile_with_nvcc("als_subspace", macros, "sm_75", tmp_path)


@needs_nvcc
@pytest.mark.parametrize(("width", "biases", "implicit"), [(5, 1, 0), (128, 0, 1), (1024, 2, 0)])
def test_kernels_of_errors_compile(width, biases, implicit, tmp_path):
    macros = {"D": width, "STRIDE": width, "BIASES": biases, "IMPLICIT": implicit, "ERROR_THREADS": 128}
    compile_with_nvcc("als_errors", macros, "sm_75", tmp_path)


@needs_nvcc
@pytest.mark.parametrize(("n_factors", "biases"), WIDE)
def test_hoppers_kernels_compile_without_waits_that_serialize(n_factors, biases, tmp_path):
    compile_with_nvcc("als_wide", {"F": n_factors, "BIASES": biases}, "sm_90a", tmp_path)


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "macros", "architecture"),
    [*((*one, "sm_90") for one in HASHING), *((*one, "sm_75") for one in OLDEST_HASHING)],
)
def test_kernels_of_hashing_compile(name, macros, architecture, tmp_path):
    compile_with_nvcc(name, macros, architecture, tmp_path)
