"""Fixtures that every test may use."""

import gc
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gpu.base.backend import HOST, Backend
from service.base import tuning
from tests import compiling
from tests.simulation.disk import IN_MEMORY

# As in the service. Idle threads of kernels that spin, one for each core in each process of tests, take the processors
# from those that work: tests of kernels took fifteen times as long on a busy machine.
tuning.configure()
tuning.limit_blas()

# A disk takes milliseconds for an fsync, and tests make tens of thousands of them; what a power cut leaves is simulated
# (tests/simulation). So what tests write is kept in memory, if that is large enough and may hold programs.
NEEDED_BYTES = 4 << 30
if "TMPDIR" not in os.environ and IN_MEMORY.parent.is_dir():
    may_run = not os.statvfs(IN_MEMORY.parent).f_flag & os.ST_NOEXEC
    if may_run and shutil.disk_usage(IN_MEMORY.parent).free > NEEDED_BYTES:
        IN_MEMORY.mkdir(exist_ok=True)
        os.environ["TMPDIR"], tempfile.tempdir = str(IN_MEMORY), None

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("nearfield", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nearfield")


ROOT = Path(__file__).parents[1]
# Modules that take long, most of all because they wait for other processes. They begin early: no process of tests is
# left alone with one of them at the end.
LONGEST = (
    "tests/service/extras/exports/test_exports.py",
    "tests/benchmarks/test_commands.py",
    "tests/faults/test_kills.py",
    "tests/service/jobs/test_supervisor.py",
    "tests/gpu/cuda/test_kernels.py",
    "tests/service/api/test_growth.py",
    "tests/test_code_blocks.py",
    "tests/faults/test_failovers.py",
    "tests/service/engine/test_model_swap.py",
    "tests/service/engine/test_compilation.py",
    "tests/service/test_end_to_end.py",
    "tests/faults/test_rest.py",
    "tests/service/extras/ranks/test_jobs_on_ranks.py",
    "tests/service/test_own_folders.py",
    "tests/faults/test_disks_and_clocks.py",
    "tests/faults/test_stateful.py",
    "tests/faults/test_hanging_redis.py",
    "tests/service/base/test_imports.py",
    "tests/service/processes/test_processes.py",
    "tests/service/processes/test_starts.py",
    "tests/service/extras/test_without_extras.py",
    "tests/faults/test_demo.py",
    "tests/faults/test_idle.py",
    "tests/faults/test_two_of_each.py",
    "tests/test_image.py",
    "tests/service/extras/ranks/test_cluster.py",
    "tests/service/api/openapi/test_examples.py",
    "tests/clients/test_every_operation.py",
    "tests/service/cli/test_client.py",
    "tests/gpu/descent/test_culsh.py",
)
COMPUTING, BETWEEN = ROOT / "tests" / "gpu", 3  # modules there, and their number between two of the longest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage neither while tests are collected, nor later in what was collected: nothing of it ends before.

    Else a process that collects all tests spends a third of that time on it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest modules alternate with those that compute, so that no processor is idle; then all others."""
    longest = {ROOT / module: BETWEEN * place for place, module in enumerate(LONGEST)}
    others = sorted(dict.fromkeys(item.path for item in items), key=lambda path: COMPUTING not in path.parents)
    places = {path: place for place, path in enumerate(others)} | longest
    items.sort(key=lambda item: (places[item.path], item.path not in longest))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile each kernel once, and say which have to be compiled first, and then which of them is being compiled."""
    if "numba" not in sys.modules:  # which takes a second to import, and tests without kernels do not need
        return
    importlib.import_module("gpu.base.host.kernel_cache").take_turns()
    write = compiling.to_terminal(session.config)
    if write is not None and not session.config.option.collectonly:
        compiling.announce(write)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a device where there is none."""
    if item.get_closest_marker("gpu") is not None:
        obstacle = importlib.import_module("gpu.base.device").obstacle()
        if obstacle is not None:
            pytest.skip(obstacle)


@pytest.fixture(scope="session", params=["host", pytest.param("device", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every backend of this machine, one after the other."""
    return HOST if request.param == "host" else Backend("device", "under test")
