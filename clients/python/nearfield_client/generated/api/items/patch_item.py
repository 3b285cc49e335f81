from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.item_patch import ItemPatch
from ...models.problem_document import ProblemDocument
from ...models.written import Written
from ...types import Response


def _get_kwargs(
    item: str,
    *,
    body: ItemPatch,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}

    _kwargs: dict[str, Any] = {
        "method": "patch",
        "url": "/items/{item}".format(
            item=quote(str(item), safe=""),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> ProblemDocument | Written | None:
    if response.status_code == 202:
        response_202 = Written.from_dict(response.json())

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
) -> Response[ProblemDocument | Written]:
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
    body: ItemPatch,
) -> Response[ProblemDocument | Written]:
    """Patch Item

     Change attributes of an item and leave the others: a JSON merge patch, in which null removes.

    Args:
        item (str): Percent-encoded, so any character may occur in it.
        body (ItemPatch):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | Written]
    """

    kwargs = _get_kwargs(
        item=item,
        body=body,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    item: str,
    *,
    client: AuthenticatedClient,
    body: ItemPatch,
) -> ProblemDocument | Written | None:
    """Patch Item

     Change attributes of an item and leave the others: a JSON merge patch, in which null removes.

    Args:
        item (str): Percent-encoded, so any character may occur in it.
        body (ItemPatch):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | Written
    """

    return sync_detailed(
        item=item,
        client=client,
        body=body,
    ).parsed


async def asyncio_detailed(
    item: str,
    *,
    client: AuthenticatedClient,
    body: ItemPatch,
) -> Response[ProblemDocument | Written]:
    """Patch Item

     Change attributes of an item and leave the others: a JSON merge patch, in which null removes.

    Args:
        item (str): Percent-encoded, so any character may occur in it.
        body (ItemPatch):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | Written]
    """

    kwargs = _get_kwargs(
        item=item,
        body=body,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    item: str,
    *,
    client: AuthenticatedClient,
    body: ItemPatch,
) -> ProblemDocument | Written | None:
    """Patch Item

     Change attributes of an item and leave the others: a JSON merge patch, in which null removes.

    Args:
        item (str): Percent-encoded, so any character may occur in it.
        body (ItemPatch):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | Written
    """

    return (
        await asyncio_detailed(
            item=item,
            client=client,
            body=body,
        )
    ).parsed
