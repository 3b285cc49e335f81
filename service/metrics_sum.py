"""`MetricsSum`: the series of several processes of one service, added up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

Samples = Sequence[tuple[str, dict[str, str], float]]  # name, labels and value of each sample
OWN = frozenset(("process_start_time_seconds", "process_max_fds"))  # a sum of these would mean nothing
_COUNTERS = ("_total", "_count", "_sum", "_bucket")
_Key = tuple[str, tuple[tuple[str, str], ...]]


def samples_of(registry: CollectorRegistry) -> Samples:
    """All samples of a process that another process shall add to its own."""
    return [
        (sample.name, dict(sample.labels), sample.value)
        for family in registry.collect()
        for sample in family.samples
        if sample.name not in OWN
    ]


class MetricsSum:
    """The samples of other processes: of those that run, and the counters of those that have ended.

    One thread calls `put` and `end`; any thread may render a page.
    """

    def __init__(self) -> None:
        self._running: dict[object, Samples] = {}
        self._ended: dict[_Key, float] = {}
        self._lock = threading.Lock()

    def put(self, process: object, samples: Samples) -> None:
        """Take the present samples of a process."""
        with self._lock:
            self._running[process] = samples

    def end(self, process: object) -> None:
        """Keep the counters of a process that has ended, as they were last put: counters must not go back."""
        with self._lock:
            for name, labels, value in self._running.pop(process, ()):
                if name.endswith(_COUNTERS):
                    _add(self._ended, _key(name, labels), value)

    def summed(self, registry: CollectorRegistry) -> CollectorRegistry:
        """A registry with the series of `registry` and those of all other processes added."""
        total = CollectorRegistry()
        total.register(_Sum(lambda: self._families(registry)))
        return total

    def _families(self, registry: CollectorRegistry) -> Iterator[Metric]:
        with self._lock:
            added, running = dict(self._ended), tuple(self._running.values())
        for samples in running:
            for name, labels, value in samples:
                _add(added, _key(name, labels), value)
        by_name: dict[str, list[tuple[int, _Key]]] = {}
        for place, key in enumerate(added):
            by_name.setdefault(key[0], []).append((place, key))
        for family in registry.collect():
            names = _names_of(family)
            further = sorted(entry for name in names for entry in by_name.get(name, ()))
            yield _with_added(family, added, [key for _, key in further])


class _Sum(Collector):
    """Collects the sums."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        return self._families()

    def describe(self) -> list[Metric]:
        """Called by the registry, which would else collect."""
        return []


def _with_added(family: Metric, added: dict[_Key, float], further: list[_Key]) -> Metric:
    """`family` with the values in `added`; `further` are its samples in other processes, in their order."""
    total = Metric(family.name, family.documentation, family.type, family.unit)
    own = {_key(sample.name, sample.labels) for sample in family.samples}
    for sample in family.samples:
        value = sample.value + added.get(_key(sample.name, sample.labels), 0.0)
        total.samples.append(Sample(sample.name, dict(sample.labels), value))
    total.samples += [Sample(key[0], dict(key[1]), added[key]) for key in further if key not in own]
    return total


def _names_of(family: Metric) -> set[str]:
    """The names of the samples of a family, which may have none yet."""
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
    return {family.name + ending for ending in endings.get(family.type, ("",))}


def _add(sums: dict[_Key, float], key: _Key, value: float) -> None:
    sums[key] = sums.get(key, 0.0) + value


def _key(name: str, labels: dict[str, str]) -> _Key:
    return name, tuple(labels.items())
