"""Chooses between host and device, once, with a reason for the log."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from gpu.base import free_memory
from gpu.base.errors import BackendUnavailable, InvalidInput

CUDA_BYTES = 500_000_000  # that CUDA and its libraries take of each device
WORKSPACE = 64 * 2**20  # bytes; work space of matrix products and reductions in CuPy, at most
BackendName = Literal["auto", "host", "device"]
Twin = TypeVar("Twin", bound=Callable[..., Any])


@dataclass(frozen=True)
class Backend:
    """Where arrays live and which primitives work on them.

    Attributes:
        name: "host" (Numba on the CPU) or "device" (CuPy on a GPU).
        reason: why this backend was chosen, for the log.
        kept_bytes: bytes that a training must leave free for other uses.
        limit_bytes: bytes that a training may take, `kept_bytes` included. None: all that are free.
        ranking_devices: numbers of the devices that share the items in rankings; one that occurs twice has two parts.
            Empty: the current device has all items. Everything else is done on the current device.
    """

    name: Literal["host", "device"]
    reason: str
    kept_bytes: int = 0
    limit_bytes: int | None = None
    ranking_devices: tuple[int, ...] = ()

    def twin(self, of_host: Twin) -> Twin:
        """What does on this backend what `of_host` does on the host: a function or class of a module `host…`.

        On a device it has the same name and signature in the module `device…`: `gpu.als.device_stream.solve` is the
        twin of `gpu.als.host_stream.solve`. Its arrays are those of CuPy, so what one twin has loaded, only its own
        family reads. Modules of devices are imported here, because CuPy may be missing
        (docs/decisions/0111).
        """
        if self.name == "host":
            return of_host
        module = importlib.import_module(of_host.__module__.replace("host", "device"))
        of_device: Twin = getattr(module, of_host.__name__)
        return of_device

    def check(self) -> None:
        """Check that the backend still works; call it after an unexpected failure.

        Raises:
            BackendUnavailable: a device can no longer be used in this process.
        """
        if self.name == "device":
            importlib.import_module("gpu.base.device").check(*self.ranking_devices)

    def device_bytes(self) -> dict[str, int]:
        """Bytes of device memory: "arrays" of this process with spare room of its pool, and "taken" by all processes.

        Sums over the ranking devices. Empty on the host.
        """
        if self.name != "device":
            return {}
        by_owner: dict[str, int] = importlib.import_module("gpu.base.device").used_bytes(*self.ranking_devices)
        return by_owner

    def memory_bytes(self) -> int | None:
        """Bytes of memory of the device that this process computes on, used or not; None on the host."""
        return None if self.name == "host" else importlib.import_module("gpu.base.device").memory_bytes()

    def free_bytes(self) -> int:
        """Bytes that no process uses now, including `kept_bytes`; at most `limit_bytes`."""
        if self.name == "host":
            free = free_memory.free_bytes()
        else:
            free = importlib.import_module("gpu.base.device").free_bytes()
        return free if self.limit_bytes is None else min(free, self.limit_bytes)

    def load(self) -> Backend:
        """This backend with all its modules imported, for before threads start; see
        `gpu.base.host.compilation.load`.
        """
        if self.name == "device":
            gpu = importlib.import_module(__name__.removesuffix(".base.backend"))
            for module in pkgutil.walk_packages(gpu.__path__, f"{gpu.__name__}."):
                if any(part.startswith("device") for part in module.name.split(".")):
                    importlib.import_module(module.name)
        return self

    def ranking_on(self, n_devices: int) -> Backend:
        """This backend, where the first `n_devices` devices share the items in rankings.

        Raises:
            BackendUnavailable: there are fewer, or this is the host; the message has both numbers.
        """
        if n_devices == 1:
            return self
        if self.name != "device":
            expected = f"1, because models answer on the host ({self.reason})"
            raise BackendUnavailable(f"Invalid ranking_gpus: expected {expected}, got {n_devices}")
        there: int = importlib.import_module("gpu.base.device").n_devices()
        if n_devices > there:
            expected = f"at most {there}, the number of GPUs that this process sees"
            raise BackendUnavailable(f"Invalid ranking_gpus: expected {expected}, got {n_devices}")
        return replace(self, ranking_devices=tuple(range(n_devices)))

    def within(self, n_bytes: int) -> Backend:
        """This backend for trainings that take at most `n_bytes`, on a device with what CUDA and its libraries take."""
        taken = CUDA_BYTES + WORKSPACE if self.name == "device" else 0
        return replace(self, limit_bytes=max(0, n_bytes - taken))

    def release(self) -> None:
        """Free unused memory of this process's pool for other processes; may wait for the device."""
        if self.name == "device":
            importlib.import_module("gpu.base.device").release(*self.ranking_devices)


HOST = Backend("host", "asked for")


def choose(wanted: BackendName = "auto") -> Backend:
    """The backend to use; `auto` is the device if one works, else the host.

    Raises:
        BackendUnavailable: `device` was asked for and cannot run here.
        InvalidInput: an unknown name.
    """
    if wanted == "host":
        return HOST
    if wanted not in ("auto", "device"):
        raise InvalidInput(f"Invalid backend: expected auto, host or device, got {wanted!r}")
    device = importlib.import_module("gpu.base.device")
    obstacle = device.obstacle()
    if obstacle is None:
        return Backend("device", device.describe())
    if wanted == "device":
        raise BackendUnavailable(f"Invalid backend: expected a usable CUDA device, got none ({obstacle}); use host")
    return Backend("host", obstacle)
