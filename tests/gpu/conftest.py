"""Fixtures for tests of the device."""

import importlib
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_pool() -> Iterator[None]:
    """Each array is an allocation of its own: CuPy's pool would hide what goes past the end of one."""
    cupy = importlib.import_module("cupy")
    cupy.cuda.set_allocator(None)
    yield
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
