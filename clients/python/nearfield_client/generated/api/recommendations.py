"""The operations of the tag recommendations. Made by `make clients` from the OpenAPI document of the service."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import Literal

from nearfield_client.generated.models import (
    AnonymousBody,
    ListLatestFilter,
    ListPopularFilter,
    PopularItems,
    Recommendation,
    RecommendBody,
    RecommendUserFallback,
    RecommendUserFilter,
    RecommendUserRepeat,
    UsersBody,
)
from nearfield_client.operation import operation
from nearfield_client.session import Session


@operation("GET", "/recommend/{user}")
def recommend_user(
    user: str,
    *,
    client: Session,
    wait_for: str | None = None,
    scenario: str | None = None,
    n: int | None = None,
    offset: int | None = None,
    exclude: list[str] | None = None,
    include_seen: bool | None = None,
    repeat: RecommendUserRepeat | None = None,
    seen_types: list[str] | None = None,
    min_ratings: int | None = None,
    model: str | None = None,
    experiment: str | None = None,
    explain: bool | None = None,
    fallback: RecommendUserFallback | None = None,
    explore: float | None = None,
    explore_below: int | None = None,
    diversity: float | None = None,
    with_: Literal["title"] | None = None,
    available: bool | None = None,
    cursor: str | None = None,
    rotate: str | None = None,
    filter_: RecommendUserFilter | None = None,
) -> Recommendation:
    """The best items for one user.

    Args:
        user: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        scenario: Its body counts where the request names no field itself.
        n: How many results.
        offset: How many of the best to leave out.
        exclude: Items never to show; repeat the parameter for several.
        include_seen: Whether items that the user rated may be shown.
        repeat: Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
            setting `repeat`.
        seen_types: Leave out only what the user has events of these types with, or has rated (rating). Default: the
            setting `seen_types`.
        min_ratings: Show only items that have at least this many ratings now.
        model: Name of a live model; default: the first of `default_models`.
        experiment: Experiment whose arm for the user names the model.
        explain: Add to each item the ratings that most raise its score.
        fallback: For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user
            if the model can, else trending items where ratings have times, else popular ones.
        explore: Share of places for items with few ratings.
        explore_below: They have fewer ratings than this.
        diversity: How much unlike items come first; 0 keeps the order of the scores.
        with_: Add to each item its title, if it has one.
        available: Whether to leave out items that are not available now.
        cursor: Empty: begin to read page by page. Else `next` of the page before, with equal parameters.
        rotate: Show again what was only shown, lowered for each showing by 1, half after this.
        filter_: `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`.
    """
    ...


@operation("POST", "/recommend/{user}")
def recommend_user_filtered(user: str, *, client: Session, body: RecommendBody) -> Recommendation:
    """The best items for one user, with long lists of candidates and exclusions, or as if the user had rated more.

    Args:
        user: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("POST", "/recommend")
def recommend_several(*, client: Session, body: UsersBody | AnonymousBody) -> list[Recommendation] | Recommendation:
    """The best items for each of several users, or for an anonymous user whose ratings and events are in the body."""
    ...


@operation("GET", "/popular")
def list_popular(
    *,
    client: Session,
    wait_for: str | None = None,
    n: int | None = None,
    offset: int | None = None,
    min_ratings: int | None = None,
    cursor: str | None = None,
    available: bool | None = None,
    half_life: str | None = None,
    with_: Literal["title"] | None = None,
    filter_: ListPopularFilter | None = None,
) -> PopularItems:
    """The most popular items, the same for all users.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        offset: How many of the best to leave out.
        min_ratings: Show only items that have at least this many ratings now.
        cursor: Empty: begin to read page by page. Else `next` of the page before, with equal parameters.
        available: Whether to leave out items that are not available now.
        half_life: One of the setting `half_lives`: what is one half-life older counts half.
        with_: Add to each item its title, if it has one.
        filter_: `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`.
    """
    ...


@operation("GET", "/latest")
def list_latest(
    *,
    client: Session,
    wait_for: str | None = None,
    n: int | None = None,
    offset: int | None = None,
    min_ratings: int | None = None,
    cursor: str | None = None,
    available: bool | None = None,
    with_: Literal["title"] | None = None,
    filter_: ListLatestFilter | None = None,
) -> PopularItems:
    """The latest items, by their attribute `published` or else by the first entry that named them.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        offset: How many of the best to leave out.
        min_ratings: Show only items that have at least this many ratings now.
        cursor: Empty: begin to read page by page. Else `next` of the page before, with equal parameters.
        available: Whether to leave out items that are not available now.
        with_: Add to each item its title, if it has one.
        filter_: `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`.
    """
    ...
