"""The queries to the engine and their answers, with the fields of version 1 of the API. Independent of HTTP.

Ids are strings on both sides. The API layer adds `OfRequest` to a recommendation. Queries have tags,
so that a front process can send them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType
from pydantic import Field

from service.engine.queries.catalog_queries import CatalogAnswer, CatalogQuery
from service.engine.queries.columns import Ids, ListColumns
from service.engine.queries.document_queries import DocumentAnswer, DocumentQuery
from service.engine.queries.forms import (
    MAX_CURSOR,
    MAX_EXPLORE_BELOW,
    Boosts,
    Count,
    Filter,
    Form,
    Id,
    LimitPerTag,
    ManyIds,
    ModelName,
    Newest,
    Offset,
    Pins,
    Rotate,
    SeenTypes,
    SomeIds,
    Users,
)
from service.engine.queries.quality_queries import GetQuality, QualityReport
from service.engine.queries.rating_queries import RatingAnswer, RatingQuery
from service.engine.queries.source_queries import SourceAnswer, SourceQuery

Fallback = Literal["popular", "trending", "latest", "none", "attributes"]
Repeat = Literal["auto", "never", "allow"]
AskedFallback = Literal["auto", "popular", "trending", "latest", "none"]


class Items(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for a page of items.

    Attributes:
        n: items of the page.
        exclude: ids never to show.
        filter: canonical text of a `filter_tree`: only items that pass it are ranked; None ranks all.
        available: whether to leave out items that are not available now.
        with_: what each line has beside its item: its title, if there is one.
        cursor: of the page before, empty for the first page: the answer has `next`. See `service.engine.lists.cursors`.
    """

    n: Count = 10
    exclude: Annotated[
        Sequence[str], Form(ManyIds), Field(description="Items never to show; repeat the parameter for several.")
    ] = ()
    filter: Annotated[str | None, Form(Filter | None)] = None
    available: Annotated[bool, Field(description="Whether to leave out items that are not available now.")] = True
    with_: Annotated[
        Literal["title"] | None, Field(alias="with", description="Add to each item its title, if it has one.")
    ] = None
    cursor: Annotated[
        str | None,
        Field(
            max_length=MAX_CURSOR,
            description="Empty: begin to read page by page. Else `next` of the page before, with equal parameters.",
        ),
    ] = None


class Ranked(Items, frozen=True, kw_only=True):
    """Asks for a slice of a ranked list.

    Attributes:
        offset: number of the best items before the page.
        min_ratings: fewest ratings that a shown item has at present.
    """

    offset: Offset = 0
    min_ratings: Annotated[
        int, Field(ge=0, description="Show only items that have at least this many ratings now.")
    ] = 0


class LatestItems(Ranked, frozen=True, kw_only=True, tag=True):
    """Asks for the items that were published or first named last."""


class Popular(Ranked, frozen=True, kw_only=True, tag=True):
    """Asks for the most popular items.

    `half_life` names one of the setting `half_lives`, in which ratings and events lose half their weight; None: never.
    """

    half_life: Annotated[
        str | None,
        Field(max_length=8, description="One of the setting `half_lives`: what is one half-life older counts half."),
    ] = None


class Ruled(Ranked, frozen=True, kw_only=True):
    """Asks for a slice of a list with rules; see `service.engine.queries.rules`.

    Attributes:
        candidates: the only ids to rank; None ranks all.
        include_seen: whether items that the user has rated may be shown.
        explore: share of the places that `service.engine.lists.exploration` gives to items with fewer than
            `explore_below` ratings; fallbacks have none.
        boosts: (text of a filter, number): what items that pass it get added to their scores.
        pins: (item, place from 1 in the list that begins at offset 0): items at fixed places, if they may be shown.
        max_per: (tag, number): the most items with the same value of the tag.
        diversity: 0 to 1, see `gpu.ranking.diversity.reordered`.
        rotate: (half-life in seconds, number): items that the user was only shown are listed too, and each showing
            lowers the score by the number, by half of it after the half-life. See `service.engine.lists.rotation`.
    """

    candidates: Annotated[
        Sequence[str] | None, Form(ManyIds | None), Field(description="The only items to rank; default: all.")
    ] = None
    include_seen: Annotated[bool, Field(description="Whether items that the user rated may be shown.")] = False
    explore: Annotated[float, Field(ge=0, le=1, description="Share of places for items with few ratings.")] = 0.0
    explore_below: Annotated[
        int, Field(ge=1, le=MAX_EXPLORE_BELOW, description="They have fewer ratings than this.")
    ] = 10
    boosts: Annotated[Sequence[tuple[str, float]], Form(Boosts)] = ()
    pins: Annotated[Sequence[tuple[str, int]], Form(Pins)] = ()
    max_per: Annotated[
        tuple[str, int] | None,
        Form(LimitPerTag | None),
        Field(description="A limit for items with the same value of a tag."),
    ] = None
    diversity: Annotated[
        float, Field(ge=0, le=1, description="How much unlike items come first; 0 keeps the order of the scores.")
    ] = 0.0
    rotate: Annotated[tuple[float, float] | None, Form(Rotate | None)] = None


class Recommend(Ruled, frozen=True, kw_only=True, tag=True):
    """Asks for the best items for one user, several, or an anonymous one.

    Set `user`, `users`, or `ratings` and `events`, perhaps with `user`.

    Attributes:
        user: id of one user; the answer is a `Recommendation`.
        users: ids of several; the answer is a list of `Recommendation` in this order. If they are `Ids`, the query has
            no other field than `n`, `offset` and `model`, and the answer is `ListColumns`.
        ratings: (item, rating) pairs of an anonymous user, the newest last; or ratings that `user` has over the stored
            ones, where None removes one. Nothing is stored.
        timestamps: Unix seconds of `ratings`; None, of all or of one: now.
        events: (item, type, value, Unix seconds or None for now) of further events of the same user; nothing is stored.
        order_half_life: newer ratings of the user after which one counts half, for models that weigh ratings.
        model: name of a live model; None takes the first live one of the setting `default_models`.
        experiment: id of an experiment; the arm of each user names the model.
        repeat: whether what the user had may come back: `allow`, `never`, or `auto`, if the model has learned that it
            does. `include_seen` allows it too. None: the setting `repeat`.
        seen_types: with these, the list leaves out what the user has events of these types with, or has rated
            (`rating`), and nothing else that the user had, but for dislikes. Empty: the setting `seen_types`.
        explain: whether each item carries the rated items that contribute most to its score.
        fallback: the list for users whom the model does not know: popular, trending (by the half-life of the model's
            trend, or the first one of the setting) or latest items. `auto`: trending ones if the times of ratings and
            events are spread over two half-lives, else popular ones. `none` raises `UnknownUser` for an unknown one,
            and popular items answer for all others.
        of_scenario: name and `stream_id` of the scenario that some of these fields come from; `StaleScenario` if it
            was put again or removed since.
    """

    user: str | None = None
    users: Annotated[Sequence[str] | Ids | None, Form(Users)] = None
    ratings: Sequence[tuple[str, float | None]] | None = None
    timestamps: Sequence[float | None] | None = None
    events: Sequence[tuple[str, str, float, float | None]] | None = None
    order_half_life: Annotated[
        float | None,
        Field(gt=0, le=1e6, description="Newer ratings after which a rating weighs half; default: all weigh alike."),
    ] = None
    model: ModelName = None
    experiment: Annotated[
        str | None, Form(Id | None), Field(description="Experiment whose arm for the user names the model.")
    ] = None
    repeat: Annotated[
        Repeat | None,
        Field(
            description="Whether what the user had may be shown again; auto: where users are seen to come back. "
            "Default: the setting `repeat`."
        ),
    ] = None
    seen_types: Annotated[
        Sequence[str],
        Form(SeenTypes),
        Field(
            description="Leave out only what the user has events of these types with, or has rated (rating). "
            "Default: the setting `seen_types`."
        ),
    ] = ()
    explain: Annotated[bool, Field(description="Add to each item the ratings that most raise its score.")] = False
    fallback: Annotated[
        AskedFallback,
        Field(
            description="For an unknown user: popular, trending or latest items, or none (404). "
            "auto: by attributes of the user if the model can, else trending items where ratings have times, else "
            "popular ones."
        ),
    ] = "auto"
    of_scenario: tuple[str, str] | None = None

    @property
    def is_imagined(self) -> bool:
        """Whether the list is of a user as if the ratings or the events were others."""
        return not (self.ratings is None and self.events is None and self.order_half_life is None)


class Neighbors(Items, frozen=True, kw_only=True, tag=True):
    """Asks for the items or users most similar to the one with `id`; `model` as in `Recommend`."""

    kind: Literal["item", "user"]
    id: str
    model: ModelName = None


class SetNeighbors(Items, frozen=True, kw_only=True, tag=True):
    """Asks for the items most similar to those of `items` together; `model` as in `Recommend`."""

    items: Annotated[Sequence[str], Form(SomeIds)]
    model: ModelName = None


class ItemUsers(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Asks for the users who would like `item` most, of those who pass the filter; `model` as in `Recommend`.

    The filter is of attributes of users.
    """

    item: str
    n: Count = 100
    model: ModelName = None
    filter: str | None = None


class Estimate(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Asks how `user` would rate `item`; without `model` the first live model that estimates ratings answers.

    An id without ratings counts as average, and the answer has a warning.
    """

    user: str
    item: str
    model: ModelName = None


class UserRatings(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Asks for `n` ratings of `user` after the `offset` newest, newest first."""

    user: str
    n: Count = 100
    offset: Newest = 0


class UserEvents(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Asks for `n` items of events of `user` after the `offset` newest, newest first."""

    user: str
    n: Count = 100
    offset: Newest = 0


OfRatings = UserRatings | UserEvents | RatingQuery
OfModels = Recommend | Neighbors | SetNeighbors | ItemUsers | Estimate | GetQuality
Query = OfModels | Popular | LatestItems | OfRatings | CatalogQuery | DocumentQuery | SourceQuery


class Reason(Struct, gc=False):
    """A rated item and its contribution to the explained score."""

    item: str
    contribution: float


class ScoredItem(Struct, omit_defaults=True):
    """One line of a list; lists are ordered by `score`, except for items with a source.

    Attributes:
        score: with the boost; None for a pin, which is not ranked.
        estimate: the estimated rating, as in `GET /estimate`; only of models that estimate ratings.
        boost: the part of the score that comes from boosts and showings; only if the query has `boosts` or `rotate`.
        trend: the part of the score that comes from what is popular now; only with `explain`, if the model adds any.
        again: the part that comes from how often and when the user had the item; only with `explain`, if the model adds
            any.
        title: of the item; only with `with=title`, and if it has one.
        source: why the item is at its place, if not for its score alone: to be explored, or as a pin.
    """

    item: str
    score: float | None
    estimate: float | UnsetType = UNSET
    reasons: list[Reason] | UnsetType = UNSET
    boost: float | UnsetType = UNSET
    trend: float | UnsetType = UNSET
    again: float | UnsetType = UNSET
    source: Literal["explore", "pin"] | UnsetType = UNSET
    title: str | UnsetType = UNSET


class ScoredUser(Struct, gc=False):
    """One line of a list of users."""

    user: str
    score: float


class Recommendation(Struct):
    """A list for one user; `user` is None for an anonymous one.

    Attributes:
        experiment, arm, recommendation_id: only in an experiment whose arm has answered; events bring the id back.
        eligible: items that pass the filter and may be shown; only if there is a filter.
        next: the cursor of the next page, null after the last one; only if the query has a cursor.
    """

    user: str | None
    items: list[ScoredItem]
    personalized: bool
    model: str | None
    model_version: str | None
    as_of: str
    warnings: list[str]
    fallback: Fallback | UnsetType = UNSET
    eligible: int | UnsetType = UNSET
    next: str | UnsetType | None = UNSET
    experiment: str | UnsetType = UNSET
    arm: str | UnsetType = UNSET
    recommendation_id: str | UnsetType = UNSET


class OfRequest(Struct):
    """What a `Recommendation` gets over HTTP besides: only who answers the request knows it."""

    took_ms: float = 0.0
    request_id: str = ""


class ItemNeighbors(Struct):
    """Items most similar to `item`.

    Attributes:
        neighbors: `score` is the share of equal signature bits, the partial correlation (`ease`), the weight of what is
            liked together (`neighbors`), or the cosine of the factors.
        eligible: as in `Recommendation`.
    """

    item: str
    neighbors: list[ScoredItem]
    model: str
    model_version: str
    as_of: str
    eligible: int | UnsetType = UNSET
    next: str | UnsetType | None = UNSET


class NeighborsOfSet(Struct):
    """Items most similar to those of a set, which are left out.

    Attributes:
        neighbors: `score` is the mean of the scores in `ItemNeighbors` over the items of the set that have any.
        warnings: the unknown items of the set.
        eligible: as in `Recommendation`.
    """

    neighbors: list[ScoredItem]
    model: str
    model_version: str
    as_of: str
    warnings: list[str]
    eligible: int | UnsetType = UNSET
    next: str | UnsetType | None = UNSET


class UserNeighbors(Struct):
    """Users most similar to `user`; `score` is the cosine of the factors, for `ease` of likes and dislikes."""

    user: str
    neighbors: list[ScoredUser]
    model: str
    model_version: str
    as_of: str
    next: str | UnsetType | None = UNSET


class UsersOfItem(Struct):
    """The users who would like `item` most, of those with ratings who have not seen it.

    Attributes:
        users: `score` is the one before it becomes an estimate: it compares users for one item.
        warnings: why there are none, if the model knows nothing of the item.
        eligible: users who pass the filter; only if there is one.
    """

    item: str
    users: list[ScoredUser]
    model: str
    model_version: str
    as_of: str
    warnings: list[str]
    eligible: int | UnsetType = UNSET


class RatingEstimate(Struct):
    """`estimate` is a rating within the scale of the training, or a probability for an implicit model.

    Attributes:
        personalized: whether the user has rated an item that the model was trained on.
        warnings: the ids without ratings, which count as average.
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
    """Popular or latest items; `eligible` as in `Recommendation`."""

    items: list[ScoredItem]
    as_of: str
    warnings: list[str]
    eligible: int | UnsetType = UNSET
    next: str | UnsetType | None = UNSET


class Rating(Struct, gc=False):
    """One stored rating; `timestamp` in Unix seconds."""

    item: str
    rating: float
    timestamp: float


class RatingsOfUser(Struct):
    """A page of the ratings of a user; `n_ratings` is the number of all ratings of the user."""

    user: str
    n_ratings: int
    ratings: list[Rating]
    as_of: str


class EventsOfItem(Struct, gc=False):
    """What the events of a user with one item add up to.

    Attributes:
        strength: the sum of their weights, each times its value; 0: the item was only seen. Below 0: a dislike.
        timestamp: Unix seconds of the newest of them that say more than that the item was seen; null without any.
    """

    item: str
    strength: float
    timestamp: float | None


class EventsOfUser(Struct):
    """A page of the items that a user has events of, newest first; `n_items` is the number of all of these items."""

    user: str
    n_items: int
    events: list[EventsOfItem]
    as_of: str


Answer = (
    Recommendation
    | list[Recommendation]
    | ListColumns
    | ItemNeighbors
    | NeighborsOfSet
    | UserNeighbors
    | UsersOfItem
    | RatingEstimate
    | PopularItems
    | RatingsOfUser
    | EventsOfUser
    | RatingAnswer
    | CatalogAnswer
    | DocumentAnswer
    | SourceAnswer
    | QualityReport
)
