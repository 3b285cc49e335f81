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
        """The twin of this backend for one kernel family, such as "sgd", "lsh" or "topn"."""
        return importlib.import_module(f"gpu.{self.name}.{family}")


HOST = Backend("host", "asked for")


def choose(wanted: BackendName = "auto") -> Backend:
    """The backend to use; `auto` takes the device where one works.

    Raises:
        BackendUnavailable: `device` was asked for and cannot run here.
        InvalidInput: an unknown name.
    """
    if wanted == "host":
        return HOST
    if wanted not in ("auto", "device"):
        raise InvalidInput(f"Invalid backend: expected auto, host or device, got {wanted!r}")
    obstacle = importlib.import_module("gpu.device").obstacle()
    if obstacle is None:
        return Backend("device", "asked for" if wanted == "device" else "a CUDA device is available")
    if wanted == "device":
        raise BackendUnavailable(f"Invalid backend: expected a usable CUDA device, got none ({obstacle}); use host")
    return Backend("host", obstacle)
