"""The dashboard for Grafana: a panel for each series of `service.telemetry.metrics`, made from the table of metrics.

A counter is shown as its rate, a histogram as median and 99th percentile, a gauge as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from prometheus_client.core import Metric

from service.telemetry.metrics import Metrics

PROCESS = "process_"  # prefix of series that the metrics library adds to every process
WHOLE, WIDTH, HEIGHT = 24, 8, 7  # columns of Grafana's grid, and the size of a panel
INSTANCE = '{instance=~"$instance"}'
RATE = "$__rate_interval"

# The rows of the dashboard, by series without `nearfield_`. A new series belongs here, else a test fails.
ROWS = {
    "Answers": ("ready", "requests", "request_seconds", "connections", "batch_size", "queue_seconds", "queue_length"),
    "Learning": (
        "freshness_seconds",
        "ratings_accepted",
        "ratings_learned",
        "learn_seconds",
        "refits_waiting",
        "events_accepted",
        "items_accepted",
        "ratings_rejected",
        "events_rejected",
        "attributed",
        "items_rejected",
        "writes_refused",
        "skipped_batches",
        "skipped_elements",
    ),
    "Models": (
        "model_quality",
        "model_age_seconds",
        "model_info",
        "model_shadow",
        "swaps",
        "swap_seconds",
        "jobs_finished",
        "training_ranks",
        "training_restarts",
        "training_bytes_moved",
        "training_wait_seconds",
        "webhook_attempts",
    ),
    "Data": ("users", "items", "ratings", "users_forgotten", "items_hidden", "items_available", "quota_used_ratio"),
    "Storage": ("archiver_lag_seconds", "archiver_pending_ratings", "rating_log_damaged", "store_age_seconds"),
    "Machine": ("device_bytes", "spans_dropped"),
}
# Labels by which a series is split; the others are added up.
SPLIT_BY = {
    "requests": "status",
    "request_seconds": "route",
    "queue_seconds": "queue",
    "queue_length": "queue",
    "writes_refused": "reason",
    "skipped_batches": "source",
    "skipped_elements": "source",
    "attributed": "experiment, arm, type",
    "model_quality": "model, measure",
    "model_age_seconds": "algorithm",
    "model_info": "version",
    "model_shadow": "model",
    "refits_waiting": "algorithm",
    "swaps": "outcome",
    "jobs_finished": "state",
    "training_bytes_moved": "kind",
    "training_wait_seconds": "kind",
    "webhook_attempts": "outcome",
    "quota_used_ratio": "quota",
    "device_bytes": "of",
    "spans_dropped": "reason",
}
OF_PROCESS = {
    "Processor cores": (f"rate(process_cpu_seconds_total{INSTANCE}[{RATE}])", "short"),
    "Memory": (f"process_resident_memory_bytes{INSTANCE}", "bytes"),
}


UNITS = {"_seconds": "s", "_bytes": "bytes"}  # Grafana's names of the units with which names of series end


class Curve(NamedTuple):
    """One expression of a panel, and how its series are called."""

    expression: str
    legend: str


def as_dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    collected = Metrics().registry.collect()
    families = {one.name.removeprefix("nearfield_"): one for one in collected if not one.name.startswith(PROCESS)}
    panels: list[dict[str, Any]] = []
    top = 0
    for title, names in ROWS.items():
        row = {"type": "row", "title": title, "collapsed": False, "panels": []}
        panels.append(row | {"gridPos": _place(0, top, WHOLE, 1)})
        own = []
        for name in names:
            unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "short")
            without_unit = name.removesuffix("_seconds").removesuffix("_bytes")
            text, curves = families[name].documentation, _curves(families[name])
            own.append(_panel(without_unit.replace("_", " ").capitalize(), text, curves, unit))
        if title == "Machine":
            own += [_panel(name, "", [Curve(text, "{{instance}}")], unit) for name, (text, unit) in OF_PROCESS.items()]
        for number, panel in enumerate(own):
            down, across = divmod(number, WHOLE // WIDTH)
            panels.append(panel | {"gridPos": _place(across * WIDTH, top + 1 + down * HEIGHT, WIDTH, HEIGHT)})
        top += 1 + -(-len(own) // (WHOLE // WIDTH)) * HEIGHT
    return {
        "uid": "nearfield",
        "title": "Nearfield",
        "tags": ["nearfield"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [_DATA_SOURCE, _INSTANCES]},
        "panels": [panel | {"id": number} for number, panel in enumerate(panels, 1)],
    }


def _curves(family: Metric) -> list[Curve]:
    """The expressions of a series."""
    split = SPLIT_BY.get(family.name.removeprefix("nearfield_"), "")
    labels = split.split(", ") if split else []
    legend = " ".join(f"{{{{{label}}}}}" for label in ["instance", *labels])
    by = ", ".join(["instance", *labels])
    if family.type == "counter":
        return [Curve(f"sum by ({by}) (rate({family.name}_total{INSTANCE}[{RATE}]))", legend)]
    if family.type == "histogram":
        rates = f"sum by ({by}, le) (rate({family.name}_bucket{INSTANCE}[{RATE}]))"
        return [Curve(f"histogram_quantile({q}, {rates})", f"p{100 * q:.0f} {legend}") for q in (0.5, 0.99)]
    return [Curve(f"max by ({by}) ({family.name}{INSTANCE})", legend)]


def _panel(title: str, text: str, curves: list[Curve], unit: str) -> dict[str, Any]:
    targets = [
        {"refId": chr(65 + number), "expr": curve.expression, "legendFormat": curve.legend}
        for number, curve in enumerate(curves)
    ]
    return {
        "type": "timeseries",
        "title": title,
        "description": text,
        "datasource": _SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
    }


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_DATA_SOURCE = {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"}
_INSTANCES = {
    "type": "query",
    "name": "instance",
    "label": "Instance",
    "datasource": _SOURCE,
    "query": {"query": "label_values(nearfield_ready, instance)", "refId": "instance"},
    "refresh": 2,
    "multi": True,
    "includeAll": True,
    "current": {"text": "All", "value": "$__all"},
}
