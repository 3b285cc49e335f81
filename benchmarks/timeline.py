"""Where the time of an epoch goes on each rank: marks around the functions that train, which know nothing of them.

A mark is an event in the stream of a device, or a time on the host. `watched` gives a backend whose twins have marks
around some functions. What lies between two marks belongs to the innermost of these functions, or to none.

Epochs with marks run behind a kernel that does nothing for a while. All launches are there when it ends, so a device
waits for none of them. What epochs without marks take longer are gaps, in which a device waits for a launch.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

import gpu
from benchmarks.results import Row
from gpu.als import host, host_stream, host_sums
from gpu.base.backend import Twin
from gpu.descent import host_esgd
from gpu.descent.host import Descent
from gpu.descent.host_item_changes import ItemChanges
from gpu.ranks.exchange import Exchange

SOLVE, EXCHANGE, OTHER = "solve", "exchange", "other"
# Functions whose time, and that of their twins, counts as `SOLVE`; classes -> what the time of their methods counts as.
SOLVES = host.solve, host_stream.solve, host_sums.gram_to_add, host_sums.add_up, host_sums.solve, host_esgd.learn_epoch
METHODS: dict[Any, dict[str, str]] = {
    Descent: {"learn": SOLVE, "shrink": OTHER},
    ItemChanges: {"collect": OTHER, "apply": OTHER, "remember": OTHER},
}
EXCHANGES = dict.fromkeys(("gather", "reduce_scatter", "reduce", "shift"), EXCHANGE)
IDLE_NS = 1_500_000  # launches of an epoch take less
IDLE = """
__device__ unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
extern "C" __global__ void idle(unsigned long long ns) {
    const unsigned long long began = now();
    while (now() - began < ns) {}
}
"""


class Spans(NamedTuple):
    """The spans of one epoch on one rank, in milliseconds.

    Attributes:
        kinds: sums of spans by what they count as; "" is what no function took.
        exchanges: each exchange, with the wait for other ranks.
    """

    kinds: dict[str, float]
    exchanges: list[float]


class Clock(Protocol):
    """Tells the time of a backend."""

    def now(self) -> Any:
        """A mark."""

    def ms(self, began: Any, ended: Any) -> float:
        """Milliseconds between two marks."""

    def idle(self) -> None:
        """Let what follows wait until it is launched."""


class HostClock:
    """The clock of the process; see `Clock`."""

    now = staticmethod(time.perf_counter)

    def ms(self, began: float, ended: float) -> float:
        """See `Clock`."""
        return 1e3 * (ended - began)

    def idle(self) -> None:
        """Do nothing: nothing is launched."""


class DeviceClock:
    """Events of the current device; see `Clock`."""

    def __init__(self) -> None:
        self._cuda = importlib.import_module("cupy").cuda
        self._idle = importlib.import_module("cupy").RawKernel(IDLE, "idle")

    def now(self) -> Any:
        """See `Clock`."""
        event = self._cuda.Event()
        event.record()
        return event

    def ms(self, began: Any, ended: Any) -> float:
        """See `Clock`; waits for the second mark."""
        ended.synchronize()
        return float(self._cuda.get_elapsed_time(began, ended))

    def idle(self) -> None:
        """See `Clock`."""
        self._idle((1,), (1,), (np.uint64(IDLE_NS),))


class Marks:
    """The marks of one rank; one thread uses them.

    Attributes:
        are_stored: whether solving kernels write to the tables of other ranks. Without that these tables are out of
            date.
    """

    def __init__(self, clock: Clock) -> None:
        self.are_stored = True
        self._clock, self._is_on, self._kind = clock, False, ""
        self._marks: list[tuple[str, Any]] = []

    def around(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` with marks."""

        @functools.wraps(function)
        def marked(*arguments: Any) -> Any:
            with self._within(kind):
                return function(*arguments)

        return marked

    def watch(self, instance: Any, kinds: Mapping[str, str]) -> Any:
        """`instance`, whose methods have marks from now on."""
        for name, kind in kinds.items():
            setattr(instance, name, self.around(kind, getattr(instance, name)))
        return instance

    def epoch(self, learn: Callable[[], None]) -> Spans:
        """The spans of `learn`, which runs an epoch."""
        self._clock.idle()
        self._is_on = True
        with self._within(""):
            learn()
        self._is_on, marks, self._marks = False, self._marks, []
        spans = [(kind, self._clock.ms(began, ended)) for (kind, began), (_, ended) in itertools.pairwise(marks)]
        kinds, exchanges = dict.fromkeys(("", SOLVE, EXCHANGE, OTHER), 0.0), []
        for kind, of_kind in itertools.groupby(spans, key=lambda span: span[0]):
            kinds[kind] += (ms := sum(ms for _, ms in of_kind))
            exchanges += [ms] * (kind == EXCHANGE)
        return Spans(kinds, exchanges)

    @contextmanager
    def _within(self, kind: str) -> Iterator[None]:
        """Count the time of the block as `kind`."""
        if not self._is_on:
            yield
            return
        outer, self._kind = self._kind, kind
        self._marks.append((self._kind, self._clock.now()))
        yield
        self._kind = outer
        self._marks.append((self._kind, self._clock.now()))


@dataclass(frozen=True)
class Watched(gpu.Backend):
    """A backend whose twins have marks."""

    marks: Marks = field(kw_only=True)

    def twin(self, of_host: Twin) -> Twin:
        """The twin, with marks around it or around methods of its instances."""
        found: Any = super().twin(of_host)
        if of_host in METHODS:
            return cast("Twin", lambda *given: self.marks.watch(found(*given), METHODS[of_host]))
        if of_host in SOLVES:
            function = _without_stores(found, self.marks) if of_host.__name__ == "solve" else found
            return cast("Twin", self.marks.around(SOLVE, function))
        return cast("Twin", found)


def watched(backend: gpu.Backend, exchange: Exchange) -> Watched:
    """`backend` with marks, also around the exchanges of `exchange`."""
    marks = Marks(DeviceClock() if backend.name == "device" else HostClock())
    marks.watch(exchange, EXCHANGES)
    return Watched(**vars(backend), marks=marks)


def _without_stores(solve: Callable[..., Any], marks: Marks) -> Callable[..., Any]:
    """The primitive `solve`, which writes to no other rank if `marks` say so."""

    @functools.wraps(solve)
    def solved(side: Any, table: Any, *others: Any) -> Any:
        peers: tuple[int, ...] = getattr(table, "peers", ())
        return solve(side, table if marks.are_stored or not peers else replace(table, peers=()), *others)

    return solved


class OfRank(NamedTuple):
    """What a rank has measured.

    Attributes:
        epoch_ms: of an epoch without marks, median.
        spans: of epochs with marks.
        alone: of epochs with marks whose kernels do not write to other ranks.
    """

    epoch_ms: float
    spans: list[Spans]
    alone: list[Spans]


def rows_of(ranks: Sequence[OfRank], solve_alone_ms: float) -> list[Row]:
    """A row for each rank, in milliseconds of an epoch, medians.

    `solve_ms` is the time of the kernels without what their stores to other ranks take, `stores_ms`. `exchange_ms` is
    what the rank that comes last takes for all exchanges; the others have waited for it, `wait_ms`. `other_ms` are
    other kernels, and `gaps_ms` is the rest. `uneven_ms` is by how much `solve_ms` exceeds this rank's part of
    `solve_alone_ms`, the time of one rank (NaN: not measured): the last rows, for which most of a device waits.
    """
    of_epochs = zip(*([spans.exchanges for spans in rank.spans] for rank in ranks), strict=True)
    exchange_ms = statistics.median(sum(map(min, zip(*of_epoch, strict=True))) for of_epoch in of_epochs)
    rows = []
    for number, rank in enumerate(ranks):
        ms = {kind: statistics.median(spans.kinds[kind] for spans in rank.spans) for kind in (SOLVE, EXCHANGE, OTHER)}
        solve_ms = statistics.median(spans.kinds[SOLVE] for spans in rank.alone)
        rows.append({
            "ranks": len(ranks), "rank": number, "epoch_ms": rank.epoch_ms, "solve_ms": solve_ms,
            "stores_ms": ms[SOLVE] - solve_ms, "exchange_ms": exchange_ms, "wait_ms": ms[EXCHANGE] - exchange_ms,
            "other_ms": ms[OTHER], "gaps_ms": rank.epoch_ms - sum(ms.values()),
            "uneven_ms": solve_ms - solve_alone_ms / len(ranks),
        })  # fmt: skip
    return rows
