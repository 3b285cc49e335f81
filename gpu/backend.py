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
        kept_bytes: memory that a training here must leave free for others.
    """

    name: Literal["host", "device"]
    reason: str
    kept_bytes: int = 0

    def primitives(self, family: str) -> ModuleType:
        """The twin of this backend for one kernel family, such as "sgd", "lsh" or "topn".

        The device has twins of `DEVICE_FAMILIES`; whatever else is asked for works on the host there too.
        """
        home = self.name if family in DEVICE_FAMILIES else "host"
        return importlib.import_module(f"gpu.{home}.{family}")

    def check(self) -> None:
        """Return if it still works; to be asked when something has failed that should not.

        Raises:
            BackendUnavailable: the device can never again be used in this process.
        """
        if self.name == "device":
            importlib.import_module("gpu.device").check()

    def device_bytes(self) -> dict[str, int]:
        """Memory of the device, in bytes: "arrays" of this process, spare room of its pool included, and "taken" by
        whatever runs there; empty on the host.
        """
        if self.name != "device":
            return {}
        found: dict[str, int] = importlib.import_module("gpu.device").used_bytes()
        return found

    def free_bytes(self) -> int:
        """Memory that nobody holds here now, no other process either; `kept_bytes` included."""
        free: int = self.primitives("als").free_bytes()
        return free

    def release(self) -> None:
        """Give back what is only held to be used again, for other processes to have; may wait for the device."""
        if self.name == "device":
            importlib.import_module("gpu.device").release()


HOST = Backend("host", "asked for")
DEVICE_FAMILIES = (
    "als", "descent", "ease", "esgd", "hals", "hamming", "item_index", "lsh", "online.exact", "similarity", "topn",
)  # fmt: skip


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
    device = importlib.import_module("gpu.device")
    obstacle = device.obstacle()
    if obstacle is None:
        return Backend("device", device.describe())
    if wanted == "device":
        raise BackendUnavailable(f"Invalid backend: expected a usable CUDA device, got none ({obstacle}); use host")
    return Backend("host", obstacle)
