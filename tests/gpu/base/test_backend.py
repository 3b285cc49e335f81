"""The choice of a backend, and the messages if the device cannot be used."""

import ast
import importlib
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpu
from gpu.base import backend, device
from gpu.base.backend import HOST, Backend
from gpu.base.errors import BackendUnavailable
from gpu.ranking import host_topn
from gpu.ranks.choice import exchange_on
from gpu.ranks.exchange import Alone
from tests import house


@pytest.fixture(autouse=True)
def asked_anew():
    """`obstacle` remembers its answer."""
    device.obstacle.cache_clear()
    yield
    device.obstacle.cache_clear()


def raises(error: Exception):
    def function(*_: object) -> None:
        raise error

    return function


def fake_cupy(
    capability: str = "90", count=lambda: 1, driver=lambda: 13010, archs=lambda: [75, 80, 90, 120]
) -> SimpleNamespace:
    """CuPy as far as the choice of a backend looks."""
    runtime = SimpleNamespace(
        getDeviceCount=count, driverGetVersion=driver, getDeviceProperties=lambda _: {"name": b"Some GPU"}
    )
    one = SimpleNamespace(id=0, compute_capability=capability)
    nvrtc = SimpleNamespace(getSupportedArchs=archs)
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=lambda: one, nvrtc=nvrtc))


def with_cupy(monkeypatch: pytest.MonkeyPatch, fake: object) -> str | None:
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return device.obstacle()


def test_a_device_that_works_is_no_obstacle(monkeypatch):
    assert with_cupy(monkeypatch, fake_cupy()) is None


def test_a_device_says_what_is_taken_of_it_and_the_host_nothing(monkeypatch):
    pool = SimpleNamespace(total_bytes=lambda: 30)
    cuda = SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (60, 100)))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool))
    assert Backend("device", "").device_bytes() == {"arrays": 30, "taken": 40}
    assert HOST.device_bytes() == {}


def test_a_device_that_has_failed_says_so(monkeypatch):
    cuda = SimpleNamespace(runtime=SimpleNamespace(deviceSynchronize=lambda: None))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    Backend("device", "").check()
    cuda.runtime.deviceSynchronize = raises(RuntimeError("cudaErrorIllegalAddress: an illegal memory access"))
    with pytest.raises(BackendUnavailable, match="failed: cudaErrorIllegalAddress: an illegal memory access; restart"):
        Backend("device", "").check()
    HOST.check()


def test_ranks_exchange_by_their_ring_on_the_host_and_by_nccl_on_the_device(monkeypatch):
    ring, found = Alone(), {True: Alone(), False: Alone()}
    module = SimpleNamespace(exchange_of=lambda given, can_store: found[can_store] if given is ring else None)
    monkeypatch.setitem(sys.modules, "gpu.ranks.device_exchange", module)
    assert exchange_on(HOST, ring) is ring
    assert exchange_on(Backend("device", ""), ring) is found[True]
    assert exchange_on(Backend("device", ""), ring, can_store=False) is found[False]


def test_importing_the_device_package_does_not_import_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it would raise
    importlib.reload(importlib.import_module("gpu.base.device"))


def test_cupy_is_missing(monkeypatch):
    whole = importlib.import_module

    def without_cupy(name: str, package: str | None = None) -> object:
        if name == "cupy":
            raise ModuleNotFoundError("No module named 'cupy'", name="cupy")
        return whole(name, package)

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(importlib, "import_module", without_cupy)
    monkeypatch.setattr(device, "_has_nvidia", lambda: True)
    assert device.obstacle() == "CuPy is not installed: pip install '.[gpu]' in a checkout of Nearfield"
    device.obstacle.cache_clear()
    monkeypatch.setattr(device, "_has_nvidia", lambda: False)
    assert device.obstacle() == "there is no CUDA device"


@pytest.mark.parametrize(
    "path", ["dev/nvidia0", "proc/driver/nvidia/gpus/0000:01:00.0", "usr/lib/wsl/lib/libcuda.so.1"]
)
def test_what_shows_a_device_of_nvidia(tmp_path, path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    assert not device._has_nvidia(tmp_path)
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    assert device._has_nvidia(tmp_path)


def test_cupy_does_not_load(monkeypatch):
    monkeypatch.setattr(importlib, "import_module", raises(OSError("libsomething.so: no such file\nmore")))
    assert device.obstacle() == "CuPy does not load: libsomething.so: no such file"


@pytest.mark.parametrize(
    ("fake", "words"),
    [
        (fake_cupy(count=lambda: 0), "there is no CUDA device"),
        (
            fake_cupy(count=raises(RuntimeError("cudaErrorInsufficientDriver: too old")), driver=lambda: 12040),
            r"driver \(for CUDA up to 12.4\) gives no device: cudaErrorInsufficientDriver",
        ),
        (fake_cupy(count=raises(RuntimeError("cudaErrorNoDevice")), driver=lambda: 0), r"\(none found\)"),
        (fake_cupy(count=raises(RuntimeError("")), driver=raises(RuntimeError("no"))), r"\(none found\).*RuntimeError"),
        (
            fake_cupy(archs=raises(RuntimeError("libnvrtc.so.13 not found"))),
            r"NVRTC is missing: pip install '\.\[gpu\]'",
        ),
        (fake_cupy("61", archs=lambda: [50, 61]), "compute capability 6.1, 7.0 or more"),
        (fake_cupy("70"), "compute capability 7.0, 7.5 or more"),
    ],
)
def test_what_is_in_the_way_is_said_in_one_sentence(monkeypatch, fake, words):
    obstacle = with_cupy(monkeypatch, fake)
    assert obstacle is not None
    assert "\n" not in obstacle
    assert re.search(words, obstacle), obstacle


def test_the_obstacle_is_determined_once(monkeypatch):
    assert with_cupy(monkeypatch, fake_cupy()) is None
    assert with_cupy(monkeypatch, fake_cupy(count=lambda: 0)) is None


def test_a_device_without_our_tensor_cores_is_used_and_said_aloud(monkeypatch):
    assert with_cupy(monkeypatch, fake_cupy("75")) is None
    assert "no tensor cores" in backend.choose("device").reason
    assert "no tensor cores" in backend.choose("auto").reason


def test_the_device_is_named(monkeypatch):
    assert with_cupy(monkeypatch, fake_cupy()) is None
    assert "Some GPU, compute capability 9.0" in backend.choose().reason
    assert backend.choose().name == "device"


def test_without_a_device_auto_is_the_host_and_device_is_refused(monkeypatch):
    with_cupy(monkeypatch, fake_cupy(count=lambda: 0))
    chosen = backend.choose("auto")
    assert (chosen.name, chosen.reason) == ("host", "there is no CUDA device")
    with pytest.raises(gpu.BackendUnavailable, match="there is no CUDA device"):
        backend.choose("device")


def test_several_devices_share_the_items_in_rankings(monkeypatch):
    assert with_cupy(monkeypatch, fake_cupy(count=lambda: 4)) is None
    chosen = backend.choose("device")
    assert chosen.ranking_on(1) == chosen
    assert chosen.ranking_on(3).ranking_devices == (0, 1, 2)
    with pytest.raises(BackendUnavailable, match=r"ranking_gpus: expected at most 4, the number of GPUs.*, got 5"):
        chosen.ranking_on(5)


def test_the_host_shares_with_nobody():
    assert HOST.ranking_on(1) is HOST
    with pytest.raises(BackendUnavailable, match=r"expected 1, because models answer on the host \(asked for\), got 2"):
        HOST.ranking_on(2)


def test_each_ranking_device_is_checked_counted_and_relieved(monkeypatch):
    current, seen = [0], []

    class Device:
        def __init__(self, number: int) -> None:
            self.number = number

        def __enter__(self) -> None:
            current.append(self.number)

        def __exit__(self, *_: object) -> None:
            current.pop()

    free = {0: 60, 1: 30}
    runtime = SimpleNamespace(
        deviceSynchronize=lambda: seen.append(current[-1]), memGetInfo=lambda: (free[current[-1]], 100)
    )
    pool = SimpleNamespace(total_bytes=lambda: 20 + current[-1], free_all_blocks=lambda: seen.append(current[-1]))
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=Device), get_default_memory_pool=lambda: pool)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    both = Backend("device", "", ranking_devices=(0, 1, 1))
    both.check()
    both.release()
    assert seen == [0, 1, 0, 1]
    assert both.device_bytes() == {"arrays": 41, "taken": 110}


def test_unknown_names_are_refused():
    with pytest.raises(gpu.InvalidInput, match="auto, host or device"):
        backend.choose("gpu")  # type: ignore[arg-type]


def test_the_host_is_taken_where_it_is_asked_for():
    assert backend.choose("host") is backend.HOST


def test_a_device_gives_back_what_its_pool_does_not_use(monkeypatch):
    calls = []
    pool = SimpleNamespace(free_all_blocks=lambda: calls.append("given back"))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(get_default_memory_pool=lambda: pool))
    HOST.release()
    assert calls == []
    Backend("device", "").release()
    assert calls == ["given back"]


# --- twins, seen without a device: its modules are read, not imported

Definition = ast.FunctionDef | ast.ClassDef


def names_of(path: Path) -> dict[str, str]:
    """What each imported name of a module stands for."""
    imports = [node for node in ast.walk(house.tree_of(path)) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}


def asked() -> set[str]:
    """The functions and classes whose twins are asked for; an argument of `twin` must be an imported name."""
    found = set()
    for path in (path for package in ("gpu", "service", "benchmarks") for path in house.modules(package).values()):
        for node in ast.walk(house.tree_of(path)) if "twin(" in path.read_text("utf-8") else ():
            if isinstance(node, ast.Call) and re.fullmatch(r"(?!super).*\b_?twin", ast.unparse(node.func)):
                alias, *rest = ast.unparse(node.args[0]).split(".")
                found.add(".".join([names_of(path)[alias], *rest]))
    return found


def definition_of(name: str) -> Definition:
    """The function or class with this dotted name, also if its module imports it from another one."""
    module, _, short = name.rpartition(".")
    path = house.modules("gpu")[module]
    here = [node for node in house.tree_of(path).body if isinstance(node, Definition) and node.name == short]
    return here[0] if here else definition_of(names_of(path)[short])


def functions_of(definition: Definition) -> dict[str, ast.FunctionDef]:
    """A function, or what others may call of a class."""
    if isinstance(definition, ast.FunctionDef):
        return {"": definition}
    methods = [node for node in definition.body if isinstance(node, ast.FunctionDef)]
    return {node.name: node for node in methods if node.name == "__init__" or not node.name.startswith("_")}


def parameters_of(function: ast.FunctionDef) -> list[tuple[str, bool]]:
    """(name, whether it has a default) of each parameter."""
    given, named = [*function.args.posonlyargs, *function.args.args], function.args.kwonlyargs
    n_required = len(given) - len(function.args.defaults)
    of_names = zip(named, function.args.kw_defaults, strict=True)
    return [(one.arg, n >= n_required) for n, one in enumerate(given)] + [(one.arg, bool(x)) for one, x in of_names]


def unread(function: ast.FunctionDef) -> set[str]:
    """The parameters that a function does not read; `del` reads nothing."""
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return {name for name, _ in parameters_of(function)} - read - {"self"}


@pytest.mark.parametrize("name", sorted(asked()))
def test_twins_take_the_same_and_at_least_one_reads_it(name: str) -> None:
    """So that a type checker, which sees a function of the host, has seen the twin too; a device may take more."""
    assert "host" in name, "only modules of the host have twins"
    host, device = (functions_of(definition_of(one)) for one in (name, name.replace("host", "device")))
    assert host.keys() <= device.keys()
    for method, function in host.items():
        taken, twins = parameters_of(function), parameters_of(device[method])
        assert twins[: len(taken)] == taken
        assert all(has_default for _, has_default in twins[len(taken) :])
        assert unread(function) & unread(device[method]) == set(), "an argument that neither reads"


def test_the_twin_on_the_host_is_what_was_asked_for():
    assert HOST.twin(host_topn.rank) is host_topn.rank


def test_the_twin_on_a_device_has_the_same_name_in_the_module_of_the_device(monkeypatch):
    rank, module = object(), SimpleNamespace()
    module.rank = rank
    monkeypatch.setitem(sys.modules, "gpu.ranking.device_topn", module)
    assert Backend("device", "under test").twin(host_topn.rank) is rank
