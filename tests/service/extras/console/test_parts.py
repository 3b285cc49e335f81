"""What pages of the console are made of: counts of curves, bars of histograms, fields of forms."""

import dataclasses
import re

import pytest
from fastapi.exceptions import RequestValidationError

from gpu.algorithms import ALGORITHMS, params_for
from gpu.base.errors import InvalidParams
from service.base.errors import InvalidRequest
from service.engine.models.model_info import ModelInfo
from service.engine.quotas import Quota
from service.extras.console import overview, pages, static_files
from service.extras.console.counts import counts_of
from service.extras.console.items import histogram
from service.extras.console.models import verb_of
from service.extras.console.training_form import THEN, fields_of, training_of
from service.settings.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.request_metrics import REQUEST_SECONDS


def test_counts_are_of_reads_alone():
    metrics = Metrics()
    for method, route, seconds, times in [
        ("GET", "/recommend/{user}", 0.0007, 3),
        ("POST", "/recommend", 0.003, 2),
        ("GET", "/items/{item}", 9.0, 1),
        ("POST", "/ratings", 0.003, 50),
        ("GET", "/console/counts", 0.003, 50),
        ("GET", "/metrics", 0.003, 50),
        ("GET", "refused", 0.003, 50),
    ]:
        for _ in range(times):
            metrics.requests.count(method, route, 200, seconds)
    metrics.ratings_learned.inc(7)
    metrics.freshness_seconds.observe((), 0.004)
    metrics.device_bytes.labels("taken").set(5e6)
    counts = counts_of(metrics.text().decode())
    assert [bound for bound, _ in counts.reads] == [*REQUEST_SECONDS, None]
    sums = dict(counts.reads)
    assert (sums[0.0005], sums[0.001], sums[0.005], sums[5], sums[None]) == (0, 3, 5, 5, 6)
    assert (counts.freshness[-1], counts.learned, counts.device_bytes) == ((None, 1), 7, {"taken": 5e6})
    assert counts.host_bytes > 1e6


def test_counts_of_a_service_without_traffic():
    counts = counts_of(Metrics().text().decode())
    assert (counts.reads, counts.learned, counts.device_bytes) == ([], 0, {})


def test_few_values_have_a_bar_each_and_many_share_ten():
    assert [tuple(bar) for bar in histogram([4.5, 1, 4.5])] == [("1", 1), ("4.5", 2)]
    bars = histogram([float(value) for value in range(101)])
    assert len(bars) == 10
    assert sum(bar.n for bar in bars) == 101
    assert (bars[0], bars[-1]) == (("0 to 10", 10), ("90 to 100", 11))
    assert histogram([]) == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_form_has_every_parameter_with_its_default_and_limits(algorithm):
    fields = fields_of(algorithm)
    assert all(field.meaning for field in fields)
    assert not any(field.meaning.startswith(("H;", "Cg", "F_s")) for field in fields), "symbols and values stay"
    assert [field.name for field in fields] == [
        field.name for field in dataclasses.fields(ALGORITHMS[algorithm].params)
    ]
    for field in fields:
        assert bool(field.choices) != (field.low is not None), field
    given = {field.name: field.default for field in fields if field.default}
    assert params_for(algorithm, given) == params_for(algorithm, {})
    form = {"algorithm": algorithm, "then": "snapshot"} | {f"param.{name}": text for name, text in given.items()}
    training = training_of(form)
    assert params_for(training.algorithm, training.params) == params_for(algorithm, {})
    assert not any((training.activate, training.shadow, training.tune, training.force))


def test_a_form_says_what_an_empty_field_means():
    otherwise = {field.name: field.otherwise for field in fields_of("als-implicit") if not field.default}
    assert otherwise == {
        "n_factors": "from the data",
        "regularization": "from the data",
        "alpha": "from the data",
        "event_weight": "from the data",
        "half_life_days": "none",
    }


def test_numbers_of_a_form_are_numbers_and_empty_fields_are_defaults():
    form = {"algorithm": "als", "name": " ", "then": "live", "param.n_factors": " 16 ", "param.solver": "cg"}
    training = training_of(form | {"param.n_epochs": "", "param.biases": "false", "param.seed": "7"})
    assert training.params == {"n_factors": 16, "solver": "cg", "biases": False, "seed": 7}
    assert (training.activate, training.force, training.name) == (True, False, "als")
    with pytest.raises(InvalidParams, match="Invalid seed: expected a number, got 'many'"):
        training_of(form | {"param.seed": "many"})


@pytest.mark.parametrize("form", [{}, {"algorithm": "magic"}, {"algorithm": "als", "name": "x" * 41}])
def test_a_form_that_the_route_would_refuse_is_refused(form):
    with pytest.raises(RequestValidationError):
        training_of({"then": "live", **form})


def test_one_choice_says_what_becomes_of_the_model():
    trainings = {then: training_of({"algorithm": "als", "then": then}) for then in THEN}
    assert {then: (one.activate, one.force, one.shadow) for then, one in trainings.items()} == {
        "live": (True, False, False),
        "forced": (True, True, False),
        "shadow": (False, False, True),
        "snapshot": (False, False, False),
    }
    for other in ({}, {"then": "both"}):
        with pytest.raises(InvalidRequest, match="Invalid then: expected one of live, forced"):
            training_of({"algorithm": "als", **other})


def test_older_versions_are_rolled_back_to():
    old, new = (ModelInfo(f"als-2026010{day}T000000-aaaa", "als", False) for day in (1, 3))
    live = "als-20260102T000000-ffff"
    assert (verb_of(old, live), verb_of(new, live), verb_of(old, None), verb_of(old, old.version)) == (
        "Roll back", "Activate", "Activate", None
    )  # fmt: skip


def luminance(color: str) -> float:
    """Of WCAG 2."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_has_enough_contrast_in_light_and_in_dark(scheme):
    colors = re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", (static_files._FOLDER / "console.css").read_text())
    of = {name: luminance(pair[scheme]) for name, *pair in colors}
    for text in of.keys() - {"back", "panel", "line"}:
        for behind in ("back", "panel"):
            low, high = sorted((of[text], of[behind]))
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"{text} on {behind}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 seconds"), (119, "119 seconds"), (120, "2 minutes"), (7300, "2.03 hours"), (200_000, "2.31 days")],
)
def test_spans_of_time_have_the_unit_that_people_choose(seconds, text):
    assert pages.lasting(seconds) == text


def test_quotas_that_nobody_has_set_have_no_bars():
    quotas = [Quota(name, 7.0, quota) for name, quota in Settings().quotas.items()]
    assert overview.chosen(quotas) == []
    quotas[0].quota -= 1
    assert overview.chosen(quotas) == quotas[:1]
