"""Writes the generated parts of the documentation for `make docs`. A test compares them with the code.

A part is between the lines `<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic_core import PydanticUndefined

from deploy import alerts, chart
from docs import api_reference
from gpu.algorithms import ALGORITHMS
from service.extras.console.training_form import fields_of
from service.settings.data_sets import SHARED
from service.settings.settings import Settings
from service.telemetry.metrics import Metrics

PROCESS = "process_"  # prefix of series that the metrics library adds to every process
DOCS = Path(__file__).parent
OPERATIONS = DOCS / "operations.md"
MONITORING = DOCS / "monitoring.md"
NOTES = DOCS / "decisions" / "README.md"
REFERENCE = DOCS / "reference" / "api.md"
PARAMETERS = DOCS / "reference" / "parameters.md"
GENERATED = (OPERATIONS, MONITORING, PARAMETERS, DOCS / "models.md", DOCS / "kubernetes.md", DOCS.parent / "mkdocs.yml")


def settings_table() -> str:
    """A table of all settings with variable, default and meaning."""
    rows = [
        f"| `{name}` | `NEARFIELD_{name.upper()}` | {_default(field.get_default())} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| Setting | Variable | Default | Meaning |", "| --- | --- | --- | --- |", *rows])


def shared_settings() -> str:
    """The names of all settings that cannot differ between data sets."""
    *most, last = (f"`{name}`" for name in Settings.model_fields if name in SHARED)
    return f"{', '.join(most)} and {last}."


def metrics_table() -> str:
    """A table of all series that the service exposes."""
    families = [family for family in Metrics().registry.collect() if not family.name.startswith(PROCESS)]
    rows = [f"| `{_exposed(one.name, one.type)}` | {one.type} | {one.documentation} |" for one in families]
    return "\n".join(["| Series | Kind | Meaning |", "| --- | --- | --- |", *rows])


def parameters() -> str:
    """A table of hyperparameters for each algorithm."""
    lines: list[str] = []
    for algorithm in ALGORITHMS:
        lines += [f"## `{algorithm}`", "", ALGORITHMS[algorithm].learns, ""]
        lines += ["| Parameter | Default | Values | Meaning |", "| --- | --- | --- | --- |"]
        for field in fields_of(algorithm):
            default = f"`{field.default}`" if field.default else field.otherwise
            values = (
                ", ".join(f"`{one}`" for one in field.choices)
                or f"{_bound(field.low or 0)} to {_bound(field.high or 0)}"
            )
            lines.append(f"| `{field.name}` | {default} | {values} | {field.meaning.replace('|', chr(92) + '|')} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def algorithms() -> str:
    """A table of all algorithms, by ranking quality; then those that `default_models` leaves out."""
    names = dict.fromkeys([*Settings.model_fields["default_models"].get_default(), *ALGORITHMS])
    rows = [
        f"| `{name}` | {one.learns} | {one.score} | {one.near} |" for name in names if (one := ALGORITHMS.get(name))
    ]
    head = ["| Name | What it learns | `score` | Neighbors of items |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows])


def navigation_of_notes() -> str:
    """Chapters and notes of decisions/README.md as entries of `nav`; the site takes titles from the notes."""
    entries = re.findall(r"^(?:## (.+)|\* \d+: \[.+\]\((.+)\))$", NOTES.read_text("utf-8"), re.MULTILINE)
    return "\n".join(f"      - {chapter}:" if chapter else f"          - decisions/{note}" for chapter, note in entries)


PARTS = {
    "settings": settings_table,
    "shared settings": shared_settings,
    "metrics": metrics_table,
    "alerts": alerts.as_table,
    "values of the chart": chart.as_table,
    "navigation of notes": navigation_of_notes,
    "parameters": parameters,
    "algorithms": algorithms,
}


def filled(text: str) -> str:
    """`text` with all generated parts brought up to date."""
    for name, part in PARTS.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?([ #]*<!-- end {name} -->)", re.DOTALL)
        text = pattern.sub(lambda match, part=part: f"{match[1]}{part()}\n{match[2]}", text)  # type: ignore[misc]
    return text


def _default(value: object) -> str:
    if value is None or value is PydanticUndefined or value in ([], ()):
        return "unset"
    return f"`{','.join(value)}`" if isinstance(value, list) else f"`{value}`"


def _bound(number: float | None) -> str:
    if number is None:
        return "any"
    return f"{number:,.0f}" if float(number).is_integer() and number < 1e9 else f"{number:g}"


def _exposed(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


if __name__ == "__main__":
    for page in GENERATED:
        page.write_text(filled(page.read_text("utf-8")), "utf-8")
    REFERENCE.write_text(api_reference.page(), "utf-8")
