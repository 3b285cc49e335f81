"""What the generators make of kinds of schemas that the API may come to have."""

import datetime
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from clients import python_code, typescript_code

TEXT, NUMBER, NULL = {"type": "string"}, {"type": "number"}, {"type": "null"}
WHEN = {"anyOf": [NUMBER, {"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}
INNER = {
    "type": "object",
    "title": "Inner",
    "description": "Something inside.",
    "properties": {"text": TEXT},
    "required": ["text"],
}
SCHEMAS: dict[str, Any] = {
    "Anything": {},
    "Color": {"enum": ["red", "blue"]},
    "Other": {"type": "object", "properties": {"number": NUMBER}, "required": ["number"]},
    "Inner": INNER,
    "Whole": {
        "type": "object",
        "description": "All kinds of fields.",
        "required": ["inner", "from"],
        "properties": {
            "when": {**WHEN, "description": "A time."},
            "from": TEXT,
            "inner": {"$ref": "#/components/schemas/Inner"},
            "many": {"type": "array", "items": {"anyOf": [{"$ref": "#/components/schemas/Inner"}, NULL]}},
            "named": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Inner"}},
            "open": {"type": "object"},
            "several": {"anyOf": [{"$ref": "#/components/schemas/Other"}, {"$ref": "#/components/schemas/Inner"}]},
            "color": {"$ref": "#/components/schemas/Color"},
            "one_of": {"anyOf": [{"anyOf": [TEXT, INNER]}, NULL]},
            "state": {"enum": ["on", "off", None]},
            "only": {"const": "all"},
            "pair": {"type": "array", "prefixItems": [NUMBER, {"anyOf": [NUMBER, NULL]}]},
            "either": {"type": ["number", "null"]},
            "any": {"$ref": "#/components/schemas/Anything"},
        },
    },
    "Closed": {"type": "object", "additionalProperties": False, "properties": {"text": TEXT}},
    "Patch": {
        "type": "object",
        "properties": {"text": {"anyOf": [NULL, TEXT]}, "number": NUMBER},
    },
}
PATCH = {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Patch"}}}}}
FULL = {
    "from": "a",
    "inner": {"text": "b"},
    "when": "2026-01-02T03:04:05+00:00",
    "many": [{"text": "c"}, None],
    "named": {"x": {"text": "d"}},
    "open": {"y": [1]},
    "several": {"text": "f"},
    "color": "red",
    "one_of": {"text": "e"},
    "state": "on",
    "only": "all",
    "pair": [1.0, None],
    "either": 4.0,
    "any": {"z": 1},
}


def described(schemas: dict[str, Any]) -> dict[str, Any]:
    return {"components": {"schemas": schemas}, "paths": {}}


DOCUMENT = described(SCHEMAS)


@pytest.fixture(scope="module")
def models() -> Iterator[Any]:
    module = types.ModuleType("made_models")
    sys.modules[module.__name__] = module
    exec(python_code.Models({**DOCUMENT, "paths": {"/things": {"patch": PATCH}}}).text(), module.__dict__)
    yield module
    del sys.modules[module.__name__]


def test_what_is_read_is_written_again(models: Any) -> None:
    whole = models.Whole.from_dict({**FULL, "later": 1})
    assert isinstance(whole.inner, models.Inner)
    assert whole.many == [models.Inner("c"), None]
    assert whole.named["x"] == models.Inner("d")
    assert isinstance(whole.one_of, models.WholeInner)
    assert whole.when == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert whole.from_ == "a"
    assert whole.several == models.Inner("f")
    assert models.Whole.from_dict({**FULL, "several": {"number": 1.0}}).several == models.Other(1.0)
    with pytest.raises(TypeError, match="text"):
        models.Whole.from_dict({**FULL, "several": {}})
    assert whole["later"] == 1
    assert "later" in whole
    assert whole.to_dict() == {**FULL, "later": 1}


@pytest.mark.parametrize("given", ["2026-01-02", "soon", 5.5])
def test_times_are_numbers_dates_or_texts(models: Any, given: object) -> None:
    whole = models.Whole.from_dict({"from": "a", "inner": {"text": "b"}, "when": given})
    assert isinstance(whole.when, datetime.date) is (given == "2026-01-02")
    assert whole.to_dict()["when"] == given


def test_what_is_not_given_is_not_sent(models: Any) -> None:
    whole = models.Whole("a", models.Inner("b"))
    assert whole.state is None
    assert whole.to_dict() == {"from": "a", "inner": {"text": "b"}}
    assert models.Whole("a", None).to_dict() == {"from": "a", "inner": None}, "what is required is always sent"
    with pytest.raises(TypeError, match="from_"):
        models.Whole.from_dict({"inner": {"text": "b"}})
    assert models.Closed.from_dict({"text": "a", "other": 1}).to_dict() == {"text": "a"}


def test_none_is_sent_where_it_removes_something(models: Any) -> None:
    assert models.Patch().to_dict() == {}
    assert models.Patch(text=None, number=1.0).to_dict() == {"text": None, "number": 1.0}
    assert models.Patch.__annotations__ == {"text": "str | Unset | None", "number": "float | Unset"}


def test_the_types_of_typescript() -> None:
    text = typescript_code.module(DOCUMENT)
    for member in (
        "/** A time. */\n    when?: number | string;",
        "from: string;",
        'inner: Schemas["Inner"];',
        'many?: (Schemas["Inner"] | null)[];',
        'named?: Record<string, Schemas["Inner"]>;',
        "open?: Record<string, unknown>;",
        "one_of?: string | { text: string } | null;",
        'state?: "on" | "off" | null;',
        'only?: "all";',
        "pair?: [number, number | null];",
        "either?: number | null;",
        'several?: Schemas["Other"] | Schemas["Inner"];',
        'color?: Schemas["Color"];',
        "Anything: unknown;",
    ):
        assert f"  {member}\n" in text


@pytest.mark.parametrize("name", ["half-life", "next_", "tag.genre"])
def test_a_name_that_python_could_not_send_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="Invalid name in the document: expected letters, digits and _, got '"):
        python_code.Models(described({"One": {"type": "object", "properties": {name: TEXT}}}))


@pytest.mark.parametrize("schema", [{"allOf": [INNER]}, {"type": "object", "patternProperties": {"^a": TEXT}}])
def test_a_kind_of_schema_that_it_cannot_write_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Invalid schema of One.Field: expected no .*, got (allOf|patternProperties)"):
        python_code.Models(described({"One": {"type": "object", "properties": {"field": schema}}}))


def test_operations_of_all_kinds() -> None:
    """A reserved name in the path, a header, an answer without JSON and one without a body."""
    answer = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Inner"}}}}
    document = {
        "components": {"schemas": SCHEMAS},
        "paths": {
            "/things/{type}": {
                "get": {
                    "tags": ["things"],
                    "operationId": "get_thing",
                    "summary": "Get",
                    "parameters": [
                        {"name": "type", "in": "path", "required": True, "schema": TEXT},
                        {"name": "X-Key-Id", "in": "header", "required": False, "schema": TEXT},
                        {"name": "since", "in": "query", "required": False, "schema": WHEN},
                        {"name": "size", "in": "query", "required": True, "schema": NUMBER},
                    ],
                    "responses": {"200": answer, "404": {}},
                },
                "delete": {"tags": ["things"], "operationId": "end_thing", "summary": "End", "responses": {"204": {}}},
            }
        },
    }
    made = python_code.operations(document, python_code.Models(DOCUMENT))["things"]
    assert '@operation("GET", "/things/{type_}", headers={"x_key_id": "X-Key-Id"})' in made
    times = "float | datetime.date | datetime.datetime"
    declared = f"def get_thing(type_: str, *, client: Session, x_key_id: str | None = None, since: {times} | None"
    assert declared in made
    assert " | None = None, size: float) -> Inner:" in made
    assert "import datetime\n" in made
    assert "def end_thing(*, client: Session) -> Any:" in made
    types_made = typescript_code.module(document)
    assert 'responses: { 200: { content: { "application/json": Schemas["Inner"] } } };' in types_made
    assert "responses: { 204: { content?: never } }" in types_made
    assert 'header?: { "X-Key-Id"?: string };' in types_made
