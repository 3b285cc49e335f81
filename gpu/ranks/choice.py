"""Chooses how the ranks of a training exchange arrays of a backend."""

from __future__ import annotations

import importlib

from gpu.base.backend import Backend
from gpu.ranks.exchange import Exchange


def exchange_on(backend: Backend, ring: Exchange, *, can_store: bool = True) -> Exchange:
    """How the ranks of `ring`, which lie on the host, exchange arrays of `backend`.

    Args:
        can_store: whether kernels may store into the memory of other devices. Default: where it works.

    Raises:
        BackendUnavailable: devices cannot reach each other; the message says what to install or to set.
    """
    if backend.name == "host":
        return ring
    by_nccl: Exchange = importlib.import_module("gpu.ranks.device_exchange").exchange_of(ring, can_store=can_store)
    return by_nccl


def version_on(backend: Backend) -> str:
    """What several ranks exchange arrays of `backend` by, with its version: "NCCL 2.28.9"; empty on the host.

    Raises:
        BackendUnavailable: it is missing or too old; the message says what to install.
    """
    if backend.name == "host":
        return ""
    return f"NCCL {importlib.import_module('gpu.ranks.device_exchange').nccl_version()}"
