"""Metrics of several processes, added up: what parsers read, and counters that never go back."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from service.telemetry.metrics import OPEN_TEXT, PLAIN_TEXT, Metrics
from service.telemetry.metrics_sum import MetricsSum, counts_of

Parse = Callable[[str], Iterable[Any]]
BOTH = pytest.mark.parametrize(
    ("kind", "parse"),
    [(PLAIN_TEXT, text_string_to_metric_families), (OPEN_TEXT, openmetrics.text_string_to_metric_families)],
)


def key(name: str, *labels: str) -> tuple[str, frozenset[str]]:
    """A series, whatever the order of its labels."""
    return name, frozenset(labels)


REQUESTS = key("nearfield_requests_total", "GET", "/popular", "200")


def front(n_requests: int, route: str = "/popular") -> Metrics:
    """The metrics of a front that has answered."""
    metrics = Metrics()
    for _ in range(n_requests):
        metrics.requests.count("GET", route, 200, 0.001)
    metrics.writes_refused.labels("not-ready").inc(n_requests)
    metrics.connections.set(n_requests)
    return metrics


def put(counts: MetricsSum, name: str, metrics: Metrics) -> None:
    counts.put(name, counts_of(metrics.registry))


def series(own: Metrics, counts: MetricsSum, kind: str = PLAIN_TEXT, parse: Parse = text_string_to_metric_families):
    """Value by name and labels; no series may come twice."""
    found: dict[tuple[str, frozenset[str]], float] = {}
    for family in parse(own.text(kind, counts).decode()):
        for sample in family.samples:
            name = key(sample.name, *sample.labels.values())
            assert name not in found
            found[name] = sample.value
    return found


@BOTH
def test_series_of_all_processes_are_added(kind: str, parse: Parse) -> None:
    own, counts = front(1), MetricsSum()
    own.swaps.labels("sgd", "swapped").inc()
    put(counts, "front-1", front(2))
    put(counts, "front-2", front(3))
    found = series(own, counts, kind, parse)
    assert found[REQUESTS] == 6
    assert found[key("nearfield_request_seconds_count", "GET", "/popular", "200")] == 6
    assert found[key("nearfield_request_seconds_sum", "GET", "/popular", "200")] == pytest.approx(0.006)
    assert found[key("nearfield_request_seconds_bucket", "GET", "/popular", "200", "+Inf")] == 6
    assert found[key("nearfield_writes_refused_total", "not-ready")] == 6
    assert found[key("nearfield_connections")] == 6
    assert found[key("nearfield_swaps_total", "sgd", "swapped")] == 1


@BOTH
def test_series_that_the_engine_lacks_are_there(kind: str, parse: Parse) -> None:
    """Of several fronts, each with other routes, and of some that have ended."""
    own, counts = Metrics(), MetricsSum()
    for number in range(3):
        metrics = front(1, f"/route-{number}")
        metrics.requests.count("GET", "/popular", 200, 3.0)
        put(counts, f"front-{number}", metrics)
    counts.end("front-0")
    found = series(own, counts, kind, parse)
    for number in range(3):
        assert found[key("nearfield_request_seconds_bucket", "GET", f"/route-{number}", "200", "0.001")] == 1
    assert found[key("nearfield_request_seconds_bucket", "GET", "/popular", "200", "2.0")] == 0
    assert found[key("nearfield_request_seconds_bucket", "GET", "/popular", "200", "5.0")] == 3


def test_counters_of_a_front_that_died_stay_and_gauges_go() -> None:
    own, counts = Metrics(), MetricsSum()
    put(counts, "a", front(5))
    put(counts, "b", front(7))
    before = series(own, counts)
    counts.end("a")
    after = series(own, counts)
    monotonic = [one for one in before if one[0].endswith(("_total", "_count", "_sum", "_bucket"))]
    assert {REQUESTS, key("process_cpu_seconds_total")} <= set(monotonic)
    assert all(after[one] >= before[one] for one in monotonic)
    assert (before[key("nearfield_connections")], after[key("nearfield_connections")]) == (12, 7)
    put(counts, "its successor", front(1))
    assert series(own, counts)[REQUESTS] == 13


def test_a_successor_keeps_the_counters_of_those_that_ended_whoever_brings_them() -> None:
    counts, successor = MetricsSum(), MetricsSum()
    put(counts, "a", front(5))
    counts.end("a")
    early = counts.ended()
    put(counts, "b", front(7))
    counts.end("b")
    for ended in (early, counts.ended(), early):
        successor.resume(ended)
    assert series(Metrics(), successor)[REQUESTS] == 12
    assert not [name for name, *_ in successor.ended() if name == "nearfield_connections"]


def test_a_front_that_was_never_counted_may_end() -> None:
    counts = MetricsSum()
    counts.end("unknown")
    assert REQUESTS not in series(Metrics(), counts)


def test_pages_that_are_rendered_while_fronts_die_never_go_back() -> None:
    own, counts, is_over = Metrics(), MetricsSum(), threading.Event()
    put(counts, "first", front(10))
    found: list[float] = []

    def render() -> None:
        while not is_over.is_set():
            found.append(series(own, counts)[REQUESTS])

    rendering = threading.Thread(target=render)
    rendering.start()
    counted = counts_of(front(1).registry)
    for number in range(300):
        counts.put(number, counted)
        counts.end(number)
    is_over.set()
    rendering.join()
    assert found == sorted(found)
    assert series(own, counts)[REQUESTS] == 310


def test_what_has_no_sum_is_that_of_the_engine() -> None:
    own, counts = Metrics(), MetricsSum()
    alone = series(own, MetricsSum())
    put(counts, "front-1", front(1))
    together = series(own, counts)
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert (
            together[
                key(
                    name,
                )
            ]
            == alone[
                key(
                    name,
                )
            ]
        )
    assert together[key("process_open_fds")] > alone[key("process_open_fds")]
