"""`MetricsSum`: the series of several processes of one service, added up."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample

Samples = list[tuple[str, dict[str, str], float]]  # name, labels and value of each sample
OWN = frozenset(("process_start_time_seconds", "process_max_fds"))  # a sum of these would mean nothing
_COUNTERS = ("_total", "_count", "_sum", "_bucket")
_Key = tuple[str, tuple[tuple[str, str], ...]]


class Counts(NamedTuple):
    """What another process shall add to its own.

    Attributes:
        samples: of all series.
        exemplars: name and labels of a sample; labels, value and time (Unix seconds) of its exemplar.
    """

    samples: Samples
    exemplars: list[tuple[str, dict[str, str], dict[str, str], float, float]]


def counts_of(registry: CollectorRegistry) -> Counts:
    """All samples and exemplars of a process."""
    counts = Counts([], [])
    for family in registry.collect():
        for sample in family.samples:
            if sample.name in OWN:
                continue
            labels, shown = dict(sample.labels), sample.exemplar
            counts.samples.append((sample.name, labels, sample.value))
            if shown is not None:
                counts.exemplars.append(
                    (sample.name, labels, dict(shown.labels), shown.value, float(shown.timestamp or 0.0))
                )
    return counts


class MetricsSum:
    """The samples of other processes: of those that run, and the counters of those that have ended.

    One thread calls all methods but `summed`; any thread may render a page.
    """

    def __init__(self) -> None:
        self._running: dict[object, Counts] = {}
        self._ended: defaultdict[_Key, float] = defaultdict(float)
        self._lock = threading.Lock()

    def put(self, process: object, counts: Counts) -> None:
        """Take the present samples and exemplars of a process."""
        with self._lock:
            self._running[process] = counts

    def end(self, process: object) -> None:
        """Keep the counters of a process that has ended, as they were last put: counters must not go back."""
        with self._lock:
            for name, labels, value in self._running.pop(process, Counts([], [])).samples:
                if name.endswith(_COUNTERS):
                    self._ended[key_of(name, labels)] += value

    def ended(self) -> Samples:
        """The counters of all processes that have ended, for `resume` of a successor of this object."""
        return [(name, dict(labels), value) for (name, labels), value in self._ended.items()]

    def resume(self, ended: Samples) -> None:
        """Take what a predecessor has kept. Several processes may bring it, and later ones may know less."""
        with self._lock:
            for name, labels, value in ended:
                key = key_of(name, labels)
                self._ended[key] = max(value, self._ended[key])

    def summed(self, registry: CollectorRegistry) -> CollectorRegistry:
        """A registry with the series of `registry` and those of all other processes added."""
        total = CollectorRegistry()
        total.register(Sums(lambda: self.families(registry)))
        return total

    def families(self, registry: CollectorRegistry) -> Iterator[Metric]:
        """The series of `registry` with the values of all other processes added, and the newest exemplars."""
        with self._lock:
            added, running = self._ended.copy(), tuple(self._running.values())
        shown: dict[_Key, Exemplar] = {}

        def show(key: _Key, exemplar: Exemplar) -> None:
            if key not in shown or float(shown[key].timestamp or 0.0) < float(exemplar.timestamp or 0.0):
                shown[key] = exemplar

        for counts in running:
            for name, labels, value in counts.samples:
                added[key_of(name, labels)] += value
            for name, labels, shown_labels, shown_value, at_s in counts.exemplars:
                show(key_of(name, labels), Exemplar(shown_labels, shown_value, at_s))
        by_name: dict[str, list[tuple[int, _Key]]] = {}
        for place, key in enumerate(added):
            by_name.setdefault(key[0], []).append((place, key))
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
        for family in registry.collect():
            names = {family.name + ending for ending in endings.get(family.type, ("",))}  # it may have no samples yet
            further = sorted(entry for name in names for entry in by_name.get(name, ()))  # in the order of `added`
            total, keys = Metric(family.name, family.documentation, family.type, family.unit), set[_Key]()
            for sample in family.samples:
                key = key_of(sample.name, sample.labels)
                keys.add(key)
                if sample.exemplar is not None:
                    show(key, sample.exemplar)
                value = sample.value + added.get(key, 0.0)
                total.samples.append(Sample(sample.name, dict(sample.labels), value, None, shown.get(key)))
            total.samples += [
                Sample(key[0], dict(key[1]), added[key], None, shown.get(key)) for _, key in further if key not in keys
            ]
            yield total


class Sums(Collector):
    """Collects the sums."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        return self._families()

    def describe(self) -> list[Metric]:
        """Called by the registry, which would else collect."""
        return []


def key_of(name: str, labels: dict[str, str]) -> _Key:
    """By which a sample is known."""
    return name, tuple(labels.items())
