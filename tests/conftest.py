"""Fixtures that every test may use."""

from __future__ import annotations

import importlib

import pytest

from gpu.backend import HOST, Backend


def _device() -> Backend:
    obstacle = importlib.import_module("gpu.device").obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    return Backend("device", "under test")


@pytest.fixture(scope="session", params=["host", pytest.param("device", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every backend of this machine, one after the other."""
    return HOST if request.param == "host" else _device()
