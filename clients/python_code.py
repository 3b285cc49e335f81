"""The generated modules of the Python client: a class for each schema, a declaration for each operation."""

from __future__ import annotations

import builtins
import inspect
import json
import keyword
import re
import textwrap
from collections import defaultdict
from typing import Any, NamedTuple

Schema = dict[str, Any]
WIDTH = 120
NULLABLE = " | None"
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
FORMATS = {"date": "datetime.date", "date-time": "datetime.datetime"}
REFUSED = {"allOf", "not", "patternProperties"}  # kinds of schemas that the API does without
RESERVED = (set(keyword.kwlist) | set(dir(builtins))) - {"id"}  # they get an underscore, which a request does without

PACKAGE = '"""Made by `make clients` from the OpenAPI document of the service."""\n'
MODELS = '''\
"""A class for each schema of the service. Made by `make clients` from its OpenAPI document."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Literal

from nearfield_client.model import UNSET, Entries, Model, OpenModel, Unset

'''
OPERATIONS = '''\
"""The operations of the tag {tag}. Made by `make clients` from the OpenAPI document of the service."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import datetime
from typing import Any, Literal

from nearfield_client.generated.models import {names}
from nearfield_client.operation import operation
from nearfield_client.session import Session

'''


class Definition(NamedTuple):
    """Code that defines a name: what stands before the name, and what behind it."""

    before: str
    behind: str


class Models:
    """The module of all types. What a schema has inside, an enumeration or an object, gets a name and a type too."""

    def __init__(self, document: Schema) -> None:
        self._schemas: dict[str, Schema] = document["components"]["schemas"]
        self._patched_schemas = {name for methods in document["paths"].values() for name in _patched_by(methods)}
        self._inner: dict[str, Definition] = {}
        objects = {name: schema for name, schema in self._schemas.items() if schema.get("type") == "object"}
        self._definitions = {name: self._class(name, schema) for name, schema in objects.items()}

    def text(self) -> str:
        """The module. Of inner types that are equal, also to a schema, the later are names of the first."""
        first = {definition: name for name, definition in reversed(self._definitions.items())}
        texts = [before + name + behind for name, (before, behind) in self._definitions.items()]
        for name, definition in self._inner.items():
            other = first.setdefault(definition, name)
            texts.append(definition.before + name + definition.behind if other == name else f"{name} = {other}\n")
        return MODELS + "\n".join(texts)

    def names(self) -> list[str]:
        """The names that the module defines."""
        return [*self._definitions, *self._inner]

    def type_of(self, schema: Schema, owner: str, name: str) -> str:
        """The annotation for a schema that `owner` has under a name; both name the type that it may need."""
        kind = schema.get("type")
        if refused := REFUSED & schema.keys():
            wanted, got = (", ".join(sorted(kinds)) for kinds in (REFUSED, refused))
            raise ValueError(f"Invalid schema of {owner}.{name}: expected no {wanted}, got {got}")
        if "$ref" in schema:
            target = schema["$ref"].rpartition("/")[2]
            is_class = self._schemas[target].get("type") == "object"
            return target if is_class else self.type_of(self._schemas[target], target, "")
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if "enum" in schema:
            self._inner[owner + name] = Definition("", f" = Literal[{', '.join(map(repr, schema['enum']))}]\n")
            return owner + name
        if alternatives := _alternatives(schema):
            return _union([self.type_of(one, owner, name) for one in alternatives])
        if isinstance(kind, list):
            one_each = ({**schema, "type": one} for one in kind)
            return _union([self.type_of(one, owner, f"{name}Type{number}") for number, one in enumerate(one_each)])
        if kind == "array":
            items = {"anyOf": schema["prefixItems"]} if "prefixItems" in schema else schema["items"]
            return f"list[{self.type_of(items, owner, f'{name}Item')}]"
        if kind == "object":
            inner = owner + (schema.get("title", name) if "properties" in schema else name)
            self._inner[inner] = self._class(inner, schema)
            return inner
        return FORMATS.get(schema.get("format", "")) or PLAIN.get(schema.get("type", ""), "Any")

    def _class(self, name: str, schema: Schema) -> Definition:
        if "properties" not in schema:
            values = self.type_of(schema.get("additionalProperties", {}), name, "Value")
            return Definition("class ", f'(Entries["{values}"]):\n    """Values by their name."""\n')
        base = "Model" if schema.get("additionalProperties") is False else "OpenModel"
        required = schema.get("required", ())
        fields = sorted(schema["properties"].items(), key=lambda field: field[0] not in required)
        optional = _patched if name in self._patched_schemas else _optional
        lines = []
        for field, inner in fields:
            kind = self.type_of(inner, name, pascal(field))
            lines.append(f"    {python_name(field)}: {kind if field in required else optional(kind)}")
        documented = {python_name(field): inner.get("description", "") for field, inner in fields}
        text = docstring(schema.get("description", "An object of the API."), "Attributes", documented)
        return Definition("@dataclass\nclass ", f"({base}):\n{text}\n\n" + "\n".join(lines) + "\n")


def _patched_by(methods: Schema) -> list[str]:
    """The schemas of what a PATCH takes: what a field has not keeps what is there, and null removes it."""
    if "patch" not in methods:
        return []
    body = methods["patch"]["requestBody"]["content"]["application/json"]["schema"]
    return [one["$ref"].rpartition("/")[2] for one in _alternatives(body) or [body] if "$ref" in one]


def _union(kinds: list[str]) -> str:
    return " | ".join(dict.fromkeys(sorted(kinds, key="None".__eq__)))


def _optional(kind: str) -> str:
    """The type and the default of what may be left out."""
    return f"{kind.removesuffix(NULLABLE)}{NULLABLE} = None"


def _patched(kind: str) -> str:
    """The same for what a PATCH may leave out, where None has a meaning of its own."""
    others = kind.removesuffix(NULLABLE)
    return f"{others} | Unset{NULLABLE if others != kind else ''} = UNSET"


def _alternatives(schema: Schema) -> list[Schema]:
    """The alternatives of a schema, also those inside others; none if it is no alternative."""
    given = schema.get("anyOf") or schema.get("oneOf") or ()
    return [inner for one in given for inner in _alternatives(one) or [one]]


def operations(document: Schema, models: Models) -> dict[str, str]:
    """Tag -> the module of its operations."""
    by_tag = defaultdict[str, list[str]](list)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag[operation["tags"][0]].append(_declaration(method.upper(), path, operation, models))
    return {python_name(tag): _module(tag, "\n\n".join(texts), models) for tag, texts in by_tag.items()}


def _module(tag: str, code: str, models: Models) -> str:
    signatures = set(re.findall(r"\w+", " ".join(line for line in code.splitlines() if line.startswith("def "))))
    return OPERATIONS.format(tag=tag, names=", ".join(name for name in models.names() if name in signatures)) + code


def _declaration(method: str, path: str, operation: Schema, models: Models) -> str:
    name = operation["operationId"]
    owner = pascal(name)
    in_path, others, headers, documented = [], ["*", "client: Session"], {}, {}
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        others.append(f"body: {models.type_of(body, owner, 'Body')}")
    for one in operation.get("parameters", ()):
        parameter = python_name(one["name"].lower().replace("-", "_") if one["in"] == "header" else one["name"])
        kind = models.type_of(one["schema"], owner, pascal(one["name"]))
        documented[parameter] = one.get("description") or one["schema"].get("description", "")
        if one["in"] == "path":
            in_path.append(f"{parameter}: {kind}")
            path = path.replace(f"{{{one['name']}}}", f"{{{parameter}}}")
            continue
        others.append(f"{parameter}: {kind if one['required'] else _optional(kind)}")
        if one["in"] == "header":
            headers[parameter] = one["name"]
    answer = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    content = answer.get("content", {}).get("application/json", {})
    sent = f", headers={json.dumps(headers)}" if headers else ""
    text = docstring(operation.get("description") or operation["summary"], "Args", documented)
    return (
        f'@operation("{method}", "{path}"{sent})\ndef {name}({", ".join(in_path + others)})'
        f" -> {models.type_of(content.get('schema', {}), owner, 'Answer')}:\n{text}\n    ...\n"
    )


def docstring(text: str, section: str, entries: dict[str, str]) -> str:
    """A docstring, indented by four, with those entries that say something."""
    lines = lines_of(text, WIDTH - 10)  # and quotes
    if any(entries.values()):
        lines += ["", f"{section}:"]
        for name, meaning in entries.items():
            lines += _wrapped(f"    {name}: {meaning}", WIDTH - 4) if meaning else ()
    text = textwrap.indent("\n".join(lines).replace("\\", "\\\\"), "    ").strip()
    return f'    """{text}"""' if len(lines) == 1 else f'    """{text}\n    """'


def lines_of(text: str, width: int) -> list[str]:
    """A description as lines of at most `width`. Its entries, such as `    name: meaning`, begin lines of their own."""
    begun: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        is_new = not begun or not line or not begun[-1] or re.match(r"(\w+|    [\w, ]+):( |$)", line)
        if is_new:
            begun.append(line)
        else:
            begun[-1] += f" {line.strip()}"
    return [made for line in begun for made in _wrapped(line, width) or [""]]


def _wrapped(line: str, width: int) -> list[str]:
    indent = " " * (8 if line.startswith(" ") else 0)
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def python_name(name: str) -> str:
    """The name of a field or a parameter: one that is reserved gets an underscore, which requests do without."""
    if not name.isidentifier() or name.endswith("_"):
        raise ValueError(f"Invalid name in the document: expected letters, digits and _, got {name!r}")
    return f"{name}_" if name in RESERVED else name


def pascal(name: str) -> str:
    """`list_users` -> `ListUsers`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", name))
