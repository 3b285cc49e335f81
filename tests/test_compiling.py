"""A run of tests says which kernels it compiles."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEST = "tests/gpu/data/test_host_solve.py::test_weighted_ridge_regression"


def printed(cache: Path, *arguments: str) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=True)
    return done.stdout


def test_the_first_run_names_each_kernel_that_it_compiles_and_the_second_none(tmp_path):
    first, second = printed(tmp_path, TEST), printed(tmp_path, TEST)
    assert re.search(
        r"^\d+ of \d+ kernels are not compiled for this processor\..*`make kernels` compiles all\.$", first, re.M
    )
    compiled = re.findall(r"^compiling (\S+) … \d+\.\d s$", first, re.MULTILINE)
    assert len(compiled) == len(set(compiled)) > 0
    assert "compiling" not in second


def test_a_run_without_kernels_says_nothing(tmp_path):
    assert "kernels" not in printed(tmp_path, "tests/test_changelog.py")
