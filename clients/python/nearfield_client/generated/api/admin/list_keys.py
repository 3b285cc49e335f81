from http import HTTPStatus
from typing import Any

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.key_list import KeyList
from ...models.problem_document import ProblemDocument
from ...types import Response


def _get_kwargs() -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/admin/keys",
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> KeyList | ProblemDocument | None:
    if response.status_code == 200:
        response_200 = KeyList.from_dict(response.json())

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
) -> Response[KeyList | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
) -> Response[KeyList | ProblemDocument]:
    """List Keys

     All keys that were made and not revoked, those that have expired too, without the keys themselves.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[KeyList | ProblemDocument]
    """

    kwargs = _get_kwargs()

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    *,
    client: AuthenticatedClient,
) -> KeyList | ProblemDocument | None:
    """List Keys

     All keys that were made and not revoked, those that have expired too, without the keys themselves.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        KeyList | ProblemDocument
    """

    return sync_detailed(
        client=client,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
) -> Response[KeyList | ProblemDocument]:
    """List Keys

     All keys that were made and not revoked, those that have expired too, without the keys themselves.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[KeyList | ProblemDocument]
    """

    kwargs = _get_kwargs()

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
) -> KeyList | ProblemDocument | None:
    """List Keys

     All keys that were made and not revoked, those that have expired too, without the keys themselves.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        KeyList | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
        )
    ).parsed
