"""Rules for Prometheus, and a table of the documentation, of the alerts in `service.extras.console.alerts`."""

from __future__ import annotations

from service.extras.console.alerts import ALERTS


def as_rules() -> dict[str, object]:
    """The alerts as a file of rules for Prometheus."""
    rules = [
        {
            "alert": alert.name,
            "expr": str(alert.condition),
            "for": f"{alert.lasts}m",
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.meaning, "description": alert.remedy},
        }
        for alert in ALERTS
    ]
    return {"groups": [{"name": "nearfield", "rules": rules}]}


def as_table() -> str:
    """The alerts as a table of the documentation."""
    rows = [f"| `{one.name}` | {one.lasts}m | {one.severity} | {one.meaning} {one.remedy} |" for one in ALERTS]
    return "\n".join(["| Alert | After | Severity | Meaning, and what to do |", "| --- | --- | --- | --- |", *rows])
