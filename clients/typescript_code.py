"""The generated module of the TypeScript client: the types of all schemas and of all paths."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection
from typing import Any

from clients.python_code import lines_of

Schema = dict[str, Any]
LIMIT, SHORT = 120, 60  # characters of a line, and of an object on one line
WIDTH = LIMIT - 14  # of a text, which is indented by as much at most
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
HEAD = "/** The types of the API. Made by `make clients` from the OpenAPI document of the service. */\n\n"


def module(document: Schema) -> str:
    """The module. Of answers it has the successes: the client throws the others."""
    described = document["components"]["schemas"]
    schemas = _object([_member(name, schema, described) for name, schema in described.items()])
    paths = _object([f"{json.dumps(path)}: {_operations(methods)};" for path, methods in document["paths"].items()])
    components = "export interface components {\n  schemas: Schemas;\n}"
    code = f"{HEAD}export interface Schemas {schemas}\n\n{components}\n\nexport interface paths {paths}\n"
    return "".join(line if len(line) <= LIMIT else _broken(line) for line in code.splitlines(keepends=True))


def _operations(methods: dict[str, Schema]) -> str:
    return _object([f"{_comment(one)}{method}: {_operation(one)};" for method, one in methods.items()])


def _operation(operation: Schema) -> str:
    """The parts of a request, and its answers: a part may be left out if all of its members may."""
    parts = []
    for place in ("path", "query", "header"):
        given = {one["name"]: one for one in operation.get("parameters", ()) if one["in"] == place}
        if given:
            schemas = {name: {"description": one.get("description", "")} | one["schema"] for name, one in given.items()}
            required = [name for name, one in given.items() if one["required"]]
            members = [_member(name, schema, required) for name, schema in schemas.items()]
            parts.append(f"{place}{'' if required else '?'}: {_object(members)};")
    members = [f"parameters: {_object(parts)};"] if parts else []
    if "requestBody" in operation:
        members.append(f"requestBody: {_content(operation['requestBody'])};")
    answers = [f"{status}: {_content(one)}" for status, one in operation["responses"].items() if status[0] == "2"]
    return _object([*members, f"responses: {{ {'; '.join(answers)} }};"])


def _content(described: Schema) -> str:
    content = described.get("content", {})
    kinds = [f"{json.dumps(kind)}: {type_of(one.get('schema', {}))}" for kind, one in content.items()]
    return f"{{ content: {{ {'; '.join(kinds)} }} }}" if kinds else "{ content?: never }"


def _member(name: str, schema: Schema, required: Collection[str]) -> str:
    key = name if name.isidentifier() else json.dumps(name)
    return f"{_comment(schema)}{key}{'' if name in required else '?'}: {type_of(schema)};"


def _object(members: list[str]) -> str:
    """An object type: on one line if it is short and has no comments."""
    line = f"{{ {' '.join(members).removesuffix(';')} }}"
    if len(line) <= SHORT and "\n" not in line:
        return line
    return "{\n" + textwrap.indent("\n".join(members), "  ") + "\n}"


def type_of(schema: Schema) -> str:
    """The type of a schema; on several lines if it has members."""
    kind = schema.get("type")
    if "$ref" in schema:
        return f'Schemas["{schema["$ref"].rpartition("/")[2]}"]'
    if "const" in schema or "enum" in schema:
        return " | ".join(map(json.dumps, schema.get("enum") or [schema["const"]]))
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(map(type_of, alternatives)))
    if isinstance(kind, list):
        return " | ".join(type_of({**schema, "type": one}) for one in kind)
    if kind == "array" and "prefixItems" in schema:
        return f"[{', '.join(map(type_of, schema['prefixItems']))}]"
    if kind == "array":
        items = type_of(schema["items"])
        return f"({items})[]" if " | " in items else f"{items}[]"
    if kind == "object" and "properties" in schema:
        required = schema.get("required", ())
        return _object([_member(name, one, required) for name, one in schema["properties"].items()])
    if kind == "object":
        return f"Record<string, {type_of(schema.get('additionalProperties', {}))}>"
    return PLAIN.get(schema.get("type", ""), "unknown")


def _comment(schema: Schema) -> str:
    """The description as a comment in front of what it describes; empty without one."""
    lines = [line.replace("*/", "* /") for line in lines_of(schema.get("description", ""), WIDTH)]
    if len(lines) < 2:
        return f"/** {lines[0]} */\n" if lines else ""
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def _broken(line: str) -> str:
    """A long line of code on several; comments are no longer than they may be."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line.strip(), LIMIT, initial_indent=indent, subsequent_indent=f"{indent}  ") + "\n"
