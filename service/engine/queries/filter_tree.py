"""The conditions of a filter as a tree, and its canonical text: equal texts have equal meanings.

The API makes the text; it travels in queries, and compiled filters are cached by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct


class AllOf(Struct, frozen=True, array_like=True, tag="all"):
    """Items that pass every part."""

    parts: tuple[Node, ...]


class AnyOf(Struct, frozen=True, array_like=True, tag="any"):
    """Items that pass at least one part."""

    parts: tuple[Node, ...]


class Not(Struct, frozen=True, array_like=True, tag="not"):
    """Items that do not pass the part."""

    part: Node


class HasTag(Struct, frozen=True, array_like=True, tag="tag"):
    """Items with at least one of the values."""

    name: str
    values: tuple[str, ...]


class InRange(Struct, frozen=True, array_like=True, tag="number"):
    """Items with a number from `least` to `most`, both included; None: no bound."""

    name: str
    least: float | None = None
    most: float | None = None


Node = AllOf | AnyOf | Not | HasTag | InRange
_encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Node).decode


def text_of(node: Node) -> str:
    """The canonical text; `decode` makes the tree of it."""
    return _encode(_normal(node)).decode()


def form_of(node: Node) -> dict[str, Any]:
    """The filter as clients write it in a body."""
    match node:
        case HasTag(name, values):
            return {"tag": name, "in": list(values)}
        case InRange(name, least, most):
            bounds = {"min": least, "max": most}
            return {"number": name} | {bound: number for bound, number in bounds.items() if number is not None}
        case Not(part):
            return {"not": form_of(part)}
        case _:
            return {"all" if isinstance(node, AllOf) else "any": [form_of(part) for part in node.parts]}


def leaves(node: Node) -> Iterator[HasTag | InRange]:
    """The conditions on single names."""
    if isinstance(node, HasTag | InRange):
        yield node
    else:
        for part in (node.part,) if isinstance(node, Not) else node.parts:
            yield from leaves(part)


def passes_nothing(node: Node) -> bool:
    """Whether an item without attributes passes the filter."""
    match node:
        case AllOf(parts):
            return all(map(passes_nothing, parts))
        case AnyOf(parts):
            return any(map(passes_nothing, parts))
        case Not(part):
            return not passes_nothing(part)
        case _:
            return False


def _normal(node: Node) -> Node:
    match node:
        case HasTag(name, values):
            return HasTag(name, tuple(sorted(set(values))))
        case Not(part):
            inner = _normal(part)
            return inner.part if isinstance(inner, Not) else Not(inner)
        case AllOf() | AnyOf():
            return _joined(node)
        case _:
            return node


def _joined(node: AllOf | AnyOf) -> Node:
    """A group with parts of the same kind dissolved, in the order of their texts, each once."""
    kind = type(node)
    normal = [_normal(part) for part in node.parts]
    flat = [part for one in normal for part in (one.parts if isinstance(one, kind) else (one,))]
    distinct = dict(sorted((_encode(part), part) for part in flat))
    parts = tuple(distinct.values())
    return parts[0] if len(parts) == 1 else kind(parts)
