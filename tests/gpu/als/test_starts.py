"""Ranks that start together compile their kernels once, and a start after them compiles none."""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpu.algorithms import ALGORITHMS
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.trainer import AlsTrainer
from gpu.base.backend import HOST, Backend
from gpu.cuda import kernels
from gpu.training import loop
from tests.data import planted

DEVICE = Backend("device", "under test")
PARAMS = AlsParams(n_factors=8, n_epochs=1)


def n_compiled(folder: Path, n_ranks: int, *, trains: bool) -> int:
    """Sources that one of `n_ranks` processes compiles, CuPy's own included; `folder` is its home."""
    os.environ |= {"HOME": str(folder), "CUPY_CACHE_DIR": str(folder / ".cupy" / "kernel_cache")}
    from cupy.cuda import compiler  # noqa: PLC0415 - it reads the folder

    compiled, original = list[str](), compiler._NVRTCProgram.compile

    def compile_(program: Any, *given: Any, **options: Any) -> Any:
        if program.src.strip():  # CuPy asks the compiler for its version by an empty one
            compiled.append(program.src)
        return original(program, *given, **options)

    compiler._NVRTCProgram.compile = compile_
    (folder / f"rank {os.getpid()}").touch()
    while len(list(folder.glob("rank *"))) < n_ranks:
        pass
    ALGORITHMS["als"].compile_once(PARAMS, DEVICE)
    if trains:
        loop.train(AlsTrainer(planted(40, 30, 10), PARAMS, DEVICE))
    return len(compiled)


@pytest.mark.gpu
def test_a_second_start_compiles_nothing(tmp_path: Path) -> None:
    counts = []
    for _ in range(2):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            counts.append(pool.submit(n_compiled, tmp_path, 1, trains=True).result())
    assert counts[0] > counts[1] == 0


@pytest.mark.gpu
def test_ranks_that_start_together_compile_each_source_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        starts = [pool.submit(n_compiled, tmp_path, 2, trains=False) for _ in range(2)]
        assert sorted(start.result() for start in starts) == [0, 3]


def test_one_of_several_compiles_and_the_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work, most = set[int](), list[int]()
    begun = threading.Barrier(2)

    def module(name: str, defines: dict[str, int], architecture: str | None) -> None:
        at_work.add(int(name))
        begun.wait()  # the two sources of one caller are compiled at the same time
        most.append(len({n // 2 for n in at_work}))
        begun.wait()
        at_work.discard(int(name))

    monkeypatch.setattr(kernels, "module", module)
    monkeypatch.setattr(kernels, "_folder", lambda: tmp_path)
    callers = [
        threading.Thread(target=kernels.compile_once, args=([(str(2 * n), {}, None), (str(2 * n + 1), {}, None)],))
        for n in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert most == [1] * 6


def test_ranks_compile_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[str]()
    monkeypatch.setattr(kernels, "module", lambda name, *_: compiled.append(name))
    monkeypatch.setattr(kernels, "_folder", lambda: tmp_path / "none")
    kernels.compile_once([("als", {}, None)])
    assert compiled == ["als"]


@pytest.mark.parametrize("params", [PARAMS, AlsImplicitParams(n_factors=8)])
def test_the_host_has_nothing_to_compile_before_a_training(params: AlsParams | AlsImplicitParams) -> None:
    ALGORITHMS[params.algorithm].compile_once(params, HOST)
