"""Traces from end to end: a service with two fronts, and a collector that speaks OTLP."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from service.extras import traces as extra
from service.processes.parts import parts
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings
from service.telemetry import traces
from service.telemetry.metrics import OPEN_TEXT, Metrics, count_dropped_spans
from service.telemetry.trace_context import Sampling, Trace
from tests.service.collector import Collector, Received
from tests.service.planted import N_ITEMS, N_USERS, liking
from tests.service.process import Service
from tests.service.waiting import eventually

pytest.importorskip("opentelemetry.sdk", reason="the extra traces is not installed")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra traces is not installed")

SERVER = 2  # SpanKind of OTLP
SOON_S = 5.0  # on a busy machine; who waits for a collector waits for ten
USER, ITEM, KEY = "user-named-ann", "item-named-book", "a-key-of-a-client"


class Traced(NamedTuple):
    service: Service
    collector: Collector


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """No request is sampled but those whose caller says so."""
    collector = Collector()
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_TRACES_SAMPLER_ARG": "0",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_SERVICE_NAME": "shop",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        data = tmp_path_factory.mktemp("traced") / "data"
        service = Service(data, fronts=2, traces="true", backend="host", retrain_share=0)
    service.rate(*[(f"u{u}", f"i{i}", liking(u, i)) for u in range(N_USERS) for i in range(0, N_ITEMS, 3)][:900])
    yield Traced(service, collector)
    assert service.stop() == 0
    collector.close()


def parent(number: int, *, sampled: bool = True) -> tuple[str, dict[str, str]]:
    """A trace id and the header of a caller that has sampled it, or not."""
    trace_id = f"{number:032x}"
    return trace_id, {"traceparent": f"00-{trace_id}-00000000000000aa-{sampled:02x}", "x-api-key": KEY}


def spans_of(traced: Traced, trace_id: str, *names: str) -> dict[str, Received]:
    """The spans of a trace, as soon as those with these names are there."""
    eventually(lambda: set(names) <= traced.collector.of(trace_id).keys(), 60)
    return traced.collector.of(trace_id)


def test_a_read_is_a_span_with_its_ranking_in_the_trace_of_its_caller(traced: Traced) -> None:
    trace_id, headers = parent(1)
    path = "GET /recommend/{user}"
    assert traced.service.client.get(f"/recommend/{USER}?n=3", headers=headers).status_code == 200
    spans = spans_of(traced, trace_id, path, "rank")
    assert (spans[path].parent_id, spans[path].kind, spans[path].is_error) == ("00000000000000aa", SERVER, False)
    attributes = {"http.request.method": "GET", "http.route": "/recommend/{user}", "http.response.status_code": 200}
    assert spans[path].attributes == attributes
    assert spans["rank"].parent_id == spans[path].span_id
    assert spans["rank"].attributes["nearfield.batch.queries"] >= 1
    assert spans["rank"].ended_ns >= spans["rank"].began_ns >= spans[path].began_ns
    assert spans["rank"].resource["service.name"] == "shop"


def test_a_write_is_appended_and_learned_in_its_trace(traced: Traced) -> None:
    trace_id, headers = parent(2)
    body = {"user": USER, "item": ITEM, "rating": 5}
    answer = traced.service.client.post("/ratings", json=body, headers=headers)
    assert answer.status_code == 202
    spans = spans_of(traced, trace_id, "POST /ratings", "append", "learn")
    root = spans["POST /ratings"].span_id
    assert [spans[name].parent_id for name in ("append", "learn")] == [root, root]
    assert spans["learn"].attributes == {"nearfield.batch.ratings": 1}
    assert spans["learn"].ended_ns > spans["append"].began_ns


def test_a_training_and_its_swap_are_part_of_the_request_that_asked_for_them(traced: Traced) -> None:
    trace_id, headers = parent(3)
    body = {"algorithm": "als", "params": {"n_factors": 4, "n_epochs": 2}, "force": True}
    answer = traced.service.client.post("/admin/retrain", json=body, headers=headers)
    assert answer.status_code == 202
    job = traced.service.api.ended_job(answer.json()["id"])
    assert job["state"] == "succeeded"
    phases = {"wait", "start", "read", "fit", "measure", "write", "activate"}
    spans = spans_of(traced, trace_id, "POST /admin/retrain", "training", "swap", *phases)
    training = spans["training"]
    assert training.parent_id == spans["POST /admin/retrain"].span_id
    assert {spans[name].parent_id for name in (*phases, "swap")} == {training.span_id}
    assert training.attributes["nearfield.model.algorithm"] == "als"
    assert json.loads(training.attributes["nearfield.training.parameters"])["n_factors"] == 4
    assert training.attributes["nearfield.job.outcome"] == "succeeded"
    assert spans["swap"].attributes["nearfield.model.version"] == job["version"]


def test_what_is_not_sampled_is_not_sent(traced: Traced) -> None:
    _, unsampled = parent(4, sampled=False)
    for headers in ({}, unsampled, {"traceparent": "no such thing"}):
        assert traced.service.client.get(f"/recommend/{USER}", headers=headers).status_code == 200
        body = {"user": USER, "item": ITEM, "rating": 4}
        assert traced.service.client.post("/ratings", json=body, headers=headers).status_code == 202
    ours = {parent(number)[0] for number in range(1, 9)} - {parent(4)[0]}
    for number in (7, 8, 7, 8):  # through more than one front, after all others
        trace_id, headers = parent(number)
        assert traced.service.client.get("/items", headers=headers).status_code == 200
        spans_of(traced, trace_id, "GET /items")
    assert {span.trace_id for span in traced.collector.spans} <= ours


def test_no_span_names_a_user_an_item_or_a_key(traced: Traced) -> None:
    trace_id, headers = parent(5)
    client = traced.service.client
    for path in (f"/recommend/{USER}?exclude={ITEM}", f"/users/{USER}/ratings", f"/items/{ITEM}", f"/no/{USER}"):
        client.get(path, headers=headers)
    client.post(f"/recommend/{USER}", json={"n": 2, "exclude": [ITEM]}, headers=headers)
    client.request(f"INVENT-{USER}", "/items", headers=headers)
    client.delete(f"/admin/users/{USER}", headers=headers)
    spans_of(traced, trace_id, "DELETE /admin/users/{user}", "forgetting")
    text = repr(traced.collector.spans)
    for secret in (USER, ITEM, KEY, "exclude"):
        assert secret not in text
    assert "/recommend/{user}" in text


def page_with(traced: Traced, trace_id: str) -> str | None:
    """Metrics for who asks for exemplars, if those of both histograms are there; a page is kept for a second."""
    page = traced.service.client.get("/metrics", headers={"accept": "application/openmetrics-text"}).text
    return page if page.count(trace_id) == 2 else None


def test_exemplars_lead_from_metrics_to_traces(traced: Traced) -> None:
    trace_id, headers = parent(6)
    body = {"user": USER, "item": ITEM, "rating": 3}
    traced.service.client.post("/ratings", json=body, headers=headers)
    spans_of(traced, trace_id, "POST /ratings", "learn")
    shown: dict[str, list[tuple[float, float]]] = {}
    for family in text_string_to_metric_families(eventually(lambda: page_with(traced, trace_id), 60)):
        for sample in family.samples:
            if sample.exemplar is not None and sample.exemplar.labels["trace_id"] == trace_id:
                le = float(sample.labels["le"].replace("+Inf", "inf"))
                shown.setdefault(family.name, []).append((sample.exemplar.value, le))
    assert shown.keys() == {"nearfield_freshness_seconds", "nearfield_request_seconds"}
    for exemplars in shown.values():
        assert all(0 <= value <= bound for value, bound in exemplars)
    assert "trace_id" not in traced.service.client.get("/metrics").text


def test_without_traces_nothing_that_sends_them_is_imported() -> None:
    """Other libraries, such as the client of Redis, import interfaces of OpenTelemetry where they find them."""
    program = (
        "import sys, service.processes.parts, service.processes.process, service.telemetry.traces\n"
        "from service.settings.settings import Settings\n"
        "variables, export = Settings().trace_variables(), service.processes.parts.parts().span_export\n"
        "with service.telemetry.traces.running(variables, 'api', export): pass\n"
        "ours = 'service.extras.traces.trace_export', 'opentelemetry.exporter', 'opentelemetry.sdk.trace'\n"
        "print([name for name in sys.modules if name.startswith(ours)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("fault", ["hangs", "refuses"])
def test_a_collector_that_is_away_costs_spans_and_nothing_else(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    collector.may_answer.clear()
    if fault == "refuses":
        collector.close()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    metrics = Metrics()
    began = time.monotonic()
    with traces.running(Settings(traces=True).trace_variables(), "api", parts().span_export):
        count_dropped_spans(metrics)
        tracer = traces.active()
        assert tracer is not None
        for _ in range(100):
            tracer.record("rank", Trace(1, 2), 0.001, {})
        took_s = time.monotonic() - began
        dropped = metrics.registry.get_sample_value("nearfield_spans_dropped_total", {"reason": "queue-full"})
        assert dropped is not None and dropped >= 84
        assert took_s < SOON_S
    assert time.monotonic() - began < took_s + traces.STOP_S + SOON_S
    assert b"nearfield_spans_dropped_total" in metrics.text(OPEN_TEXT)
    if fault == "hangs":
        collector.close()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9000"),
    ],
)
def test_variables_that_cannot_be_used_are_refused_before_the_start(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidSetting, match=variable):
        extra.check(Settings(traces=True))
    extra.check(Settings())
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    extra.check(Settings(traces=True))


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "PACKAGES", ("opentelemetry.no_such", "no_such.package"))
    with pytest.raises(InvalidSetting, match=r"pip install '\.\[traces\]' in a checkout"):
        extra.check(Settings(traces=True))


def test_links_name_the_other_requests_of_a_batch(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with traces.running(Settings(traces=True).trace_variables(), "engine", parts().span_export):
        tracer = traces.active()
        assert tracer is not None
        tracer.record("rank", Trace(1, 2).child(), 0.001, {}, links=[Trace(7, 3), Trace(9, 4)], error="Overloaded")
    (span,) = collector.spans  # sent at the end
    assert span.links == [f"{7:032x}", f"{9:032x}"]
    assert (span.is_error, span.attributes["error.type"]) == (True, "Overloaded")
    assert span.resource["nearfield.process"] == "engine"


def test_shares_are_drawn_and_callers_followed() -> None:
    sampling = Sampling.of({"OTEL_TRACES_SAMPLER_ARG": "0.25"})
    drawn = [trace for _ in range(8000) if (trace := sampling.begin(None)) is not None]
    assert 1700 < len(drawn) < 2300
    assert all(trace.trace_id & (2**64 - 1) < 2**62 for trace in drawn)  # as samplers of a ratio decide
    assert len({trace.trace_id for trace in drawn}) == len(drawn)
