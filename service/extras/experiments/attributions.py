"""`Attributions`: events by experiment, arm, type and user, counted from the stream. An `Observer` of a `History`.

So a restart and all replicas have the same counts at the same position, and a forgotten user is in none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing
from service.base.recommendation_ids import content_of
from service.engine.state.strength_rows import Attributed
from service.extras.experiments.queries import KIND
from service.storage.documents import Document
from service.storage.events import StreamId

PutAt = Callable[[str, str], StreamId | None]


class Attributions:
    """Counts events that bring back a recommendation id of a present experiment."""

    def __init__(self, put_at: PutAt) -> None:
        """`put_at`: the position at which the document of a kind and a name was put."""
        self._put_at = put_at
        self._counts: dict[str, dict[str, dict[str, Growing]]] = {}  # by experiment, arm and type: of each user

    def note(
        self, users: NDArray[np.integer], are_first: NDArray[np.bool_], attributed: Mapping[int, Attributed]
    ) -> None:
        """Count events."""
        for place, event in attributed.items():
            try:
                shown = content_of(event.recommendation_id)
            except ValueError:  # older versions archived ids of other producers without a check
                continue
            if are_first[place] and str(self._put_at(KIND, shown.experiment)) == shown.put:
                types = self._counts.setdefault(shown.experiment, {}).setdefault(shown.arm, {})
                column = types.setdefault(event.type, Growing(np.zeros(0, dtype=np.int32)))
                column.grow(int(users[place]) + 1)
                column.values[users[place]] += 1

    def replace(self, document: Document) -> None:
        """Drop the counts of an experiment that `document` replaces or deletes."""
        if document.kind == KIND:
            self._counts.pop(document.name, None)

    def move(self, user: int, into: int) -> None:
        """Make the counts of a row those of another one."""
        for arms in self._counts.values():
            for types in arms.values():
                for column in types.values():
                    if user < len(column.values) and column.values[user]:
                        column.grow(into + 1)
                        column.values[into] += column.values[user]

    def drop_user(self, user: int) -> None:
        """Drop the counts of a forgotten row."""
        for arms in self._counts.values():
            for types in arms.values():
                for column in types.values():
                    column.values[user : user + 1] = 0

    def of(self, experiment: str, arm: str) -> tuple[int, dict[str, tuple[int, int]]]:
        """The number of users with events; and of each type, the events and the users with any."""
        types = self._counts.get(experiment, {}).get(arm, {})
        longest = max((len(column.values) for column in types.values()), default=0)
        have_any = np.zeros(longest, dtype=np.bool_)
        counts = {}
        for name, column in types.items():
            have_any[: len(column.values)] |= column.values > 0
            counts[name] = int(column.values.sum()), int(np.count_nonzero(column.values))
        return int(np.count_nonzero(have_any)), counts
