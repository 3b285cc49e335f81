"""Writes the files of this folder that come from code: dashboard, alerts, and values of the chart. `make docs` runs it.

A test compares the files with the code.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from deploy import chart
from deploy.alerts import as_rules
from deploy.dashboard import as_dashboard

FOLDER = Path(__file__).parent
CHART = FOLDER / "helm" / "nearfield"
NOTE = "# Made from deploy/alerts.py by `make docs`.\n"


def contents() -> dict[Path, str]:
    """Each file with its text."""
    rules = yaml.safe_dump(as_rules(), sort_keys=False, width=120, allow_unicode=True)
    dashboard = json.dumps(as_dashboard(), indent=1) + "\n"
    return {
        FOLDER / "prometheus" / "nearfield.rules.yml": NOTE + rules,
        FOLDER / "grafana" / "nearfield.json": dashboard,
        CHART / "files" / "nearfield.rules.yml": NOTE + rules,  # a chart can read its own folder alone
        CHART / "files" / "nearfield.json": dashboard,
        CHART / "values.yaml": chart.values_file(),
        CHART / "values.schema.json": json.dumps(chart.schema(), indent=2, ensure_ascii=False) + "\n",
    }


if __name__ == "__main__":
    for path, text in contents().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
