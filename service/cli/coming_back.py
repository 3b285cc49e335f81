"""`ComingBack`: lists of `evaluate` in which what users had competes, and those that they have to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.data.evidence import amounts
from gpu.data.ratings import Rows
from gpu.data.signals import Repeat
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from gpu.repeat.own import Own, parts_of, recommend
from gpu.training.list_quality import Listing


@dataclass
class ComingBack:
    """Makes lists.

    Attributes:
        repeat: how much the past of a user counts.
        train: what users had.
        seconds: when, Unix seconds in the order of `Ratings.coo`.
        lifts: float32 (I,), what is added to the scores of items; None: nothing.
    """

    repeat: Repeat
    train: gpu.Ratings
    seconds: NDArray[np.float64]
    lifts: NDArray[np.float32] | None

    @classmethod
    def of(
        cls, model: gpu.Model, train: gpu.Ratings, times: gpu.Times | None, lifts: NDArray[np.float32] | None
    ) -> ComingBack | None:
        """None if the lists of `model` leave out what users had."""
        repeat = model.calibration.repeat
        return (
            None if repeat is None or not repeat.weight or times is None else cls(repeat, train, times.seconds, lifts)
        )

    def listing(self, index: ItemIndex, rows: Rows, *, has_past: bool) -> Listing:
        """The best of all items; `has_past`: with the part of the own past in scores."""

        def listed(users: NDArray[np.int64], k: int) -> NDArray[np.int32]:
            of_users, had = topn.users_of(index.model, users), topn.rows_of(rows, users)
            if has_past:
                return recommend(index, of_users, had, list(map(self._own, users.tolist())), k)[0]
            return topn.recommend(index, of_users, had, k, include_seen=True)[0]

        return listed

    def baselines(self, index: ItemIndex, rows: Rows) -> dict[str, Listing]:
        """By prefix of their figures: what the model lists if all that users had stays out; and what each user had
        most often, the newest first among equals, and then the most popular items.
        """
        popular = np.argsort(-self.train.by_item.lengths, kind="stable").astype(np.int32)

        def new(users: NDArray[np.int64], k: int) -> NDArray[np.int32]:
            return topn.recommend(index, topn.users_of(index.model, users), topn.rows_of(rows, users), k)[0]

        def counts(users: NDArray[np.int64], k: int) -> NDArray[np.int32]:
            lists = np.full((len(users), k), -1, dtype=np.int32)
            for n, user in enumerate(users.tolist()):
                items, values, seconds = self._had(user)
                most = items[np.lexsort((-seconds, -amounts(values)))][:k]
                rest = popular[: k + len(items)]
                best = np.append(most, rest[~np.isin(rest, items)])[:k]
                lists[n, : len(best)] = best
            return lists

        return {"new_": new, "counts_": counts}

    def _had(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]]:
        rows = self.train.by_user
        own = slice(rows.starts[user], rows.starts[user] + rows.lengths[user])
        return rows.items[own], rows.values[own], self.seconds[own]

    def _own(self, user: int) -> Own:
        items, values, seconds = self._had(user)
        parts, comes = parts_of(self.repeat, values, seconds), amounts(values) > 0
        return Own(items[comes], (parts if self.lifts is None else parts + self.lifts[items])[comes])
