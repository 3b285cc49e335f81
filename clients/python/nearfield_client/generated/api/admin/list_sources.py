from http import HTTPStatus
from typing import Any

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...models.source_list import SourceList
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["wait_for"] = wait_for

    params["n"] = n

    params["offset"] = offset

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/admin/sources",
        "params": params,
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> ProblemDocument | SourceList | None:
    if response.status_code == 200:
        response_200 = SourceList.from_dict(response.json())

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
) -> Response[ProblemDocument | SourceList]:
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
) -> Response[ProblemDocument | SourceList]:
    """List Sources

     How far each source has come; the one that advanced last comes first.

    Args:
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the newest to leave out.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | SourceList]
    """

    kwargs = _get_kwargs(
        wait_for=wait_for,
        n=n,
        offset=offset,
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
) -> ProblemDocument | SourceList | None:
    """List Sources

     How far each source has come; the one that advanced last comes first.

    Args:
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the newest to leave out.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | SourceList
    """

    return sync_detailed(
        client=client,
        wait_for=wait_for,
        n=n,
        offset=offset,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
) -> Response[ProblemDocument | SourceList]:
    """List Sources

     How far each source has come; the one that advanced last comes first.

    Args:
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the newest to leave out.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | SourceList]
    """

    kwargs = _get_kwargs(
        wait_for=wait_for,
        n=n,
        offset=offset,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
    n: int | Unset = UNSET,
    offset: int | Unset = UNSET,
) -> ProblemDocument | SourceList | None:
    """List Sources

     How far each source has come; the one that advanced last comes first.

    Args:
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the newest to leave out.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | SourceList
    """

    return (
        await asyncio_detailed(
            client=client,
            wait_for=wait_for,
            n=n,
            offset=offset,
        )
    ).parsed
