from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...models.recommend_user_fallback import (
    RecommendUserFallback,
)
from ...models.recommend_user_filter import RecommendUserFilter
from ...models.recommendation import Recommendation
from ...types import UNSET, Response, Unset


def _get_kwargs(
    user: str,
    *,
    wait_for: str | Unset = UNSET,
    scenario: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    exclude: list[str] | Unset = UNSET,
    include_seen: bool | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    model: str | Unset = UNSET,
    experiment: str | Unset = UNSET,
    explain: bool | Unset = UNSET,
    fallback: RecommendUserFallback | Unset = UNSET,
    explore: float | Unset = UNSET,
    explore_below: int | Unset = UNSET,
    diversity: float | Unset = UNSET,
    available: bool | Unset = UNSET,
    cursor: str | Unset = UNSET,
    rotate: str | Unset = UNSET,
    filter_: RecommendUserFilter | Unset = UNSET,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["wait_for"] = wait_for

    params["scenario"] = scenario

    params["n"] = n

    params["offset"] = offset

    json_exclude: list[str] | Unset = UNSET
    if not isinstance(exclude, Unset):
        json_exclude = exclude

    params["exclude"] = json_exclude

    params["include_seen"] = include_seen

    params["min_ratings"] = min_ratings

    params["model"] = model

    params["experiment"] = experiment

    params["explain"] = explain

    json_fallback: str | Unset = UNSET
    if not isinstance(fallback, Unset):
        json_fallback = fallback

    params["fallback"] = json_fallback

    params["explore"] = explore

    params["explore_below"] = explore_below

    params["diversity"] = diversity

    params["available"] = available

    params["cursor"] = cursor

    params["rotate"] = rotate

    json_filter_: dict[str, Any] | Unset = UNSET
    if not isinstance(filter_, Unset):
        json_filter_ = filter_.to_dict()
    if not isinstance(json_filter_, Unset):
        params.update(json_filter_)

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/recommend/{user}".format(
            user=quote(str(user), safe=""),
        ),
        "params": params,
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> ProblemDocument | Recommendation | None:
    if response.status_code == 200:
        response_200 = Recommendation.from_dict(response.json())

        return response_200

    if response.status_code == 400:
        response_400 = ProblemDocument.from_dict(response.json())

        return response_400

    if response.status_code == 401:
        response_401 = ProblemDocument.from_dict(response.json())

        return response_401

    if response.status_code == 403:
        response_403 = ProblemDocument.from_dict(response.json())

        return response_403

    if response.status_code == 404:
        response_404 = ProblemDocument.from_dict(response.json())

        return response_404

    if response.status_code == 410:
        response_410 = ProblemDocument.from_dict(response.json())

        return response_410

    if response.status_code == 413:
        response_413 = ProblemDocument.from_dict(response.json())

        return response_413

    if response.status_code == 414:
        response_414 = ProblemDocument.from_dict(response.json())

        return response_414

    if response.status_code == 415:
        response_415 = ProblemDocument.from_dict(response.json())

        return response_415

    if response.status_code == 422:
        response_422 = ProblemDocument.from_dict(response.json())

        return response_422

    if response.status_code == 429:
        response_429 = ProblemDocument.from_dict(response.json())

        return response_429

    if response.status_code == 500:
        response_500 = ProblemDocument.from_dict(response.json())

        return response_500

    if response.status_code == 503:
        response_503 = ProblemDocument.from_dict(response.json())

        return response_503

    if client.raise_on_unexpected_status:
        raise errors.UnexpectedStatus(response.status_code, response.content)
    else:
        return None


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[ProblemDocument | Recommendation]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    user: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    scenario: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    exclude: list[str] | Unset = UNSET,
    include_seen: bool | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    model: str | Unset = UNSET,
    experiment: str | Unset = UNSET,
    explain: bool | Unset = UNSET,
    fallback: RecommendUserFallback | Unset = UNSET,
    explore: float | Unset = UNSET,
    explore_below: int | Unset = UNSET,
    diversity: float | Unset = UNSET,
    available: bool | Unset = UNSET,
    cursor: str | Unset = UNSET,
    rotate: str | Unset = UNSET,
    filter_: RecommendUserFilter | Unset = UNSET,
) -> Response[ProblemDocument | Recommendation]:
    """Recommend User

     The best items for one user.

    Args:
        user (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        scenario (str | Unset): Its body counts where the request names no field itself.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the best to leave out.
        exclude (list[str] | Unset): Items never to show; repeat the parameter for several.
        include_seen (bool | Unset): Whether items that the user rated may be shown.
        min_ratings (int | Unset): Show only items that have at least this many ratings now.
        model (str | Unset): Name of a live model; default: the first of `default_models`.
        experiment (str | Unset): Experiment whose arm for the user names the model.
        explain (bool | Unset): Add to each item the ratings that most raise its score.
        fallback (RecommendUserFallback | Unset): For an unknown user: popular, trending or latest
            items, or none (404).
        explore (float | Unset): Share of places for items with few ratings.
        explore_below (int | Unset): They have fewer ratings than this.
        diversity (float | Unset): How much unlike items come first; 0 keeps the order of the
            scores.
        available (bool | Unset): Whether to leave out items that are not available now.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.
        rotate (str | Unset): Show again what was only shown, lowered for each showing by 1, half
            after this.
        filter_ (RecommendUserFilter | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | Recommendation]
    """

    kwargs = _get_kwargs(
        user=user,
        wait_for=wait_for,
        scenario=scenario,
        n=n,
        offset=offset,
        exclude=exclude,
        include_seen=include_seen,
        min_ratings=min_ratings,
        model=model,
        experiment=experiment,
        explain=explain,
        fallback=fallback,
        explore=explore,
        explore_below=explore_below,
        diversity=diversity,
        available=available,
        cursor=cursor,
        rotate=rotate,
        filter_=filter_,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    user: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    scenario: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    exclude: list[str] | Unset = UNSET,
    include_seen: bool | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    model: str | Unset = UNSET,
    experiment: str | Unset = UNSET,
    explain: bool | Unset = UNSET,
    fallback: RecommendUserFallback | Unset = UNSET,
    explore: float | Unset = UNSET,
    explore_below: int | Unset = UNSET,
    diversity: float | Unset = UNSET,
    available: bool | Unset = UNSET,
    cursor: str | Unset = UNSET,
    rotate: str | Unset = UNSET,
    filter_: RecommendUserFilter | Unset = UNSET,
) -> ProblemDocument | Recommendation | None:
    """Recommend User

     The best items for one user.

    Args:
        user (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        scenario (str | Unset): Its body counts where the request names no field itself.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the best to leave out.
        exclude (list[str] | Unset): Items never to show; repeat the parameter for several.
        include_seen (bool | Unset): Whether items that the user rated may be shown.
        min_ratings (int | Unset): Show only items that have at least this many ratings now.
        model (str | Unset): Name of a live model; default: the first of `default_models`.
        experiment (str | Unset): Experiment whose arm for the user names the model.
        explain (bool | Unset): Add to each item the ratings that most raise its score.
        fallback (RecommendUserFallback | Unset): For an unknown user: popular, trending or latest
            items, or none (404).
        explore (float | Unset): Share of places for items with few ratings.
        explore_below (int | Unset): They have fewer ratings than this.
        diversity (float | Unset): How much unlike items come first; 0 keeps the order of the
            scores.
        available (bool | Unset): Whether to leave out items that are not available now.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.
        rotate (str | Unset): Show again what was only shown, lowered for each showing by 1, half
            after this.
        filter_ (RecommendUserFilter | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | Recommendation
    """

    return sync_detailed(
        user=user,
        client=client,
        wait_for=wait_for,
        scenario=scenario,
        n=n,
        offset=offset,
        exclude=exclude,
        include_seen=include_seen,
        min_ratings=min_ratings,
        model=model,
        experiment=experiment,
        explain=explain,
        fallback=fallback,
        explore=explore,
        explore_below=explore_below,
        diversity=diversity,
        available=available,
        cursor=cursor,
        rotate=rotate,
        filter_=filter_,
    ).parsed


async def asyncio_detailed(
    user: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    scenario: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    exclude: list[str] | Unset = UNSET,
    include_seen: bool | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    model: str | Unset = UNSET,
    experiment: str | Unset = UNSET,
    explain: bool | Unset = UNSET,
    fallback: RecommendUserFallback | Unset = UNSET,
    explore: float | Unset = UNSET,
    explore_below: int | Unset = UNSET,
    diversity: float | Unset = UNSET,
    available: bool | Unset = UNSET,
    cursor: str | Unset = UNSET,
    rotate: str | Unset = UNSET,
    filter_: RecommendUserFilter | Unset = UNSET,
) -> Response[ProblemDocument | Recommendation]:
    """Recommend User

     The best items for one user.

    Args:
        user (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        scenario (str | Unset): Its body counts where the request names no field itself.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the best to leave out.
        exclude (list[str] | Unset): Items never to show; repeat the parameter for several.
        include_seen (bool | Unset): Whether items that the user rated may be shown.
        min_ratings (int | Unset): Show only items that have at least this many ratings now.
        model (str | Unset): Name of a live model; default: the first of `default_models`.
        experiment (str | Unset): Experiment whose arm for the user names the model.
        explain (bool | Unset): Add to each item the ratings that most raise its score.
        fallback (RecommendUserFallback | Unset): For an unknown user: popular, trending or latest
            items, or none (404).
        explore (float | Unset): Share of places for items with few ratings.
        explore_below (int | Unset): They have fewer ratings than this.
        diversity (float | Unset): How much unlike items come first; 0 keeps the order of the
            scores.
        available (bool | Unset): Whether to leave out items that are not available now.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.
        rotate (str | Unset): Show again what was only shown, lowered for each showing by 1, half
            after this.
        filter_ (RecommendUserFilter | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | Recommendation]
    """

    kwargs = _get_kwargs(
        user=user,
        wait_for=wait_for,
        scenario=scenario,
        n=n,
        offset=offset,
        exclude=exclude,
        include_seen=include_seen,
        min_ratings=min_ratings,
        model=model,
        experiment=experiment,
        explain=explain,
        fallback=fallback,
        explore=explore,
        explore_below=explore_below,
        diversity=diversity,
        available=available,
        cursor=cursor,
        rotate=rotate,
        filter_=filter_,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    user: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    scenario: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    exclude: list[str] | Unset = UNSET,
    include_seen: bool | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    model: str | Unset = UNSET,
    experiment: str | Unset = UNSET,
    explain: bool | Unset = UNSET,
    fallback: RecommendUserFallback | Unset = UNSET,
    explore: float | Unset = UNSET,
    explore_below: int | Unset = UNSET,
    diversity: float | Unset = UNSET,
    available: bool | Unset = UNSET,
    cursor: str | Unset = UNSET,
    rotate: str | Unset = UNSET,
    filter_: RecommendUserFilter | Unset = UNSET,
) -> ProblemDocument | Recommendation | None:
    """Recommend User

     The best items for one user.

    Args:
        user (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        scenario (str | Unset): Its body counts where the request names no field itself.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the best to leave out.
        exclude (list[str] | Unset): Items never to show; repeat the parameter for several.
        include_seen (bool | Unset): Whether items that the user rated may be shown.
        min_ratings (int | Unset): Show only items that have at least this many ratings now.
        model (str | Unset): Name of a live model; default: the first of `default_models`.
        experiment (str | Unset): Experiment whose arm for the user names the model.
        explain (bool | Unset): Add to each item the ratings that most raise its score.
        fallback (RecommendUserFallback | Unset): For an unknown user: popular, trending or latest
            items, or none (404).
        explore (float | Unset): Share of places for items with few ratings.
        explore_below (int | Unset): They have fewer ratings than this.
        diversity (float | Unset): How much unlike items come first; 0 keeps the order of the
            scores.
        available (bool | Unset): Whether to leave out items that are not available now.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.
        rotate (str | Unset): Show again what was only shown, lowered for each showing by 1, half
            after this.
        filter_ (RecommendUserFilter | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | Recommendation
    """

    return (
        await asyncio_detailed(
            user=user,
            client=client,
            wait_for=wait_for,
            scenario=scenario,
            n=n,
            offset=offset,
            exclude=exclude,
            include_seen=include_seen,
            min_ratings=min_ratings,
            model=model,
            experiment=experiment,
            explain=explain,
            fallback=fallback,
            explore=explore,
            explore_below=explore_below,
            diversity=diversity,
            available=available,
            cursor=cursor,
            rotate=rotate,
            filter_=filter_,
        )
    ).parsed
