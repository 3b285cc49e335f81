"""`Selection`: the items that a query's conditions leave, as rows. Belongs to the engine thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.ranking.eligible import Eligible
from service.engine.lists import boosts
from service.engine.lists.boosts import BoostClass, Boosts
from service.engine.lists.filters import Filters, ItemFilters
from service.engine.models.shelf import Shelf
from service.engine.queries import Items, Ranked, Ruled
from service.engine.state.history import History

N_SHOWN = 3  # ids that a warning names
FEW = 8  # less than 1 / FEW of all items are ranked by popularity one by one


class Selection:
    """Turns ids and filters of queries into rows. Call `look` before each batch of answers."""

    def __init__(self, history: History) -> None:
        self._history, self._shelf = history, Shelf(history)
        self._filters = ItemFilters(history, self._shelf)
        self.passing_users = Filters(history.user_attributes.index, history.users).passing
        self._boosts = Boosts(history, self._filters)
        self.look, self.hidden, self.passing = self._shelf.look, self._shelf.hidden, self._filters.passing

    def rows(self, ids: Sequence[str]) -> NDArray[np.int32]:
        """Rows of the known ones of `ids`."""
        return np.array([row for row in self._history.items.rows(ids) if row is not None], dtype=np.int32)

    def excluded(self, query: Items) -> NDArray[np.int32]:
        """The items that the query excludes."""
        return self.rows(query.exclude)

    def candidates(self, query: Ruled) -> NDArray[np.int32] | None:
        """The only items to rank; None for all."""
        return None if query.candidates is None else self.rows(query.candidates)

    def eligible(self, query: Items) -> Eligible | None:
        """The items that pass the filter and that lists may show; None without a filter.

        Raises:
            InvalidRequest: the filter uses an unknown name.
        """
        return None if query.filter is None else self._filters.eligible(query.filter, query.available)

    def check(self, query: Ruled) -> None:
        """Check the names in the rules of a query; raises what `eligible` raises."""
        if query.max_per is not None:
            self._filters.check_name("max_per.tag", query.max_per[0], "tag")
        self.classes(query)

    def classes(self, query: Ruled) -> list[BoostClass]:
        """The items that pass the filter, by boost; raises what `eligible` raises."""
        return self._boosts.classes(query, self.eligible(query))

    def without_values(self, classes: list[BoostClass], tag: str, values: Iterable[str]) -> list[BoostClass]:
        """The classes without the items that have one of these values of a tag."""
        n_items = len(self._history.items)
        return boosts.without(classes, self._history.catalog.index.with_tag(tag, values, n_items), n_items)

    def may_show(self, query: Ruled, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of `rows` that pass every condition of the query but `include_seen` and `min_ratings`."""
        rows = rows[~self.hidden(query.available).mask[rows]]
        if (eligible := self.eligible(query)) is not None:
            rows = eligible.among(rows).astype(np.int64)
        if (candidates := self.candidates(query)) is not None:
            rows = rows[np.isin(rows, candidates)]
        return rows[~np.isin(rows, self.excluded(query))]

    def shown(self, query: Items) -> NDArray[np.bool_]:
        """Whether lists may show each item and it passes the filter of the query, which does not exclude it, (I,)."""
        shown: NDArray[np.bool_] = ~self.hidden(query.available).mask
        shown[self.excluded(query)] = False
        if (eligible := self.eligible(query)) is not None:
            shown &= eligible.mask(len(shown))
        return shown

    def of_popular(
        self, query: Ranked, eligible: Eligible | None
    ) -> tuple[NDArray[np.bool_], NDArray[np.integer] | None]:
        """What popular items are ranked from: a mask of items that may be shown, bool (I,), and candidates or None.

        `eligible`: the only items; None for all.
        """
        shown = ~self.hidden(query.available).mask
        candidates = self.candidates(query) if isinstance(query, Ruled) else None
        if eligible is None:
            return shown, candidates
        if candidates is not None:
            return shown, eligible.among(candidates)
        if eligible.count * FEW < len(shown):
            return shown, eligible.rows
        return shown & eligible.mask(len(shown)), None

    def warnings(self, query: Ruled) -> list[str]:
        """A warning for each list of the query with unknown items, which are probably misspelled, or deleted ones."""
        candidates, pins, catalog = query.candidates or (), [item for item, _ in query.pins], self._history.catalog
        return [
            *self.unknown("pins", pins),
            *self._named("pins that the list may not show", pins, lambda row: not len(self.may_show(query, row))),
            *self.unknown("exclude", query.exclude),
            *self.unknown("candidates", candidates),
            *self._named("deleted items in candidates", candidates, lambda row: catalog.is_deleted(int(row[0]))),
        ]

    def unknown(self, name: str, ids: Sequence[str]) -> list[str]:
        """A warning if some of `ids`, a list of a query, are unknown; `name` says which."""
        return self._named(f"unknown items in {name}", ids, None)

    def _named(self, what: str, ids: Sequence[str], is_meant: Callable[[NDArray[np.int64]], bool] | None) -> list[str]:
        """A warning if `is_meant` is true of the row of one of `ids`, int64 (1,); None: if one has no row."""
        distinct = list(dict.fromkeys(ids))
        rows = zip(distinct, self._history.items.rows(distinct), strict=True)
        if is_meant is None:
            meant = [one for one, row in rows if row is None]
        else:
            meant = [one for one, row in rows if row is not None and is_meant(np.array([row]))]
        shown = ", ".join(map(repr, meant[:N_SHOWN]))
        more = f" and {len(meant) - N_SHOWN:,} more" if len(meant) > N_SHOWN else ""
        return [f"{what}: {shown}{more}"] if meant else []
