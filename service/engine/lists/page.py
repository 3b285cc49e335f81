"""`Pages`: answers from lists. Belongs to the engine thread."""

from __future__ import annotations

from msgspec import UNSET

from service.engine.lists.selection import Selection
from service.engine.lists.sources import Lists, Source
from service.engine.lists.walk import BY_SCORE, PINNED
from service.engine.queries import Reason, Recommendation, ScoredItem
from service.engine.queries.batches import of_each
from service.engine.state.history import History


class Pages:
    """Makes answers, the first objects of a list."""

    def __init__(self, history: History, selection: Selection) -> None:
        self._items, self._selection = history.items, selection

    def answers(self, source: Source, lists: Lists, as_of: str) -> list[Recommendation]:
        """The answer to each plan of `source`."""
        live_model, plans = source.live_model, source.plans
        name, version = (None, None) if live_model is None else (live_model.name, live_model.shown_version)
        before, after = source.warnings
        warnings = of_each(self._selection.warnings, [plan.query for plan in plans])
        columns, estimates = [lists.scores.tolist()], source.estimates(lists.rows)
        if estimates is not None:
            columns.append(estimates.tolist())
        answers, ids, is_personal, fallback = [], self._items.ids, source.is_personal, source.fallback
        for at, (plan, rows, *numbers) in enumerate(zip(plans, lists.rows.tolist(), *columns, strict=True)):
            query, start = plan.query, lists.starts[at]
            page = slice(start, start + query.n)
            own_rows = rows[page]
            if own_rows and own_rows[-1] < 0:  # padding comes last
                own_rows = [row for row in own_rows if row >= 0]
            items = list(map(ScoredItem, ids(own_rows), *[column[page] for column in numbers]))
            if lists.marks is not None and lists.boosts is not None:
                has_boosts = bool(query.boosts) or query.rotate is not None
                marks, boosts = lists.marks[at, page].tolist(), lists.boosts[at, page].tolist()
                for n, (item, mark, boost) in enumerate(zip(items, marks, boosts, strict=False)):
                    if mark == PINNED:
                        items[n] = ScoredItem(item.item, None, source="pin")
                        continue
                    item.source = UNSET if mark == BY_SCORE else "explore"
                    item.boost = boost if has_boosts else UNSET
            if query.explain and is_personal:
                ranked = [(item, row) for item, row in zip(items, own_rows, strict=True) if item.score is not None]
                reasons = source.reasons(at, [row for _, row in ranked])
                for (item, _), own in zip(ranked, reasons, strict=True):
                    item.reasons = [Reason(self._items.id(row), share) for row, share in own]
            told = [*before, *warnings[at], *after] if before or after else warnings[at]
            passing = self._selection.eligible(query)
            eligible = UNSET if passing is None else passing.count
            answer = Recommendation(plan.user, items, is_personal, name, version, as_of, told, fallback, eligible)
            answers.append(answer)
        return answers
