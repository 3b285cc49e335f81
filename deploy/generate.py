"""Writes the files of this folder that come from code: dashboard, alerts, and values of the chart. `make docs` runs it.

A test compares the files with the code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from deploy import chart
from deploy.alerts import as_rules
from deploy.dashboard import as_dashboard

CHART = Path(__file__).parent / "helm" / "nearfield"
WIDTH = 160  # characters of a line of JSON
NOTE = "# Made from service/extras/console/alerts.py by `make docs`.\n"


def contents() -> dict[Path, str]:
    """Each file with its text."""
    rules = yaml.safe_dump(as_rules(), sort_keys=False, width=120, allow_unicode=True)
    return {
        CHART / "files" / "nearfield.rules.yml": NOTE + rules,  # a chart can read its own folder alone
        CHART / "files" / "nearfield.json": in_few_lines(as_dashboard()) + "\n",
        CHART / "values.yaml": chart.values_file(),
        CHART / "values.schema.json": in_few_lines(chart.schema()) + "\n",
    }


def in_few_lines(value: Any, indent: int = 0) -> str:
    """JSON in which what fits a line stands on one, and the members of anything longer on a line each."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + len(line) <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = " " * (indent + 1)
    if isinstance(value, list):
        members = [in_few_lines(one, indent + 1) for one in value]
    else:
        members = [f"{json.dumps(key)}: {in_few_lines(one, indent + 1)}" for key, one in value.items()]
    text = f",\n{inner}".join(members)
    first, last = "[]" if isinstance(value, list) else "{}"
    return f"{first}\n{inner}{text}\n{inner[1:]}{last}"


if __name__ == "__main__":
    for path, text in contents().items():
        path.write_text(text, "utf-8")
