"""The query for the tests of a model before it learns, and the answer. Independent of HTTP."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Measure = Literal["rmse", "hit_rate"]
Span = Literal["window", "decayed", "all"]
REASONS = "new_user", "new_item", "repeated", "no_like"
BASELINES: dict[Measure, str] = {"rmse": "user_mean", "hit_rate": "popularity"}


class QualityResult(Struct):
    """Means over `n` results: of the model, and of the baseline in the same tests. Null without results."""

    n: int
    value: float | None
    baseline: float | None


class QualityPoint(Struct):
    """A point of the curve: means over its own results alone.

    Attributes:
        as_of: the last entry whose ratings were tested.
        model_version: the version that was tested last.
    """

    as_of: str
    model_version: str
    n: int
    value: float
    baseline: float


class QualityReport(Struct):
    """How well a model foretold ratings and events before it learned them.

    Attributes:
        measure: `rmse` of estimated ratings, or `hit_rate`: the share of items among the first ten of a hundred.
        baseline: what `baseline` numbers are: the mean of the user's ratings, or the most popular items.
        since: the last entry before the first test of this process.
        window, decayed, all: the last results; all with the weight halved every thousand; all alike.
        untested: sampled ratings and events that were no test: of users or items that the model does not know, of pairs
            that it has learned before, and those that say nothing of what it foretells (dislikes, views, deletions).
        curve: from the oldest point to the newest.
    """

    model: str
    model_version: str
    algorithm: str
    measure: Measure
    baseline: str
    since: str
    window: QualityResult
    decayed: QualityResult
    all: QualityResult
    untested: dict[str, int]
    curve: list[QualityPoint]
    as_of: str


class GetQuality(Struct, frozen=True, kw_only=True, tag=True):
    """Asks for the `QualityReport` of a live model."""

    model: str
