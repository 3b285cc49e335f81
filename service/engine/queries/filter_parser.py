"""Parses filters: trees in bodies, and parameters such as `tag.genre=action` in queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.base.ids import check_id
from service.base.validation import MAX_SHOWN
from service.engine.queries.filter_tree import AllOf, AnyOf, HasTag, InRange, Node, Not
from service.storage.item_changes import LARGEST

MAX_DEPTH = 16  # conditions inside each other
MAX_TERMS = 256  # values and ranges of one filter
TAG, MIN, MAX = "tag.", "min.", "max."  # what the names of parameters begin with
PREFIXES = (TAG, MIN, MAX)
FORMS = "one of all, any, not, tag with in, number with min or max"
EXAMPLE = {"all": [{"tag": "genre", "in": ["western", "noir"]}, {"not": {"number": "price", "min": 20}}]}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "description": f"Only items that pass it: {FORMS}. At most {MAX_DEPTH} inside each other, and {MAX_TERMS} values.",
    "properties": {
        **{name: {"type": "array", "minItems": 1, "items": {"type": "object"}} for name in ("all", "any")},
        "not": {"type": "object"},
        "tag": {"type": "string"},
        "in": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
        "number": {"type": "string"},
        **{name: {"type": "number", "minimum": -LARGEST, "maximum": LARGEST} for name in ("min", "max")},
    },
    "examples": [EXAMPLE],
}
PARAMETERS: dict[str, Any] = {
    "parameters": [
        {
            "name": "filter",
            "in": "query",
            "required": False,
            "style": "form",
            "explode": True,
            "description": "`tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`.",
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        }
    ]
}


class BadParameter(ValueError):
    """A parameter of a filter cannot be used.

    Attributes:
        name: the parameter.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


def tree_of(value: Any) -> Node:
    """The tree of a filter in a body.

    Raises:
        ValueError: it has another form, or is too large.
    """
    return _Reader().tree(value, 1)


def tree_of_parameters(given: Mapping[str, Any]) -> Node:
    """The tree of at least one parameter, each text or a list of texts; an item has to pass all of them.

    Raises:
        BadParameter: one of them cannot be used.
    """
    parts: list[Node] = []
    n_terms = 0
    for name, texts in given.items():
        values = texts if isinstance(texts, list) else [texts]
        n_terms += len(values)
        if n_terms > MAX_TERMS:
            raise BadParameter(name, f"expected at most {MAX_TERMS} values of filters, got more")
        try:
            parts.append(_condition(name, values))
        except ValueError as error:
            raise BadParameter(name, str(error)) from None
    return AllOf(tuple(parts))


def _condition(name: str, values: Sequence[str]) -> Node:
    prefix, key = name[: len(TAG)], name[len(TAG) :]
    if prefix == TAG:
        return HasTag(key, tuple(map(_text, values)))
    if len(values) > 1:
        raise ValueError(f"expected one number, got {len(values):,}")
    try:
        bound = _number(float(values[0]))
    except ValueError:
        raise ValueError(f"expected a number, got {values[0][:MAX_SHOWN]!r}") from None
    return InRange(key, bound, None) if prefix == MIN else InRange(key, None, bound)


class _Reader:
    """Reads the tree of one filter; stops at the first value or range that is too many, however many follow."""

    def __init__(self) -> None:
        self._n_terms = 0

    def tree(self, value: Any, depth: int) -> Node:
        """The tree of a condition that is inside of `depth` - 1 others."""
        if depth > MAX_DEPTH:
            raise ValueError(f"expected at most {MAX_DEPTH} conditions inside each other, got more")
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, got {_shown(value)}")
        match value:
            case {"tag": str(name), "in": [_, *_] as values, **more} if not more:
                self._count(len(values))
                return HasTag(_name("tag", name), tuple(map(_text, values)))
            case {"number": str(name), **bounds} if bounds and not bounds.keys() - {"min", "max"}:
                self._count(1)
                numbers = {bound: _number(number) for bound, number in bounds.items()}
                return InRange(_name("number", name), numbers.get("min"), numbers.get("max"))
            case {"not": part, **more} if not more:
                return Not(self.tree(part, depth + 1))
            case {"all": [_, *_] as parts, **more} | {"any": [_, *_] as parts, **more} if not more:
                return (AllOf if "all" in value else AnyOf)(tuple(self.tree(part, depth + 1) for part in parts))
        raise ValueError(_wrong_form(value))

    def _count(self, n_terms: int) -> None:
        self._n_terms += n_terms
        if self._n_terms > MAX_TERMS:
            raise ValueError(f"expected at most {MAX_TERMS} values and ranges, got more")


def _wrong_form(value: Mapping[str, Any]) -> str:
    """What is wrong with an object that is no condition."""
    for name, content in (("all", "conditions"), ("any", "conditions"), ("in", "texts")):
        given = value.get(name, [None])
        if not isinstance(given, list) or not given:
            return f"expected a list of {content} as {name}, got {'an empty one' if given == [] else _shown(given)}"
    for name, other in (("tag", "in"), ("number", "min or max")):
        if not isinstance(value.get(name, ""), str):
            return f"expected the name of a {name}, got {_shown(value[name])}"
        if value.keys() == {name}:
            return f"expected {other} together with {name}, got {name} alone"
    return f"expected {FORMS}, got {_encodable(', '.join(value))[:MAX_SHOWN] or 'nothing'}"


def _name(kind: str, text: str) -> str:
    """`text` if it may be the name of a tag or a number."""
    if (shown := _encodable(text)) != text:
        raise ValueError(f"expected the name of a {kind} that UTF-8 can express, got {shown[:MAX_SHOWN]}")
    return text


def _encodable(text: str) -> str:
    """`text` with lone surrogates, which no answer can have, as escapes."""
    return text.encode(errors="backslashreplace").decode()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected texts in a tag, got {_shown(value)}")
    try:
        return check_id(value)
    except ValueError:
        raise ValueError("expected texts of 1 to 256 bytes in a tag, got another") from None


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
        raise ValueError(f"expected a finite number as bound, got {_shown(value)}")
    return float(value)


def _shown(value: Any) -> str:
    """A single value; of others, which may be long and deep, the type."""
    is_single = isinstance(value, str | int | float | None)
    return repr(value)[:MAX_SHOWN] if is_single else type(value).__name__
