"""Names and units of what is counted."""

from prometheus_client.parser import text_string_to_metric_families

from service.metrics import Metrics


def test_every_name_starts_with_the_project():
    families = list(text_string_to_metric_families(Metrics().text().decode()))
    assert families
    assert all(family.name.startswith("nearfield_") for family in families)


def test_registries_do_not_mix():
    first, second = Metrics(), Metrics()
    first.ratings_accepted.inc(3)
    assert first.registry.get_sample_value("nearfield_ratings_accepted_total") == 3
    assert second.registry.get_sample_value("nearfield_ratings_accepted_total") == 0
