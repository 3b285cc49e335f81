"""Other libraries on the same data. No module here imports the project, so another interpreter can run them.

Each module imports its library inside `fit` only. `contract.py` defines inputs and outputs; `child.py` runs one fit.
"""

from __future__ import annotations

import importlib

from benchmarks.peers.contract import Peer

MODULES = ("surprise_models", "libmf_sgd", "lenskit_als", "implicit_als", "sklearn_nmf")


def peers() -> dict[str, Peer]:
    """Every peer by its name, in the order of the tables."""
    modules = (importlib.import_module(f"benchmarks.peers.{name}") for name in MODULES)
    return {peer.name: peer for module in modules for peer in module.PEERS}
