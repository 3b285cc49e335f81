from http import HTTPStatus
from typing import Any

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.list_popular_filter import ListPopularFilter
from ...models.popular_items import PopularItems
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    available: bool | Unset = UNSET,
    half_life: str | Unset = UNSET,
    filter_: ListPopularFilter | Unset = UNSET,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["wait_for"] = wait_for

    params["n"] = n

    params["offset"] = offset

    params["min_ratings"] = min_ratings

    params["cursor"] = cursor

    params["available"] = available

    params["half_life"] = half_life

    json_filter_: dict[str, Any] | Unset = UNSET
    if not isinstance(filter_, Unset):
        json_filter_ = filter_.to_dict()
    if not isinstance(json_filter_, Unset):
        params.update(json_filter_)

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/popular",
        "params": params,
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> PopularItems | ProblemDocument | None:
    if response.status_code == 200:
        response_200 = PopularItems.from_dict(response.json())

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
) -> Response[PopularItems | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    available: bool | Unset = UNSET,
    half_life: str | Unset = UNSET,
    filter_: ListPopularFilter | Unset = UNSET,
) -> Response[PopularItems | ProblemDocument]:
    """List Popular

     The most popular items, the same for all users.

    Args:
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the best to leave out.
        min_ratings (int | Unset): Show only items that have at least this many ratings now.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.
        available (bool | Unset): Whether to leave out items that are not available now.
        half_life (str | Unset): One of the setting `half_lives`: what is one half-life older
            counts half.
        filter_ (ListPopularFilter | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[PopularItems | ProblemDocument]
    """

    kwargs = _get_kwargs(
        wait_for=wait_for,
        n=n,
        offset=offset,
        min_ratings=min_ratings,
        cursor=cursor,
        available=available,
        half_life=half_life,
        filter_=filter_,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    available: bool | Unset = UNSET,
    half_life: str | Unset = UNSET,
    filter_: ListPopularFilter | Unset = UNSET,
) -> PopularItems | ProblemDocument | None:
    """List Popular

     The most popular items, the same for all users.

    Args:
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the best to leave out.
        min_ratings (int | Unset): Show only items that have at least this many ratings now.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.
        available (bool | Unset): Whether to leave out items that are not available now.
        half_life (str | Unset): One of the setting `half_lives`: what is one half-life older
            counts half.
        filter_ (ListPopularFilter | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        PopularItems | ProblemDocument
    """

    return sync_detailed(
        client=client,
        wait_for=wait_for,
        n=n,
        offset=offset,
        min_ratings=min_ratings,
        cursor=cursor,
        available=available,
        half_life=half_life,
        filter_=filter_,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    available: bool | Unset = UNSET,
    half_life: str | Unset = UNSET,
    filter_: ListPopularFilter | Unset = UNSET,
) -> Response[PopularItems | ProblemDocument]:
    """List Popular

     The most popular items, the same for all users.

    Args:
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the best to leave out.
        min_ratings (int | Unset): Show only items that have at least this many ratings now.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.
        available (bool | Unset): Whether to leave out items that are not available now.
        half_life (str | Unset): One of the setting `half_lives`: what is one half-life older
            counts half.
        filter_ (ListPopularFilter | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[PopularItems | ProblemDocument]
    """

    kwargs = _get_kwargs(
        wait_for=wait_for,
        n=n,
        offset=offset,
        min_ratings=min_ratings,
        cursor=cursor,
        available=available,
        half_life=half_life,
        filter_=filter_,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
    min_ratings: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    available: bool | Unset = UNSET,
    half_life: str | Unset = UNSET,
    filter_: ListPopularFilter | Unset = UNSET,
) -> PopularItems | ProblemDocument | None:
    """List Popular

     The most popular items, the same for all users.

    Args:
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the best to leave out.
        min_ratings (int | Unset): Show only items that have at least this many ratings now.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.
        available (bool | Unset): Whether to leave out items that are not available now.
        half_life (str | Unset): One of the setting `half_lives`: what is one half-life older
            counts half.
        filter_ (ListPopularFilter | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        PopularItems | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            wait_for=wait_for,
            n=n,
            offset=offset,
            min_ratings=min_ratings,
            cursor=cursor,
            available=available,
            half_life=half_life,
            filter_=filter_,
        )
    ).parsed
