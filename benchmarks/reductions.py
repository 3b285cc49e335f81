"""`python -m benchmarks reductions`: three ways to add up partial sums of ALS in mode reduce ([001] Alg. 3).

* one phase: each rank gets the sums of its own rows from all ranks (reduce-scatter). Trainings do this.
* two phases: first within groups of ranks that are close to each other, then between groups. It pays where a link
  between groups is slower than one within a group.
* all-reduce: each rank gets the sums of all rows, and uses its own.

The ranks are processes of this machine. All links between them are alike, so two phases can only show their cost here.
"""

from __future__ import annotations

import functools
import importlib
import secrets
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.distributed import TIMEOUT_S, run_ranks
from benchmarks.report import say
from gpu.backend import Backend
from gpu.errors import InvalidInput
from gpu.exchange import Exchange
from gpu.host import exchange as host

N_TIMED = 10  # times that each way is timed
N_GROUPS, LOOPBACK = 2, "127.0.0.1"
Reduce = Callable[
    ..., slice
]  # adds up sums in place, given exchanges and sums; returns the rows that this rank has then


@dataclass(frozen=True)
class Row:
    """One way at one number of ranks: the median of the slowest rank, and what each rank sends on average.

    `groups` is the number of groups of two phases; 0 for other ways.
    """

    way: str
    ranks: int
    groups: int
    mb: float
    ms: float
    sent_mb: float


def run(shape: tuple[int, int], ranks: Sequence[int], backend: str) -> Iterator[Row]:
    """Time every way at each number of ranks, for float32 sums (rows, numbers) on each rank."""
    for size in ranks:
        if size < 2:
            raise InvalidInput(f"Invalid ranks: expected at least 2, got {size}")
        if size % 2 or size < 4:
            say(f"{size} ranks: no two phases, which need an even number of ranks from 4 on")
        work = functools.partial(_measured, shape, secrets.token_bytes(32))
        results = run_ranks(size, backend, work)
        for way in results[0]:
            ms = statistics.median(np.max([found[way][1] for found in results], axis=0))
            sent = statistics.mean(found[way][2] for found in results)
            yield Row(way, size, results[0][way][0], 4 * shape[0] * shape[1] / 1e6, ms, sent / 1e6)


def _measured(
    shape: tuple[int, int], key: bytes, exchange: Exchange, backend: Backend
) -> dict[str, tuple[int, list[float], float]]:
    """(groups, milliseconds, bytes that this rank sends) of each way."""
    ways: dict[str, tuple[Reduce, tuple[Exchange, ...]]] = {
        "one phase": (one_phase, (exchange,)),
        "all-reduce": (all_reduce, (exchange,)),
    }
    if exchange.size % 2 == 0 and exchange.size >= 4:
        ways["two phases"] = two_phases, groups_of(N_GROUPS, exchange, backend, key)
    found = {}
    for way, (reduce, exchanges) in ways.items():
        ms, sent = _timed(shape, functools.partial(reduce, *exchanges), exchanges, exchange, backend)
        found[way] = N_GROUPS * (len(exchanges) > 1), ms, sent
    return found


def _timed(
    shape: tuple[int, int], reduce: Callable[[Any], slice], exchanges: Sequence[Exchange], everybody: Exchange,
    backend: Backend,
) -> tuple[list[float], float]:  # fmt: skip
    """(milliseconds of each run but the first, bytes sent in one run)."""
    ms: list[float] = []
    for _ in range(N_TIMED + 1):
        parts = _ones(shape, backend)
        everybody.barrier()
        for exchange in exchanges:
            exchange.traffic.take()
        began = time.perf_counter()
        reduce(parts)
        backend.primitives("als").finish()
        ms.append((time.perf_counter() - began) * 1e3)
        sent = sum(sum(exchange.traffic.take().sent.values()) for exchange in exchanges)
    return ms[1:], sent


def one_phase(exchange: Exchange, parts: Any) -> slice:
    """Each rank gets the sums of its own rows from all others."""
    bounds = _even(len(parts), exchange.size)
    exchange.reduce_scatter(parts, bounds)
    return slice(*bounds[exchange.rank : exchange.rank + 2].tolist())


def all_reduce(exchange: Exchange, parts: Any) -> slice:
    """Each rank gets the sums of all rows."""
    exchange.reduce(parts)
    return slice(0, len(parts))


def two_phases(within: Exchange, between: Exchange, parts: Any) -> slice:
    """Each rank gets sums of its group, and then those of the ranks that have the same rows in other groups."""
    outer = one_phase(within, parts)
    inner = one_phase(between, parts[outer])
    return slice(outer.start + inner.start, outer.start + inner.stop)


def groups_of(n: int, exchange: Exchange, backend: Backend, key: bytes) -> tuple[Exchange, Exchange]:
    """(the exchange within this rank's group, that of ranks with the same place in other groups); `n` equal groups."""
    ranks = np.arange(exchange.size).reshape(n, -1)
    group, place = divmod(exchange.rank, ranks.shape[1])
    within, between = (_exchange_of(ranks_, exchange, backend, key) for ranks_ in (ranks[group], ranks[:, place]))
    return within, between


def _exchange_of(members: NDArray[np.int64], exchange: Exchange, backend: Backend, key: bytes) -> Exchange:
    """An exchange of some ranks, all of this machine; every rank calls it at the same time for its own group."""
    listener, ports = socket.create_server((LOOPBACK, 0)), np.zeros(exchange.size, dtype=np.int64)
    ports[exchange.rank] = listener.getsockname()[1]
    exchange.on_host.gather(ports, np.arange(exchange.size + 1))
    addresses = [(LOOPBACK, int(ports[rank])) for rank in members]
    rank = int(np.flatnonzero(members == exchange.rank)[0])
    return backend.exchange(host.connect(rank, addresses, listener, key, TIMEOUT_S))


def _ones(shape: tuple[int, int], backend: Backend) -> Any:
    ones = np.ones(shape, dtype=np.float32)
    return ones if backend.name == "host" else importlib.import_module("gpu.device.cuda.arrays").to_device(ones)


def _even(n_rows: int, size: int) -> NDArray[np.int64]:
    return np.arange(size + 1, dtype=np.int64) * n_rows // size
