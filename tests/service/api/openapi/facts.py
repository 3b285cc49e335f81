"""What an OpenAPI document promises, as a flat table: independent of order, names of components, titles and wording."""

from collections.abc import Iterator
from typing import Any

Fact = tuple[str, Any]
Schema = dict[str, Any]
# Which type of value a keyword is about; it says nothing about others.
OF_TYPE = {
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"minItems", "maxItems", "uniqueItems"},
    "object": {"minProperties", "maxProperties"},
}
OF_TYPE["integer"] = OF_TYPE["number"]
KEYWORDS = set[str]().union(*OF_TYPE.values())
METHODS = ("get", "put", "post", "patch", "delete", "head", "options", "trace")


def facts(document: dict[str, Any]) -> dict[str, list[Any]]:
    """All values of each place in `document`."""
    made: dict[str, list[Any]] = {}
    walk = _Walk(document)
    for path, item in document["paths"].items():
        for method in METHODS:
            for place, value in walk.operation(item[method]) if method in item else ():
                values = made.setdefault(f"{method} {path} {place}", [])
                if value not in values:
                    values.append(value)
    return {place: sorted(values, key=repr) for place, values in made.items()}


class _Walk:
    """Follows the references of one document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._schemas = document.get("components", {}).get("schemas", {})

    def operation(self, operation: dict[str, Any]) -> Iterator[Fact]:
        """The facts of one operation."""
        yield "is there", True
        yield "name", operation["operationId"]
        yield "security", operation.get("security")
        for parameter in operation.get("parameters", []):
            place = f"{parameter['in']} {parameter['name']}"
            yield f"{place}: required", bool(parameter.get("required"))
            yield f"{place}: style", [parameter.get("style"), parameter.get("explode")]
            yield from self.schema(parameter["schema"], place, ())
            has_example = "example" in parameter or "examples" in parameter or "examples" in parameter["schema"]
            yield f"{place}: has an example", has_example
        body = operation.get("requestBody")
        if body is not None:
            yield "body: required", bool(body.get("required"))
            yield from self._content(body["content"], "body")
        for status, answer in operation["responses"].items():
            yield f"{status}: is there", True
            for name in answer.get("headers", {}):
                yield f"{status} header {name}: is there", True
            yield from self._content(answer.get("content", {}), status)

    def _content(self, content: dict[str, Any], place: str) -> Iterator[Fact]:
        for media, held in content.items():
            inner = f"{place} {media}"
            yield f"{inner}: has an example", "example" in held or bool(held.get("examples"))
            yield from self.schema(held.get("schema", {}), inner, ())

    def schema(self, schema: Schema, place: str, above: tuple[str, ...]) -> Iterator[Fact]:
        """The facts of a schema; `above` are the references that led to it."""
        if schema.get("default") is not None:
            yield f"{place}: default", _number(schema["default"])
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            if name in above:
                yield f"{place}: again", len(above) - above.index(name)
            else:
                yield from self.schema(self._schemas[name], place, (*above, name))
            return
        for one in (one for several in ("anyOf", "oneOf", "allOf") for one in schema.get(several, [])):
            yield from self.schema(one, place, above)
        kinds = schema.get("type", ["any"])
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind != "any":
                yield f"{place}: type", kind
            for keyword in OF_TYPE.get(kind, KEYWORDS if kind == "any" else set()) & schema.keys():
                yield f"{place} ({kind}): {keyword}", _number(schema[keyword])
        if "const" in schema or "enum" in schema:
            yield f"{place}: values", sorted(schema.get("enum", [schema.get("const")]), key=repr)
        if "items" in schema:
            yield from self.schema(schema["items"], f"{place}[]", above)
        if "object" in kinds:
            yield from self._object(schema, place, above)

    def _object(self, schema: Schema, place: str, above: tuple[str, ...]) -> Iterator[Fact]:
        properties = schema.get("properties", {})
        for name, inner in properties.items():
            # One of several objects may demand a name that another does not.
            yield f"{place}.{name}: required", name in schema.get("required", ())
            yield from self.schema(inner, f"{place}.{name}", above)
        further = schema.get("additionalProperties", True)
        if isinstance(further, dict):
            yield from self.schema(further, f"{place}.*", above)
        else:
            yield f"{place}: further names", further


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
