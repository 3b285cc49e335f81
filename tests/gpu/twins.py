"""`twin_of`: the primitives of a backend, for tests that run on both."""

import importlib
from types import ModuleType

from gpu.base.backend import Backend


def twin_of(module: ModuleType, backend: Backend) -> ModuleType:
    """The module of `backend` that does what `module`, a module `host…`, does."""
    name = module.__name__
    return importlib.import_module(name if backend.name == "host" else name.replace("host", "device"))
