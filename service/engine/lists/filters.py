"""`Filters`: the rows that pass a filter, compiled to bits and cached. Belongs to the engine thread."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from gpu.ranking.eligible import WORD, Eligible
from service.base.errors import InvalidRequest
from service.base.validation import MAX_SHOWN
from service.engine.models.shelf import Shelf
from service.engine.queries import filter_tree
from service.engine.queries.catalog_queries import Kind
from service.engine.queries.filter_tree import AllOf, AnyOf, HasTag, InRange, Node, Not
from service.engine.state.attribute_index import AttributeIndex
from service.engine.state.history import History
from service.engine.state.id_table import IdTable
from service.engine.state.row_set import Bits, n_words, set_rows

MAX_CACHED = 256  # filters; 32 MB of bits at a million items
N_SHOWN = 10  # names in an error

K = TypeVar("K")
V = TypeVar("V")


class Compiled(NamedTuple):
    """A filter at one state of the attributes.

    Attributes:
        node: its conditions.
        bits: rows that pass; bits beyond `n_rows` are not set.
        is_open: whether rows without attributes, such as later ones, pass.
        versions: of the names it uses, see `AttributeIndex.version`.
    """

    node: Node
    bits: Bits
    n_rows: int
    is_open: bool
    versions: dict[str, int]


class _Shown(NamedTuple):
    """The eligible items of a compiled filter among those that lists may show."""

    eligible: Eligible
    compiled: Compiled
    version: Hashable  # of what is hidden


class Filters:
    """Compiles filters of items or of users, and keeps the last ones that were used.

    A compiled filter holds until a row with one of its names changes.
    """

    def __init__(self, index: AttributeIndex, ids: IdTable, whose: str = "users") -> None:
        """`whose` says in errors what has these attributes."""
        self._index, self._ids, self._whose = index, ids, whose
        self._compiled = Recent[str, Compiled]()

    def passing(self, text: str) -> Eligible:
        """The rows that pass a filter, hidden items too.

        Raises:
            InvalidRequest: the filter uses a name that no row ever had.
        """
        bits = self._passing(text).bits
        return Eligible(bits, int(np.bitwise_count(bits).sum()))

    def which_pass(self, text: str, rows: Sequence[int | None]) -> list[bool]:
        """Whether each of some rows passes a filter; None is one that is not there yet, and has no attributes.

        A name that no row ever had is one that no row has: what is in use does not fail because a user was forgotten.
        """
        bits, is_open = (compiled := self._passing(text, checks=False)).bits, compiled.is_open
        return [
            is_open if row is None or row >= compiled.n_rows else bool(bits[row // WORD] >> row % WORD & 1)
            for row in rows
        ]

    def _passing(self, text: str, *, checks: bool = True) -> Compiled:
        index, n_rows = self._index, len(self._ids)
        compiled = self._compiled.get(text)
        if compiled is None or any(index.version(name) != one for name, one in compiled.versions.items()):
            node = filter_tree.decode(text) if compiled is None else compiled.node
            return self._compiled.put(text, self.compiled(node, checks=checks))
        if compiled.is_open and compiled.n_rows < n_rows:
            bits = np.zeros(n_words(n_rows), dtype=np.uint32)
            bits[: len(compiled.bits)] = compiled.bits
            set_rows(bits, np.arange(compiled.n_rows, n_rows))  # later rows have none of its names and pass
            return self._compiled.put(text, compiled._replace(bits=bits, n_rows=n_rows))
        return compiled

    def compiled(self, node: Node, *, checks: bool = True) -> Compiled:
        """A filter for the present attributes; with `checks` it raises what `passing` raises."""
        for leaf in filter_tree.leaves(node) if checks else ():
            self.check_name("filter", leaf.name, "tag" if isinstance(leaf, HasTag) else "number")
        index, n_rows = self._index, len(self._ids)
        bits = _bits(node, index, n_rows)
        if n_rows % WORD:
            bits[-1] &= np.uint32((1 << n_rows % WORD) - 1)
        versions = {leaf.name: index.version(leaf.name) for leaf in filter_tree.leaves(node)}
        return Compiled(node, bits, n_rows, filter_tree.passes_nothing(node), versions)

    def check_name(self, place: str, name: str, kind: Kind) -> None:
        """Check that `name`, from `place` in a request, is one of tags or of numbers.

        Raises:
            InvalidRequest: no row ever had it.
        """
        if self._index.kind_of(name) != kind:
            names = sorted(self._index.names_of(kind))
            more = ", …" if len(names) > N_SHOWN else ""
            listed = f" ({', '.join(names[:N_SHOWN])}{more})" if names else ", of which there is none"
            raise InvalidRequest(
                f"Invalid {place}: expected a {kind} of {self._whose}{listed}, got {name[:MAX_SHOWN]!r}"
            )


class ItemFilters(Filters):
    """The filters of items, and which of the items that pass may be shown.

    Of an unchanged filter, and while no item is hidden or shown, the same `Eligible` is returned, so that a device
    keeps its copy.
    """

    def __init__(self, history: History, shelf: Shelf) -> None:
        super().__init__(history.catalog.index, history.items, "the catalog")
        self._shelf, self._shown = shelf, Recent[tuple[str, bool], _Shown]()

    def eligible(self, text: str, available: bool) -> Eligible:
        """The items that pass a filter and that lists may show; see `Shelf.hidden` for `available`.

        Raises what `passing` raises.
        """
        compiled, key = self._passing(text), (text, available)
        bits, hidden = self._shelf.hidden_bits(available)
        shown = self._shown.get(key)
        if shown is None or shown.compiled is not compiled or shown.version != hidden.version:
            shown_bits = compiled.bits & ~bits[: len(compiled.bits)]
            eligible = Eligible(shown_bits, int(np.bitwise_count(shown_bits).sum()))
            shown = self._shown.put(key, _Shown(eligible, compiled, hidden.version))
        return shown.eligible


class Recent(Generic[K, V]):
    """The `MAX_CACHED` values that were used last, by key."""

    def __init__(self) -> None:
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """The value, which counts as used."""
        value = self._values.pop(key, None)
        return None if value is None else self.put(key, value)

    def put(self, key: K, value: V) -> V:
        """Keep a value, and return it."""
        self._values.pop(key, None)
        if len(self._values) >= MAX_CACHED:
            del self._values[next(iter(self._values))]
        self._values[key] = value
        return value


def _bits(node: Node, index: AttributeIndex, n_rows: int) -> Bits:
    """The rows that pass; bits beyond `n_rows` have no meaning."""
    match node:
        case HasTag(name, values):
            return index.with_tag(name, values, n_rows)
        case InRange(name, least, most):
            bounds = -math.inf if least is None else least, math.inf if most is None else most
            return index.within(name, *bounds, n_rows)
        case Not(part):
            return ~_bits(part, index, n_rows)
        case AllOf(parts) | AnyOf(parts):
            join = np.bitwise_and if isinstance(node, AllOf) else np.bitwise_or
            return functools.reduce(join, (_bits(part, index, n_rows) for part in parts))
