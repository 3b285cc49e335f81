"""Hyperparameters of next, with every default."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from gpu.data.param_kinds import Params, Values

# What `tune` tries: τ, c and λ
GRID = tuple(
    {"decay_items": decay, "old_weight": weight, "regularization": ridge}
    for decay, weight, ridge in itertools.product((1.5, 3.0, 5.0, 10.0), (0.0, 0.05), (1.5, 5.0, 12.0))
)


@dataclass(frozen=True)
class NextParams(Params):
    """Next: what a user meets next, from the order of the last items, in closed form (`gpu.next.trainer`).

    It needs the times of ratings. A rating of any size says that the user has met the item. None: chosen by how well it
    predicts the last item of each user, after a training without these.

    Attributes (beyond `Params`):
        regularization: λ, in multiples of the mean of the diagonal of XᵀX. A larger λ trusts rare transitions less.
        decay_items: τ; what an item weighs falls by a factor of e with τ newer ones. A small τ follows the last items.
        old_weight: c, what an item weighs however many newer ones there are, beside 1 for the newest.
        window: K, newest items of a user that count. A training takes time in proportion.
        values: as in `AlsImplicitParams`.
    """

    algorithm: ClassVar[str] = "next"
    has_values: ClassVar[bool] = True
    is_implicit: ClassVar[bool] = True
    has_item_weights: ClassVar[bool] = True
    is_ordered: ClassVar[bool] = True

    start: ClassVar[Mapping[str, float]] = {"decay_items": 5.0, "old_weight": 0.05, "regularization": 5.0}
    grid: ClassVar[tuple[Mapping[str, float], ...]] = GRID

    regularization: float | None = None
    decay_items: float | None = None
    old_weight: float | None = None
    window: int = 300
    values: Values = "auto"

    def sized(self) -> Self:
        """See `Params.sized`: the numbers of `start`, which served best on other data."""
        numbers: dict[str, Any] = {name: one for name, one in self.start.items() if getattr(self, name) is None}
        return replace(self, **numbers)
