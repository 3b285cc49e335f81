"""`Pages`: answers from lists. Belongs to the engine thread, but for `PlainLists`."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.data import host_texts
from service.engine.lists.selection import Selection
from service.engine.lists.sources import Lists, Source
from service.engine.lists.walk import BY_SCORE, PINNED
from service.engine.queries import Reason, Recommendation, ScoredItem
from service.engine.queries.columns import EMPTY, END, ESTIMATE, FIRST, NEXT, SCORE, ListColumns
from service.engine.queries.encoding import after_items
from service.engine.state.history import History
from service.engine.state.id_table import IdTable

N_PIECES = 4  # before the names of items
_encode = msgspec.json.Encoder().encode


class Part(NamedTuple):
    """Lists of one plan that are not text yet.

    Attributes:
        at: the places of their users.
        rows: int64 (L,), the items of all lists.
        lengths: int64 (B,), items of each list.
        numbers: float64 (L, 1) or (L, 2): scores, and estimates where the model has some.
        names: where each name of `Texts` ends, and the bytes of all, when the lists were made.
        tail: what follows the items, without the bracket.
    """

    at: Sequence[int]
    rows: NDArray[np.int64]
    lengths: NDArray[np.int64]
    numbers: NDArray[np.float64]
    names: tuple[NDArray[np.int64], NDArray[np.uint8]]
    tail: bytes


class PlainLists(NamedTuple):
    """The answer to a plain query, whose parts nothing changes any more.

    The event loop writes it (`columns`). So the engine's thread, which all lists wait for, goes on with the next batch.
    """

    parts: Sequence[Part]

    def columns(self) -> ListColumns:
        """The lists as text; any thread."""
        tails, text = list(dict.fromkeys(part.tail for part in self.parts)), bytearray()
        ends, places, kinds = array("I"), array("I"), array("I")
        for part in self.parts:
            written, own_ends = host_texts.lines(part.rows, part.lengths, part.numbers, *part.names)
            ends.frombytes((own_ends + np.uint32(len(text))).tobytes())
            places.extend(part.at)
            kinds.frombytes((np.uint32(2 * tails.index(part.tail)) + (part.lengths == 0)).tobytes())
            text += written.data
        both = [end + tail for tail in tails for end in (END, EMPTY)]
        return ListColumns(bytes(text), ends.tobytes(), places.tobytes(), kinds.tobytes(), both)


class Texts:
    """The pieces of a list in JSON, and the names of all items, in one array of bytes."""

    def __init__(self, items: IdTable) -> None:
        self._items = items
        self._ends, self._text = Growing(np.zeros(0, dtype=np.int64)), Growing(np.zeros(0, dtype=np.uint8))
        self._add([FIRST, NEXT, SCORE, ESTIMATE])

    def take_in(self) -> None:
        """Add the items that are new. Items are never forgotten."""
        n_items = len(self._ends.values) - N_PIECES
        if n_items < len(self._items):
            self._add(list(map(_encode, self._items.ids(range(n_items, len(self._items))))))

    @property
    def names(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Where each name ends, and the bytes of all. What later items add does not change these arrays."""
        return self._ends.values, self._text.values

    def _add(self, texts: Sequence[bytes]) -> None:
        n, n_bytes, joined = len(self._ends.values), len(self._text.values), b"".join(texts)
        self._ends.grow(n + len(texts))
        self._text.grow(n_bytes + len(joined))
        self._ends.values[n:] = n_bytes + np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
        self._text.values[n_bytes:] = np.frombuffer(joined, dtype=np.uint8)


class Pages:
    """Makes answers, the first objects of a list."""

    def __init__(self, history: History, selection: Selection) -> None:
        self._items, self._selection, self.texts = history.items, selection, Texts(history.items)

    def parts(self, source: Source, lists: Lists, as_of: str) -> Iterator[tuple[int, Part]]:
        """The place of each plan of `source`, whose lists have no rules, and its part."""
        estimates, n = source.estimates(lists), len(lists.rows)
        numbers = np.empty((n, 1 if estimates is None else 2))
        numbers[:, 0] = lists.scores
        if estimates is not None:
            numbers[:, 1] = estimates
        rows, lengths = lists.rows.astype(np.int64, copy=False), lists.lengths
        if (shared := source.group.shared) is not None:
            firsts, lengths = (np.cumsum(lengths) - lengths)[shared], lengths[shared]
            places = np.arange(lengths.sum()) + np.repeat(firsts - np.cumsum(lengths) + lengths, lengths)
            rows, numbers = rows[places], numbers[places]
        live_model, (before, after) = source.live_model, source.warnings
        name, version = (None, None) if live_model is None else (live_model.name, live_model.shown_version)
        answer = Recommendation(None, [], source.is_personal, name, version, as_of, [*before, *after], source.fallback)
        tail, first_list, first = after_items(answer), 0, 0
        for _, of, at in source.group.runs:
            own = lengths[first_list : first_list + len(at)]
            end = first + int(np.add.reduce(own))
            yield of, Part(at, rows[first:end], own, numbers[first:end], self.texts.names, tail)
            first_list, first = first_list + len(at), end

    def answers(self, source: Source, lists: Lists, as_of: str) -> list[Recommendation]:
        """The answer to each plan of `source`."""
        live_model, (before, after) = source.live_model, source.warnings
        is_personal, fallback = source.is_personal, source.fallback
        name, version = (None, None) if live_model is None else (live_model.name, live_model.shown_version)
        rows, estimates = lists.rows.tolist(), source.estimates(lists)
        columns = [self._items.ids(rows), lists.scores.tolist()]
        if estimates is not None:
            columns.append(estimates.tolist())
        lines = list(map(ScoredItem, *columns))
        if lists.marks is not None and lists.boosts is not None:
            for n, (line, mark) in enumerate(zip(lines, lists.marks.tolist(), strict=True)):
                if mark == PINNED:
                    lines[n] = ScoredItem(line.item, None, source="pin")
                elif mark != BY_SCORE:
                    line.source = "explore"
        answers, last, first = list[Recommendation](), None, 0
        group = source.group
        of_lists = zip(group.queries, group.users, group.eligible, lists.lengths.tolist(), strict=True)
        for at, (query, user, passing, length) in enumerate(of_lists):
            if query is not last:
                last, has_names = query, query.exclude or query.candidates or query.pins
                warnings = [*before, *(self._selection.warnings(query) if has_names else ()), *after]
            end = first + length
            items = lines[first:end]
            if lists.boosts is not None and (query.boosts or query.rotate is not None):
                for item, boost in zip(items, lists.boosts[first:end].tolist(), strict=True):
                    item.boost = UNSET if item.source == "pin" else boost
            if query.explain and is_personal:
                ranked = [(item, row) for item, row in zip(items, rows[first:end], strict=True) if item.source != "pin"]
                reasons = source.reasons(at, [row for _, row in ranked])
                lifts = source.lifts([row for _, row in ranked])
                again = source.again(at, [row for _, row in ranked])
                for (item, _), own, lift, part in zip(ranked, reasons, lifts, again, strict=True):
                    item.reasons = [Reason(self._items.id(row), share) for row, share in own]
                    item.trend, item.again = lift, part
            n_passing = UNSET if passing is None else passing.count
            made = Recommendation(user, items, is_personal, name, version, as_of, warnings, fallback, n_passing)
            answers.append(made)
            first = end
        return answers
