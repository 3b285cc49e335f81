"""What the device is and whether it can be used. Importing it needs no CuPy."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType

from gpu.base.errors import BackendUnavailable

OLDEST = 70  # compute capability times ten, at least; a newer CUDA may only compile for later ones
TENSOR_CORES = 80  # from here on kernels use `mma` of 16 x 8 x 16 and asynchronous copies

NO_DEVICE = "there is no CUDA device"
INSTALL = "pip install '.[gpu]' in a checkout of Nearfield"
# What drivers of NVIDIA make on Linux, in containers and under WSL, whether CUDA's libraries are installed or not.
DRIVER_FILES = ("dev/nvidia[0-9]*", "proc/driver/nvidia/gpus/*", "usr/lib/wsl/lib/libcuda.so*")


@functools.cache
def obstacle() -> str | None:
    """Why the device backend cannot run on this machine; None if it can."""
    try:
        with warnings.catch_warnings():  # CuPy warns on import where optional libraries are missing
            warnings.simplefilter("ignore")
            cupy = importlib.import_module("cupy")
    except ModuleNotFoundError as error:
        missing = "CuPy is not installed" if error.name == "cupy" else f"CuPy lacks {error.name}"
        return f"{missing}: {INSTALL}" if _has_nvidia() else NO_DEVICE
    except Exception as error:  # CuPy loads libraries on import, which may fail in ways of their own
        return f"CuPy does not load: {_line(error)}"
    return _obstacle_of_driver(cupy) or _obstacle_of_compiler(cupy)


def _has_nvidia(root: Path = Path("/")) -> bool:
    """Whether a driver shows a device of NVIDIA; works without CUDA."""
    return any(True for pattern in DRIVER_FILES for _ in root.glob(pattern))


def n_devices() -> int:
    """How many devices this process sees; call it only without an `obstacle`."""
    return int(importlib.import_module("cupy").cuda.runtime.getDeviceCount())


def check(*devices: int) -> None:
    """Check that devices still answer: after a fault in a kernel all of CUDA fails in this process.

    Args:
        devices: their numbers; by default the current one.

    Raises:
        BackendUnavailable: a device does not answer; the message is CUDA's.
    """
    runtime = importlib.import_module("cupy").cuda.runtime
    try:
        for device in _each(devices):
            with device:
                runtime.deviceSynchronize()
    except Exception as error:
        raise BackendUnavailable(f"The device has failed: {_line(error)}; restart the process") from error


def describe() -> str:
    """Description of the device and of the features that kernels use; call it only without an `obstacle`."""
    cupy = importlib.import_module("cupy")
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    capability = compute_capability()
    text = f"{properties['name'].decode()}, compute capability {capability / 10:.1f}"
    return text if capability >= TENSOR_CORES else f"{text}: no tensor cores used below 8.0, float32 throughout"


def used_bytes(*devices: int) -> dict[str, int]:
    """Bytes of devices, by default of the current one, by owner; see `gpu.base.backend.Backend.device_bytes`."""
    cupy, used = importlib.import_module("cupy"), {"arrays": 0, "taken": 0}
    for device in _each(devices):
        with device:
            free, total = cupy.cuda.runtime.memGetInfo()
            used["arrays"] += int(cupy.get_default_memory_pool().total_bytes())
            used["taken"] += int(total - free)
    return used


def memory_of_devices() -> list[int]:
    """Bytes of memory of each device, used or not; none where the device backend cannot run. Allocates nothing."""
    if obstacle() is not None:
        return []
    runtime = importlib.import_module("cupy").cuda.runtime
    return [int(runtime.getDeviceProperties(n)["totalGlobalMem"]) for n in range(runtime.getDeviceCount())]


def memory_bytes() -> int:
    """Bytes of memory of the current device, used or not."""
    cupy = importlib.import_module("cupy")
    return memory_of_devices()[int(cupy.cuda.Device().id)]


def free_bytes() -> int:
    """Bytes of the current device that a training can take: free memory, and unused blocks of CuPy's pool."""
    cupy = importlib.import_module("cupy")
    free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free) + int(cupy.get_default_memory_pool().free_bytes())


def release(*devices: int) -> None:
    """Give the unused blocks of CuPy's pools back to devices, by default to the current one."""
    pool = importlib.import_module("cupy").get_default_memory_pool()
    for device in _each(devices):
        with device:
            pool.free_all_blocks()


def _each(devices: Sequence[int]) -> Iterable[AbstractContextManager[object]]:
    """Contexts that make each of the distinct `devices` the current one; without devices, one that changes nothing."""
    if not devices:
        return [nullcontext()]
    return map(importlib.import_module("cupy").cuda.Device, dict.fromkeys(devices))


def compute_capability() -> int:
    """Compute capability of the current device times ten: 90 for an H100."""
    return int(importlib.import_module("cupy").cuda.Device().compute_capability)


@functools.cache
def shared_memory() -> int:
    """Bytes of shared memory that a block of the current device can have."""
    cupy = importlib.import_module("cupy")
    limit: int = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
    return limit


@functools.cache
def n_multiprocessors() -> int:
    """Multiprocessors of the current device. CuPy asks for all attributes of a device at once, which takes long."""
    cupy = importlib.import_module("cupy")
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])


def _obstacle_of_driver(cupy: ModuleType) -> str | None:
    runtime = cupy.cuda.runtime
    try:
        if runtime.getDeviceCount() == 0:
            return "there is no CUDA device"
        cupy.cuda.Device().compute_capability  # noqa: B018 - a device that is there may still not answer
    except Exception as error:  # no driver, one without a device or one too old: CUDA's own words say which
        try:
            version = runtime.driverGetVersion()
        except Exception:  # as good as none
            version = 0
        newest = f"for CUDA up to {version // 1000}.{version % 1000 // 10}" if version else "none found"
        return f"the CUDA driver ({newest}) gives no device: {_line(error)}"
    return None


def _obstacle_of_compiler(cupy: ModuleType) -> str | None:
    try:
        oldest = max(OLDEST, min(cupy.cuda.nvrtc.getSupportedArchs()))
    except Exception as error:  # the loader of the library has exceptions of its own
        return f"CUDA's run-time compiler NVRTC is missing: {INSTALL} ({_line(error)})"
    capability = int(cupy.cuda.Device().compute_capability)
    if capability < oldest:
        return f"the device has compute capability {capability / 10:.1f}, {oldest / 10:.1f} or more is needed"
    return None


def _line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
