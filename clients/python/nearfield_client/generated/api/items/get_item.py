from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.item_details import ItemDetails
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    item: str,
    *,
    wait_for: str | Unset = UNSET,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["wait_for"] = wait_for

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/items/{item}".format(
            item=quote(str(item), safe=""),
        ),
        "params": params,
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> ItemDetails | ProblemDocument | None:
    if response.status_code == 200:
        response_200 = ItemDetails.from_dict(response.json())

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
) -> Response[ItemDetails | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    item: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
) -> Response[ItemDetails | ProblemDocument]:
    """Get Item

     The attributes of an item, and the number of its ratings.

    Args:
        item (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ItemDetails | ProblemDocument]
    """

    kwargs = _get_kwargs(
        item=item,
        wait_for=wait_for,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    item: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
) -> ItemDetails | ProblemDocument | None:
    """Get Item

     The attributes of an item, and the number of its ratings.

    Args:
        item (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ItemDetails | ProblemDocument
    """

    return sync_detailed(
        item=item,
        client=client,
        wait_for=wait_for,
    ).parsed


async def asyncio_detailed(
    item: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
) -> Response[ItemDetails | ProblemDocument]:
    """Get Item

     The attributes of an item, and the number of its ratings.

    Args:
        item (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ItemDetails | ProblemDocument]
    """

    kwargs = _get_kwargs(
        item=item,
        wait_for=wait_for,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    item: str,
    *,
    client: AuthenticatedClient,
    wait_for: str | Unset = UNSET,
) -> ItemDetails | ProblemDocument | None:
    """Get Item

     The attributes of an item, and the number of its ratings.

    Args:
        item (str): Percent-encoded, so any character may occur in it.
        wait_for (str | Unset): Answer only after the entry with this stream_id has been learned;
            503 after two seconds.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ItemDetails | ProblemDocument
    """

    return (
        await asyncio_detailed(
            item=item,
            client=client,
            wait_for=wait_for,
        )
    ).parsed
