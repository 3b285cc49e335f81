"""`Pages`: answers from lists. Belongs to the engine thread."""

from __future__ import annotations

from msgspec import UNSET

from service.engine.lists.selection import Selection
from service.engine.lists.sources import Lists, Source
from service.engine.lists.walk import BY_SCORE, PINNED
from service.engine.queries import Reason, Recommendation, ScoredItem
from service.engine.state.history import History


class Pages:
    """Makes answers, the first objects of a list."""

    def __init__(self, history: History, selection: Selection) -> None:
        self._items, self._selection = history.items, selection

    def answers(self, source: Source, lists: Lists, as_of: str) -> list[Recommendation]:
        """The answer to each plan of `source`."""
        live_model, is_personal, fallback, (before, after) = (
            source.live_model, source.is_personal, source.fallback, source.warnings,
        )  # fmt: skip
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
        _, queries, users, eligible, *_ = source.group
        of_lists = zip(queries, users, eligible, lists.lengths.tolist(), strict=True)
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
                for (item, _), own in zip(ranked, reasons, strict=True):
                    item.reasons = [Reason(self._items.id(row), share) for row, share in own]
            n_passing = UNSET if passing is None else passing.count
            made = Recommendation(user, items, is_personal, name, version, as_of, warnings, fallback, n_passing)
            answers.append(made)
            first = end
        return answers
