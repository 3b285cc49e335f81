"""Names and units of metrics."""

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from service.telemetry.metrics import OPEN_TEXT, PLAIN_TEXT, Metrics, kind_for


def used() -> Metrics:
    """Metrics with a value of each kind and label."""
    metrics = Metrics()
    metrics.requests.count("GET", "/popular", 200, 0.001)
    metrics.queue_seconds.observe(("queries",), 0.001)
    metrics.batch_size.observe((), 3)
    metrics.swaps.labels("sgd", "swapped").inc()
    metrics.swap_seconds.labels("sgd").observe(1)
    metrics.jobs_finished.labels("failed").inc()
    metrics.training_bytes_moved.labels("gather").inc(100)
    metrics.model_info.labels("sgd", "sgd-1").set(1)
    metrics.model_age_seconds.labels("sgd").set(5)
    metrics.device_bytes.labels("arrays").set(5)
    return metrics


@pytest.mark.parametrize(
    ("kind", "parse"),
    [(PLAIN_TEXT, text_string_to_metric_families), (OPEN_TEXT, openmetrics.text_string_to_metric_families)],
)
def test_a_parser_reads_every_series(kind, parse):
    families = list(parse(used().text(kind).decode()))
    names = {family.name for family in families}
    assert all(name.startswith(("nearfield_", "process_")) for name in names)
    assert {"nearfield_requests", "nearfield_swap_seconds", "nearfield_model_info", "process_open_fds"} <= names
    samples = [sample for family in families for sample in family.samples]
    assert len(samples) > len(families)
    assert not [sample.name for sample in samples if sample.name.endswith("_created")]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, PLAIN_TEXT),
        ("*/*", PLAIN_TEXT),
        ("text/plain;version=0.0.4", PLAIN_TEXT),
        ("application/openmetrics-text", OPEN_TEXT),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPEN_TEXT),
        ("application/openmetrics-text;version=new", OPEN_TEXT),
    ],
)
def test_the_format_that_is_asked_for(accept, kind):
    assert kind_for(accept) == kind


def test_unknown_methods_make_no_series():
    metrics = Metrics()
    metrics.requests.count("GET", "/popular", 200, 0.001)
    n_lines = len(metrics.text().splitlines())
    for method in ("BREW", "PROPFIND", "M-SEARCH", *(f"X{number}" for number in range(100))):
        metrics.requests.count(method, "/popular", 200, 0.001)
    assert len(metrics.text().splitlines()) < 2 * n_lines
    labels = {"method": "other", "route": "/popular", "status": "200"}
    assert metrics.registry.get_sample_value("nearfield_requests_total", labels) == 103


def test_registries_do_not_mix():
    first, second = Metrics(), Metrics()
    first.ratings_accepted.inc(3)
    assert first.registry.get_sample_value("nearfield_ratings_accepted_total") == 3
    assert second.registry.get_sample_value("nearfield_ratings_accepted_total") == 0
