"""Writes docs/reference/api.md from the OpenAPI document: every route, its parameters, and every body and answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from clients.generate import document

HEAD = """# API reference

`python -m docs.generate` writes this page from the OpenAPI document, which a service has at `/openapi.json`.
At `/docs` of a service each route has examples to send. [The guide](../api.md) explains what all routes share.
"""
NAMES = {
    "ratings": "Ratings and events",
    "items": "Items",
    "recommendations": "Lists",
    "users": "Users and their attributes",
    "lookups": "Neighbors, estimates, users",
    "admin": "Administration",
    "operation": "Health",
}
OK = range(200, 300)
Schema = dict[str, Any]


def page() -> str:
    """The whole page."""
    described = document()
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    usual = _usual_problems([operation for _, operation in operations])
    parts = [HEAD, *_table(operations)]
    parts += [
        "",
        "Nearly every route may answer with these [problems](#problemdocument). Below, a route names only others.",
        "",
    ]
    parts += ["| Status | When |", "| --- | --- |", *(f"| {status} | {text} |" for status, text in usual.items())]
    for tag, name in NAMES.items():
        parts += ["", f"## {name}"]
        parts += [line for route, one in operations if one["tags"] == [tag] for line in _route(route, one, usual)]
    parts += ["", "## Bodies and answers"]
    for name, schema in sorted(described["components"]["schemas"].items()):
        parts += _schema(name, schema)
    return "\n".join(parts) + "\n"


def _usual_problems(operations: list[Schema]) -> dict[str, str]:
    """Status -> when, of the problems that nine in ten operations have."""
    n_with = Counter(problem for operation in operations for problem in _problems(operation))
    return dict(sorted(problem for problem, n in n_with.items() if n >= 0.9 * len(operations)))


def _problems(operation: Schema) -> set[tuple[str, str]]:
    """(status, when) of each."""
    return {(status, one["description"]) for status, one in operation["responses"].items() if int(status) not in OK}


def _table(operations: list[tuple[str, Schema]]) -> list[str]:
    lines = ["| Route | Does |", "| --- | --- |"]
    for tag in NAMES:
        for route, operation in operations:
            if operation["tags"] == [tag]:
                lines.append(
                    f"| [`{route}`](#{_anchor(route)}) | {_line(operation['description']).split('. ')[0].rstrip('.')} |"
                )
    return lines


def _route(route: str, operation: Schema, usual: dict[str, str]) -> Iterator[str]:
    """Heading, text, parameters, body, answers and problems of one operation."""
    yield from ("", f"### `{route}`", "", _line(operation["description"]))
    yield ""
    for one in operation.get("parameters", []):
        schema, text = one["schema"], one.get("description") or one["schema"].get("description", "")
        default = _default(schema) if one["in"] == "query" else ""
        yield _field(one["name"], f"{one['in']}: {_type(schema)}{default}", _line(text))
    contents = operation.get("requestBody", {}).get("content", {})
    if contents:
        yield f"* Body: {_type(contents['application/json']['schema'])}"
    for status, answer in operation["responses"].items():
        if int(status) in OK:
            kinds = [
                _type(content["schema"]) if kind == "application/json" and content.get("schema") else f"`{kind}`"
                for kind, content in answer.get("content", {}).items()
            ]
            yield f"* {status}: {' or '.join(kinds) or 'nothing'}"
    others = sorted(_problems(operation) - usual.items())
    if others:
        yield f"* Problems: {'; '.join(f'{status} {text[:1].lower()}{text[1:]}' for status, text in others)}"


def _schema(name: str, schema: Schema) -> Iterator[str]:
    """Heading, text and fields of one body or answer."""
    text, of_fields = _attributes(schema.get("description", ""))
    yield from ("", f"### `{name}`", "")
    if text:
        yield from (text, "")
    required = set(schema.get("required", ()))
    plain = []
    for field, of in schema.get("properties", {}).items():
        meaning = _line(of.get("description", "")) or of_fields.get(field, "")
        kind = _type(of) + _default(of)
        mark = "" if field in required else ", may be missing" if "default" not in of else ""
        if meaning:
            yield _field(field, kind + mark, meaning)
        else:
            plain.append(f"`{field}` ({kind}{mark})")
    if plain:
        yield f"* {'; '.join(plain)}"
    if "properties" not in schema:
        yield f"* {_type({key: value for key, value in schema.items() if key != 'title'})}"


def _field(name: str, kind: str, meaning: str) -> str:
    return f"* `{name}` ({kind})" + (f": {meaning}" if meaning else "")


def _attributes(description: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring and its `Attributes`, a line each."""
    text, _, below = description.partition("Attributes:")
    entries = re.split(r"\n\s*(?=(?:\w+, )*\w+: )", f"\n{below.strip()}")
    found: dict[str, str] = {}
    for entry in entries:
        names, _, meaning = _line(entry).partition(": ")
        found |= dict.fromkeys(names.split(", "), meaning)
    return _line(text), found


def _type(schema: Schema) -> str:  # noqa: PLR0911 - a sentence for each kind of schema
    """A schema in words, with links to those that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if alternatives is not None:
        return " or ".join(dict.fromkeys(_type(one) for one in alternatives))
    kind: str = schema.get("type", "any value")
    if kind == "array":
        kinds = schema.get("prefixItems", [schema.get("items", {})])
        most = f" (at most {schema['maxItems']:,})" if "maxItems" in schema and "prefixItems" not in schema else ""
        return f"list of {', '.join(_type(one) for one in kinds)}{most}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"object of {_type(values)}" if isinstance(values, dict) else "object"
    return kind + _range(schema)


def _range(schema: Schema) -> str:
    """The bounds of a number, or of the length of a text."""
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if schema.get("type") == "string":
        return f" of at most {schema['maxLength']:,}" if "maxLength" in schema else ""
    above = "above" if "exclusiveMinimum" in schema else "from"
    lower = "" if low is None else f" {above} {low:g}"
    return lower + ("" if high is None else f" to {high:g}")


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default in (None, [], {}, "") and default is not False else f", default `{str(default).lower()}`"


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
