"""The dashboard and the alerts: they are up to date, parse, and name series that the service really exposes."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.alerts import as_rules
from deploy.dashboard import INSTANCE, RATE, ROWS, as_dashboard
from deploy.generate import contents
from docs.generate import metrics_table
from service.extras.console.alerts import ALERTS
from tests.service.local import serving

ADDED = {"instance", "job", "le"}  # labels of Prometheus itself, and of buckets
PANELS = [panel for panel in as_dashboard()["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
CONDITIONS = [str(alert.condition) for alert in ALERTS]


def tree(expression: Any) -> Iterator[Any]:
    """The parts of a parsed expression."""
    yield expression
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        if getattr(expression, name, None) is not None:
            yield from tree(getattr(expression, name))
    for argument in getattr(expression, "args", None) or ():
        yield from tree(argument)


def parsed(text: str) -> Any:
    return promql_parser.parse(text.replace(INSTANCE, '{instance=~".*"}').replace(RATE, "5m"))


def selectors(text: str) -> dict[str, set[str]]:
    """The labels that an expression asks for, by series."""
    found: dict[str, set[str]] = {}
    for part in tree(parsed(text)):
        if isinstance(part, promql_parser.VectorSelector):
            found.setdefault(str(part.name), set()).update(one.name for one in part.matchers.matchers)
    return found


def grouped(text: str) -> set[str]:
    """The labels by which an expression groups."""
    return {label.strip() for labels in re.findall(r"by \(([^)]*)\)", text) for label in labels.split(",")}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of each series of a real service; none for a series that has no value yet."""
    with serving(tmp_path_factory.mktemp("monitoring") / "data", backend="host") as app:
        app.rate(("u", "x", 5.0), ("u", "y", 3.0))
        app.get("/recommend/u")
        text = app.get("/metrics").text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        names = [family.name, f"{family.name}_total", f"{family.name}_bucket"] if not family.samples else []
        for name in names:
            found[name] = set()
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_files_are_those_of_the_code() -> None:
    for path, text in contents().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run make docs"


def test_every_series_has_a_panel() -> None:
    in_table = set(re.findall(r"`nearfield_(\w+?)(?:_total)?`", metrics_table()))
    assert {name for names in ROWS.values() for name in names} == in_table


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *CONDITIONS])
def test_expressions_name_what_a_service_exposes(expression: str, page: dict[str, set[str]]) -> None:
    asked = selectors(expression)
    assert asked
    for name, labels in asked.items():
        assert name in page, f"no series {name}"
        if page[name]:
            assert labels | grouped(expression) <= page[name] | ADDED


def test_panels_do_not_overlap_and_have_titles() -> None:
    places = [panel["gridPos"] for panel in as_dashboard()["panels"]]
    cells = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(x < 24 for x, _ in cells)
    titles = [panel["title"] for panel in PANELS]
    assert len(titles) == len(set(titles)) and all(titles)
    assert json.loads(json.dumps(as_dashboard())) == as_dashboard()


def test_promtool_accepts_the_rules_and_alerts_at_the_right_time(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of Debian's package prometheus")
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(as_rules()))
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": list(map(scene, SCENES))}))
    done = subprocess.run(
        [promtool, "test", "rules", "test.yml"], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Values of series over 30 minutes, and the alerts that they raise.
SCENES: list[tuple[dict[str, str], set[str]]] = [
    ({"nearfield_ready": "1x30", "nearfield_archiver_lag_seconds": "2x30"}, set()),
    ({"nearfield_ready": "0x30"}, {"NearfieldNotReady"}),
    ({"nearfield_ready": "1x10 _x20"}, {"NearfieldAway"}),
    ({"nearfield_archiver_lag_seconds": "61x30"}, {"NearfieldLogBehind"}),
    ({"nearfield_rating_log_damaged": "1x30"}, {"NearfieldLogDamaged"}),
    (
        {
            'nearfield_requests_total{status="200"}': "0+980x30",
            'nearfield_requests_total{status="503"}': "0+20x30",
            'nearfield_writes_refused_total{reason="stream-unavailable"}': "0+20x30",
        },
        {"NearfieldErrors", "NearfieldWritesRefused"},
    ),
    ({'nearfield_requests_total{status="200"}': "0+999x30", 'nearfield_requests_total{status="503"}': "0+1x30"}, set()),
    (
        {
            'nearfield_freshness_seconds_bucket{le="1.0"}': "0+95x30",
            'nearfield_freshness_seconds_bucket{le="2.0"}': "0+100x30",
            'nearfield_freshness_seconds_bucket{le="+Inf"}': "0+100x30",
        },
        {"NearfieldStale"},
    ),
    ({'nearfield_swaps_total{outcome="failed"}': "0+1x30"}, {"NearfieldSwapFailed"}),
    ({'nearfield_jobs_finished_total{state="failed"}': "0+1x30"}, {"NearfieldTrainingFailed"}),
    # The first failure of a process: its series begins at 1.
    ({'nearfield_swaps_total{outcome="failed"}': "_x20 1x10"}, {"NearfieldSwapFailed"}),
    ({'nearfield_jobs_finished_total{state="failed"}': "_x20 1x10"}, {"NearfieldTrainingFailed"}),
    (
        {
            'nearfield_model_quality{model="a", measure="hit_rate"}': "0.4x30",
            'nearfield_model_quality{model="a", measure="popularity_hit_rate"}': "0.5x30",
            'nearfield_model_quality{model="b", measure="rmse"}': "0.8x30",
            'nearfield_model_quality{model="b", measure="user_mean_rmse"}': "0.9x30",
            'nearfield_model_shadow{model="a"}': "0x30",
            'nearfield_model_shadow{model="b"}': "0x30",
        },
        {"NearfieldBehindBaseline"},
    ),
    (
        {
            'nearfield_model_quality{model="a", measure="hit_rate"}': "0.5x30",
            'nearfield_model_quality{model="a", measure="popularity_hit_rate"}': "0.3x30",
            'nearfield_model_quality{model="b", measure="hit_rate"}': "0.6x30",
            'nearfield_model_quality{model="b", measure="popularity_hit_rate"}': "0.3x30",
            'nearfield_model_shadow{model="a"}': "0x30",
            'nearfield_model_shadow{model="b"}': "1x30",
        },
        {"NearfieldBehindShadow"},
    ),
]


def scene(values_and_alerts: tuple[dict[str, str], set[str]]) -> dict[str, Any]:
    """A test of promtool: after 30 minutes exactly these alerts are there. By default the service is ready."""
    values, alerts = values_and_alerts
    values = {"nearfield_ready": "1x30", **values}
    series = [{"series": with_instance(name), "values": f"{text}"} for name, text in values.items()]
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)]
    return {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": firing, "eval_time": "30m", "exp_samples": samples}],
    }


def with_instance(name: str) -> str:
    """The series with the label that Prometheus adds."""
    return f'{name[:-1]}, instance="i"}}' if name.endswith("}") else f'{name}{{instance="i"}}'
