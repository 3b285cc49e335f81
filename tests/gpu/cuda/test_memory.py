"""What trainings take of a device's memory, against what they say they would."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import get_args

import pytest

import gpu
from gpu.base.backend import Backend
from gpu.base.device import memory_of_devices
from gpu.data.param_kinds import Params
from gpu.descent.params import CulshParams, SgdParams
from gpu.ease import trainer as ease
from gpu.hashing.params import Similarity
from gpu.neighbors import trainer as neighbors
from gpu.next import trainer as order
from gpu.nmf import matrix as nmf_matrix
from tests.data import planted, times_of

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
CASES: list[Params] = [
    *(
        gpu.params_for(algorithm, {"n_epochs": 2} if "n_epochs" in known.params.__dataclass_fields__ else {})
        for algorithm, known in sorted(gpu.ALGORITHMS.items())
    ),
    *(CulshParams(n_epochs=1, similarity=name) for name in get_args(Similarity) if name not in ("gsm", "simlsh")),
    SgdParams(n_epochs=1, deterministic=True),
    gpu.AlsParams(n_epochs=1, precision="float32"),
]


@pytest.fixture(autouse=True)
def memory() -> ModuleType:
    """What measures it."""
    return importlib.import_module("gpu.cuda.memory")


def ids(params: Params) -> str:
    return "-".join([params.algorithm, str(getattr(params, "similarity", ""))])


@pytest.mark.parametrize("params", CASES, ids=ids)
def test_estimates_are_upper_bounds(params: Params, memory: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    for module in (nmf_matrix, ease, neighbors, order, importlib.import_module("gpu.data.memory")):
        monkeypatch.setattr(module, "check_room", lambda what, needed, backend: asked.append(needed))
    als = importlib.import_module("gpu.als.device")  # its training compares by itself: it may load ratings in batches
    for name in ("base_bytes", "side_bytes"):
        monkeypatch.setattr(als, name, noted(getattr(als, name), asked))
    ratings = planted(4_000, 1_000, 100)
    times = times_of(ratings) if params.is_ordered else None
    taken = memory.taken_by(lambda: gpu.fit(ratings, params, backend=DEVICE, times=times))
    assert taken <= sum(asked)


def noted(estimate: Callable[..., int], asked: list[int]) -> Callable[..., int]:
    """The same estimate, which is appended to `asked` too."""

    def appended(*sizes: object) -> int:
        asked.append(estimate(*sizes))
        return asked[-1]

    return appended


def test_what_is_held_for_later_is_given_back(memory: ModuleType) -> None:
    cupy = importlib.import_module("cupy")
    pool, n_bytes = cupy.get_default_memory_pool(), 256 << 20  # more than is free in blocks of which a part is in use
    kept = cupy.empty(n_bytes, dtype=cupy.uint8)
    del kept
    held = pool.total_bytes()
    assert pool.free_bytes() >= n_bytes
    DEVICE.release()
    assert pool.total_bytes() <= held - n_bytes


def test_the_memory_of_each_device_is_known():
    runtime = importlib.import_module("cupy").cuda.runtime
    known = memory_of_devices()
    assert len(known) == runtime.getDeviceCount()
    assert known[runtime.getDevice()] == pytest.approx(runtime.memGetInfo()[1], rel=0.02)
