"""Names and units of what is counted."""

from prometheus_client.parser import text_string_to_metric_families

from service.metrics import Metrics


def test_every_name_starts_with_the_project():
    families = list(text_string_to_metric_families(Metrics().text().decode()))
    assert families
    assert all(family.name.startswith("nearfield_") for family in families)


def test_a_method_that_somebody_thinks_of_makes_no_series():
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
