from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...models.user_neighbors import UserNeighbors
from ...types import UNSET, Response, Unset


def _get_kwargs(
    user: str,
    *,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    model: str | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["wait_for"] = wait_for

    params["n"] = n

    params["model"] = model

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/users/{user}/neighbors".format(
            user=quote(str(user), safe=""),
        ),
        "params": params,
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> ProblemDocument | UserNeighbors | None:
    if response.status_code == 200:
        response_200 = UserNeighbors.from_dict(response.json())

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
) -> Response[ProblemDocument | UserNeighbors]:
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
    n: int | Unset = UNSET,
    model: str | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Response[ProblemDocument | UserNeighbors]:
    """List User Neighbors

     The users most similar to one user.

    Args:
        user (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        model (str | Unset): Name of a live model; default: the first of `default_models`.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UserNeighbors]
    """

    kwargs = _get_kwargs(
        user=user,
        wait_for=wait_for,
        n=n,
        model=model,
        cursor=cursor,
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
    n: int | Unset = UNSET,
    model: str | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> ProblemDocument | UserNeighbors | None:
    """List User Neighbors

     The users most similar to one user.

    Args:
        user (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        model (str | Unset): Name of a live model; default: the first of `default_models`.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | UserNeighbors
    """

    return sync_detailed(
        user=user,
        client=client,
        wait_for=wait_for,
        n=n,
        model=model,
        cursor=cursor,
    ).parsed


async def asyncio_detailed(
    user: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    model: str | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Response[ProblemDocument | UserNeighbors]:
    """List User Neighbors

     The users most similar to one user.

    Args:
        user (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        model (str | Unset): Name of a live model; default: the first of `default_models`.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UserNeighbors]
    """

    kwargs = _get_kwargs(
        user=user,
        wait_for=wait_for,
        n=n,
        model=model,
        cursor=cursor,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    user: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    model: str | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> ProblemDocument | UserNeighbors | None:
    """List User Neighbors

     The users most similar to one user.

    Args:
        user (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        model (str | Unset): Name of a live model; default: the first of `default_models`.
        cursor (str | Unset): Empty: begin to read page by page. Else `next` of the page before,
            with equal parameters.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | UserNeighbors
    """

    return (
        await asyncio_detailed(
            user=user,
            client=client,
            wait_for=wait_for,
            n=n,
            model=model,
            cursor=cursor,
        )
    ).parsed
