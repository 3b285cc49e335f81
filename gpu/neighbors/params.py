"""Hyperparameters of neighbors, with every default."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from gpu.data.param_kinds import Params, RefitKind, Values

# (α, h, β), the default first. Measured on held-out parts of the training parts of nine sets (docs/decisions/0118).
SETTINGS = (0.5, 100.0, 0.5), (0.5, 5.0, 1.0), (0.3, 5.0, 1.0), (0.9, 0.0, 0.5)
POPULARITIES = (0.3, 5.0), (0.3, 20.0), (0.5, 5.0), (0.5, 20.0), (0.5, 100.0), (0.75, 0.0), (0.9, 0.0)
NAMES = "popularity_exponent", "popularity_prior", "activity_exponent"


def _named(*settings: tuple[float, float, float]) -> tuple[Mapping[str, float], ...]:
    return tuple(dict(zip(NAMES, setting, strict=True)) for setting in settings)


@dataclass(frozen=True)
class NeighborsParams(Params):
    """Lists of items that are liked together (`gpu.hashing.cooccurrence`); users have no factors, only ratings.

    Attributes (beyond `Params`):
        n_neighbors: L, items that each item lists, those of the largest weights. It takes 8 bytes for each. More reach
            further and take longer to read.
        popularity_exponent, popularity_prior: α and h; a weight is multiplied by (d + h)^(α−1) for both items, where d
            is the number of ratings. A larger α or h favors popular items. None: 0.5 and 100. If both and
            `activity_exponent` are None, others replace them that are clearly better on held-out pairs of the training
            ratings (`gpu.training.selection`).
        activity_exponent: β; a user of n likes counts n^−β for each pair of them. 0 counts all users the same. None:
            0.5, or chosen as above.
        max_likes: users with more likes count for no pair: one adds at most the square of it to the time.
        values: as in `AlsImplicitParams`.
    """

    algorithm: ClassVar[str] = "neighbors"
    has_values: ClassVar[bool] = True
    is_implicit: ClassVar[bool] = True
    has_item_weights: ClassVar[bool] = True
    has_item_lists: ClassVar[bool] = True
    refits: ClassVar[RefitKind] = "lists"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"n_neighbors": (1, 1024)}
    open_settings: ClassVar[tuple[Mapping[str, float], ...]] = _named(*SETTINGS)
    grid: ClassVar[tuple[Mapping[str, float], ...]] = _named(
        *((*popularity, activity) for popularity in POPULARITIES for activity in (0.5, 1.0))
    )

    n_neighbors: int = 500
    popularity_exponent: float | None = None
    popularity_prior: float | None = None
    activity_exponent: float | None = None
    max_likes: int = 1000
    values: Values = "auto"

    def sized(self) -> Self:
        """See `Params.sized`."""
        firsts = self.open_settings[0].items()
        missing: dict[str, Any] = {name: value for name, value in firsts if getattr(self, name) is None}
        return dataclasses.replace(self, **missing)
