"""The kernels of online learning compile without a warning where there is a compiler."""

from pathlib import Path

import pytest

from gpu.hashing.fixed_point import PSI_LIMIT, PSI_STEPS
from tests.gpu.cuda.test_kernels import compile_with_nvcc, needs_nvcc, targets

SIZES = [(5, 3, 1), (64, 0, 0), (64, 32, 0), (128, 32, 0), (64, 16, 1), (300, 0, 0)]  # F, K, IMPLICIT
pytestmark = needs_nvcc


@pytest.mark.parametrize(("sizes", "architecture"), targets(SIZES, "sm_75"))
def test_refits(sizes: tuple[int, int, int], architecture: str, tmp_path: Path) -> None:
    n_factors, n_neighbors, is_implicit = sizes
    macros = {"F": n_factors, "K": n_neighbors, "IMPLICIT": is_implicit}
    compile_with_nvcc("refit_users", {**macros, "DIM": n_factors + 1}, architecture, tmp_path)
    compile_with_nvcc("refit_items", {**macros, "DIM": n_factors + 1 + 2 * n_neighbors}, architecture, tmp_path)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_table(architecture: str, tmp_path: Path) -> None:
    compile_with_nvcc("rating_table", {}, architecture, tmp_path)


@pytest.mark.parametrize(("kind", "architecture"), targets([0, 1, 2, 3, 4], "sm_75"))
def test_signatures(kind: int, architecture: str, tmp_path: Path) -> None:
    macros = {"S": 76, "KIND": kind, "STEPS": PSI_STEPS, "LIMIT": PSI_LIMIT}
    compile_with_nvcc("signatures", macros, architecture, tmp_path)
