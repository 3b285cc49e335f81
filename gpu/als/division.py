"""The plan of a training of ALS on several ranks: `gpu.als.planner` for its ratings and parameters.

`nearfield train --plan` shows this plan, and a training on ranks takes its modes.
"""

from __future__ import annotations

import numpy as np

from gpu.als import host_sums as sums
from gpu.als import planner
from gpu.als.halves import GATHER, Division, Modes
from gpu.als.objective import WHOLE
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.planner_costs import Gpu, Shape
from gpu.base.backend import Backend
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings
from gpu.ranks.exchange import Exchange

GB = 10**9  # bytes
MEMORY_GB = 80  # of a GPU where there is none to ask: that of an H100


def obstacle(params: Params) -> str | None:
    """Why several GPUs cannot train with `params`; None if they can."""
    if not isinstance(params, AlsParams | AlsImplicitParams):
        return f"no plan: expected als or als-implicit, got {params.algorithm}"
    if params.width > WHOLE or params.solver != "cg" or params.precision != "float16":
        return f"no plan: expected at most {WHOLE} factors, solver=cg and precision=float16 for several GPUs"
    return None


def shape_of(size: tuple[int, int, int], params: Params) -> Shape:
    """The shape of a training with `params` that have no `obstacle`; `size` is (U, I, N)."""
    assert isinstance(params, AlsParams | AlsImplicitParams)  # noqa: S101 - this narrows the type
    has_biases = isinstance(params, AlsParams) and params.biases
    return Shape(*size, params.width, params.is_implicit, has_biases, params.n_cg_steps)


def size_of(ratings: Ratings) -> tuple[int, int, int]:
    """(U, I, N)."""
    return ratings.n_users, ratings.n_items, len(ratings)


def division_of(
    ratings: Ratings, params: AlsParams | AlsImplicitParams, backend: Backend, exchange: Exchange
) -> Division:
    """The modes and shares of the fastest plan that uses the devices of all ranks.

    All ranks must call it, and get the same. They tell each other how much memory their devices have: a device gets no
    more than it can hold. A rank on the host is planned for as a GPU with `MEMORY_GB`, so that its modes depend on
    ratings, parameters and the number of ranks alone. Both halves have the mode "gather", and shares are the weights of
    the ranks, if there is no plan, or if a device cannot add up.
    """
    without_plan = Division(GATHER, exchange.weights)
    if exchange.size == 1 or obstacle(params) is not None:
        return without_plan
    memory = np.zeros(exchange.size, dtype=np.int64)
    if backend.twin(sums.is_available)():
        most = backend.memory_bytes() or MEMORY_GB * GB
        memory[exchange.rank] = most if backend.limit_bytes is None else min(most, backend.limit_bytes)
    exchange.on_host.gather(memory, np.arange(exchange.size + 1))
    if not memory.all():
        return without_plan
    weights = zip(memory.tolist(), exchange.weights, strict=True)
    gpus = [Gpu(n, weight, backend.kept_bytes) for n, weight in weights]
    found = planner.plan_for_all(shape_of(size_of(ratings), params), gpus)
    if found is None:
        return without_plan
    return Division(Modes(found.items.mode, found.users.mode), found.shares)
