"""Named schemas of the OpenAPI document that the framework does not make itself. Generators name types after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from service.engine.queries import filter_parser

REFERENCE = "#/components/schemas/{name}"
DOCUMENTED: dict[str, Any] = {}
DATES: tuple[Any, ...] = ({"type": "string", "format": "date"}, {"type": "string", "format": "date-time"})
TIME = {
    "description": "Unix seconds, or a date or datetime of ISO 8601, in UTC if it has no offset; default: now."
    " Never decides order.",
    "examples": [1.7e9, "2023-11-14T22:13:20Z"],
}
_WRITTEN_OUT = {filter_parser.SCHEMA["description"]: "Filter"}  # description -> name


def component(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Add a schema to `DOCUMENTED`, and return a reference to it."""
    DOCUMENTED[name] = schema | {"title": name}
    return reference_to(name)


def component_of(kind: Any) -> dict[str, Any]:
    """Add the schema of a struct, or of a union of structs, to `DOCUMENTED`, and return a reference to it."""
    references, components = msgspec.json.schema_components(
        [kind], schema_hook=lambda _: {"description": "Any JSON value"}, ref_template=REFERENCE
    )
    for schema in components.values():
        bound_tuples_by_length(schema)
    DOCUMENTED.update(msgspec.json.decode(msgspec.json.encode(components)))  # a default that is a tuple is an array
    return references[0]


def form_of(kind: type[msgspec.Struct], dates: Sequence[str] = (), **examples: Any) -> dict[str, Any]:
    """The schema of what clients post as a struct of this kind.

    Args:
        kind: the struct.
        dates: fields that may be a date instead of a number.
        examples: by field.
    """
    _, components = msgspec.json.schema_components([kind])
    schema: dict[str, Any] = components[kind.__name__]
    for name in dates:
        schema["properties"][name]["anyOf"].append({"type": "string"})
    for name, example in examples.items():
        schema["properties"][name]["examples"] = [example]
    return {name: value for name, value in schema.items() if name not in ("title", "description")}


def element_of(kind: type[msgspec.Struct], **examples: Any) -> dict[str, Any]:
    """`form_of` without null, which clients do not send for what the struct lacks; a time may be a date."""
    schema = form_of(kind)
    fields = schema["properties"]
    for name, field in fields.items():
        fields[name] = field.get("anyOf", [field])[0] | ({"examples": [examples[name]]} if name in examples else {})
        if field.get("default") is not None and name != "timestamp":
            fields[name]["default"] = field["default"]
    if "timestamp" in fields:
        fields["timestamp"].pop("default", None)
        fields["timestamp"] = TIME | {"anyOf": [fields["timestamp"], *DATES]}
    return schema


def with_references(node: Any) -> Any:
    """A document in which schemas that pydantic has written out, such as those of filters, are references."""
    if isinstance(node, list):
        return [with_references(child) for child in node]
    if not isinstance(node, dict):
        return node
    if (name := _WRITTEN_OUT.get(node.get("description"))) is not None and "properties" in node:
        return reference_to(name)
    return {key: with_references(value) for key, value in node.items()}


def reference_to(name: str) -> dict[str, Any]:
    """A reference to the schema of this name."""
    return {"$ref": REFERENCE.format(name=name)}


def bound_tuples_by_length(schema: Any) -> None:
    """Remove `"items": false` of tuples, which generators of clients cannot read: `maxItems` says the same."""
    if isinstance(schema, dict):
        if schema.get("items") is False and schema.get("maxItems") == len(schema["prefixItems"]):
            del schema["items"]
        schema = list(schema.values())
    if isinstance(schema, list):
        for child in schema:
            bound_tuples_by_length(child)


component("Filter", filter_parser.SCHEMA)
