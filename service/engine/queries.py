"""What can be asked of the engine, and the answers: shaped as version 1 of the API, knowing nothing of HTTP.

Ids are strings on both sides. `took_ms` and `request_id` of a recommendation are left to whoever answers the client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

Fallback = Literal["popular", "none"]


class Recommend(Struct, frozen=True, kw_only=True):
    """The best items for one known user, several, or an anonymous one; set exactly one of the first three.

    Attributes:
        user: id of one user; the answer is a `Recommendation`.
        users: ids of several; the answer is a list of `Recommendation` in this order.
        ratings: (item, rating) pairs of somebody who stays anonymous; nothing is stored.
        n, offset: how many items, after how many of the best.
        exclude: ids never to show.
        candidates: the only ids to rank; None ranks all.
        include_seen: whether items that the user has rated may be shown.
        min_ratings: only items with at least so many ratings at present may be shown.
        model: name of a live model; None takes the first live one of the setting `default_models`.
        explain: whether each item carries the rated items that speak most for it.
        fallback: `popular` answers for an unknown user too, `none` raises `UnknownUser`.
    """

    user: str | None = None
    users: Sequence[str] | None = None
    ratings: Sequence[tuple[str, float]] | None = None
    n: int = 10
    offset: int = 0
    exclude: Sequence[str] = ()
    candidates: Sequence[str] | None = None
    include_seen: bool = False
    min_ratings: int = 0
    model: str | None = None
    explain: bool = False
    fallback: Fallback = "popular"


class Neighbors(Struct, frozen=True, kw_only=True):
    """The `n` items or users most like the one with `id`."""

    kind: Literal["item", "user"]
    id: str
    n: int = 10
    model: str | None = None


class Estimate(Struct, frozen=True, kw_only=True):
    """How `user` would rate `item`; without `model` the first live model that estimates ratings is asked.

    An id without ratings counts as average, and the answer says so.
    """

    user: str
    item: str
    model: str | None = None


class Popular(Struct, frozen=True, kw_only=True):
    """The most popular items, of those with at least `min_ratings` ratings."""

    n: int = 10
    offset: int = 0
    min_ratings: int = 0


class UserRatings(Struct, frozen=True, kw_only=True):
    """The newest `n` ratings of `user` behind the first `offset`, newest first."""

    user: str
    n: int = 100
    offset: int = 0


Query = Recommend | Neighbors | Estimate | Popular | UserRatings


class Reason(Struct, gc=False):
    """A rated item and what it adds to the score it explains."""

    item: str
    contribution: float


class ScoredItem(Struct, omit_defaults=True):
    """One line of a list; `score` is the number that orders it.

    Attributes:
        estimate: what the user would give the item, as of `Estimate`; of models that estimate ratings alone.
    """

    item: str
    score: float
    estimate: float | UnsetType = UNSET
    reasons: list[Reason] | UnsetType = UNSET


class ScoredUser(Struct, gc=False):
    """One line of a list of users."""

    user: str
    score: float


class Recommendation(Struct):
    """The answer to `Recommend` for one user; `user` is None for an anonymous one."""

    user: str | None
    items: list[ScoredItem]
    personalized: bool
    model: str | None
    model_version: str | None
    as_of: str
    warnings: list[str]
    fallback: Fallback | UnsetType = UNSET
    took_ms: float = 0.0
    request_id: str = ""


class ItemNeighbors(Struct):
    """Items most like `item`.

    Attributes:
        neighbors: `score` is the share of equal signature bits, the partial correlation (`ease`), or the cosine of the
            factors.
    """

    item: str
    neighbors: list[ScoredItem]
    model: str
    model_version: str
    as_of: str


class UserNeighbors(Struct):
    """Users most like `user`; `score` is the cosine of the factors, of `ease` that of likes and dislikes."""

    user: str
    neighbors: list[ScoredUser]
    model: str
    model_version: str
    as_of: str


class RatingEstimate(Struct):
    """`estimate` is a rating within the scale of the training, or a probability for an implicit model.

    Attributes:
        personalized: whether the model knows something about the user.
        warnings: which of the two ids has no ratings and was taken as average.
    """

    user: str
    item: str
    estimate: float
    personalized: bool
    model: str
    model_version: str
    as_of: str
    warnings: list[str]


class PopularItems(Struct):
    """The answer to `Popular`."""

    items: list[ScoredItem]
    as_of: str
    warnings: list[str]


class Rating(Struct, gc=False):
    """One stored rating; `timestamp` in Unix seconds."""

    item: str
    rating: float
    timestamp: float


class RatingsOfUser(Struct):
    """The answer to `UserRatings`; `n_ratings` is how many the user has in all."""

    user: str
    n_ratings: int
    ratings: list[Rating]
    as_of: str


Answer = (
    Recommendation
    | list[Recommendation]
    | ItemNeighbors
    | UserNeighbors
    | RatingEstimate
    | PopularItems
    | RatingsOfUser
)


def of_each(found: Callable[[Recommend], Any], queries: Sequence[Recommend]) -> list[Any]:
    """What is found for each query; one of several users stands there several times and is looked at once."""
    known = {id(query): query for query in queries}
    values = {name: found(query) for name, query in known.items()}
    return [values[id(query)] for query in queries]


def one_failure_fails_all(answers: list[Any]) -> Any:
    """The first exception among the answers of one query, else the answers."""
    return next((answer for answer in answers if isinstance(answer, Exception)), answers)
