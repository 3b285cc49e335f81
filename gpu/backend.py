"""The one decision between host and device, made once and said aloud."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from gpu.errors import BackendUnavailable, InvalidInput

BackendName = Literal["auto", "host", "device"]


@dataclass(frozen=True)
class Backend:
    """Where arrays live and which primitives work on them.

    Attributes:
        name: "host" (Numba on the CPU) or "device" (CuPy on a GPU).
        reason: why this one, for the log line that says so.
    """

    name: Literal["host", "device"]
    reason: str

    def primitives(self, family: str) -> ModuleType:
        """The twin of this backend for one kernel family, such as "sgd", "lsh" or "topn".

        The device has twins of `DEVICE_FAMILIES`; whatever else is asked for works on the host there too.
        """
        home = self.name if family in DEVICE_FAMILIES else "host"
        return importlib.import_module(f"gpu.{home}.{family}")


HOST = Backend("host", "asked for")
DEVICE_FAMILIES = ("als", "descent", "esgd", "hals", "hamming", "item_index", "lsh", "similarity", "topn")
FAMILY_OF = {  # what trains an algorithm
    "als": "als", "als-implicit": "als", "culsh": "descent", "culsh-implicit": "descent", "esgd": "esgd", "nmf": "hals",
    "sgd": "descent",
}  # fmt: skip


def has_device_kernels(algorithm: str) -> bool:
    """Whether the device can train `algorithm`."""
    return FAMILY_OF.get(algorithm) in DEVICE_FAMILIES


def choose(wanted: BackendName = "auto", algorithm: str | None = None) -> Backend:
    """The backend to use; `auto` takes the device where one works and can train `algorithm`.

    Args:
        wanted: "auto", "host" or "device".
        algorithm: what is to be trained; None for a service, which trains any.

    Raises:
        BackendUnavailable: `device` was asked for and cannot run here, or cannot train `algorithm`.
        InvalidInput: an unknown name.
    """
    if wanted == "host":
        return HOST
    if wanted not in ("auto", "device"):
        raise InvalidInput(f"Invalid backend: expected auto, host or device, got {wanted!r}")
    if algorithm is not None and not has_device_kernels(algorithm):
        if wanted == "auto":
            return Backend("host", f"{algorithm} has no device kernels")
        trained = ", ".join(sorted(filter(has_device_kernels, FAMILY_OF)))
        raise BackendUnavailable(
            f"Invalid backend of {algorithm}: expected auto or host, got device (trains {trained})"
        )
    device = importlib.import_module("gpu.device")
    obstacle = device.obstacle()
    if obstacle is None:
        return Backend("device", device.describe())
    if wanted == "device":
        raise BackendUnavailable(f"Invalid backend: expected a usable CUDA device, got none ({obstacle}); use host")
    return Backend("host", obstacle)
