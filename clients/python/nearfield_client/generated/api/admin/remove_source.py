from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...models.removed_source import RemovedSource
from ...types import UNSET, Response, Unset


def _get_kwargs(
    source: str,
    *,
    key: str | Unset = UNSET,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["key"] = key

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/admin/sources/{source}".format(
            source=quote(str(source), safe=""),
        ),
        "params": params,
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> ProblemDocument | RemovedSource | None:
    if response.status_code == 202:
        response_202 = RemovedSource.from_dict(response.json())

        return response_202

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
) -> Response[ProblemDocument | RemovedSource]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    source: str,
    *,
    client: AuthenticatedClient,
    key: str | Unset = UNSET,
) -> Response[ProblemDocument | RemovedSource]:
    """Remove Source

     Forget how far a source has come, if it has: its next batch counts, whatever its offset is.

    Args:
        source (str): Percent-encoded, so any character may occur in it.
        key (str | Unset): Only the source of this key, as the list names it; empty: of none.
            Default: of every key.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | RemovedSource]
    """

    kwargs = _get_kwargs(
        source=source,
        key=key,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    source: str,
    *,
    client: AuthenticatedClient,
    key: str | Unset = UNSET,
) -> ProblemDocument | RemovedSource | None:
    """Remove Source

     Forget how far a source has come, if it has: its next batch counts, whatever its offset is.

    Args:
        source (str): Percent-encoded, so any character may occur in it.
        key (str | Unset): Only the source of this key, as the list names it; empty: of none.
            Default: of every key.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | RemovedSource
    """

    return sync_detailed(
        source=source,
        client=client,
        key=key,
    ).parsed


async def asyncio_detailed(
    source: str,
    *,
    client: AuthenticatedClient,
    key: str | Unset = UNSET,
) -> Response[ProblemDocument | RemovedSource]:
    """Remove Source

     Forget how far a source has come, if it has: its next batch counts, whatever its offset is.

    Args:
        source (str): Percent-encoded, so any character may occur in it.
        key (str | Unset): Only the source of this key, as the list names it; empty: of none.
            Default: of every key.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | RemovedSource]
    """

    kwargs = _get_kwargs(
        source=source,
        key=key,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    source: str,
    *,
    client: AuthenticatedClient,
    key: str | Unset = UNSET,
) -> ProblemDocument | RemovedSource | None:
    """Remove Source

     Forget how far a source has come, if it has: its next batch counts, whatever its offset is.

    Args:
        source (str): Percent-encoded, so any character may occur in it.
        key (str | Unset): Only the source of this key, as the list names it; empty: of none.
            Default: of every key.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | RemovedSource
    """

    return (
        await asyncio_detailed(
            source=source,
            client=client,
            key=key,
        )
    ).parsed
