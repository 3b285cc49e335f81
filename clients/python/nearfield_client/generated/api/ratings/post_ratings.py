from http import HTTPStatus
from typing import Any

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.accepted import Accepted
from ...models.posted_rating import PostedRating
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    body: list[PostedRating] | PostedRating,
    x_source: str | Unset = UNSET,
    x_offset: int | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(x_source, Unset):
        headers["X-Source"] = x_source

    if not isinstance(x_offset, Unset):
        headers["X-Offset"] = str(x_offset)

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/ratings",
    }

    if isinstance(body, PostedRating):
        _kwargs["json"] = body.to_dict()
    else:
        _kwargs["json"] = []
        for body_type_1_item_data in body:
            body_type_1_item = body_type_1_item_data.to_dict()
            _kwargs["json"].append(body_type_1_item)

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Accepted | ProblemDocument | None:
    if response.status_code == 202:
        response_202 = Accepted.from_dict(response.json())

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
) -> Response[Accepted | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    body: list[PostedRating] | PostedRating,
    x_source: str | Unset = UNSET,
    x_offset: int | Unset = UNSET,
) -> Response[Accepted | ProblemDocument]:
    """Post Ratings

     Post one rating, or an array whose elements are checked one by one. A rating replaces the earlier
    one.

    Args:
        x_source (str | Unset): Where a batch comes from that may be delivered again; with
            X-Offset. Each key has its own sources. A queue that is made again needs another name,
            such as one with its id.
        x_offset (int | Unset): Of its last message; a batch up to an earlier one is skipped, and
            one that is more than 100,000,000 above it is refused.
        body (list[PostedRating] | PostedRating):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Accepted | ProblemDocument]
    """

    kwargs = _get_kwargs(
        body=body,
        x_source=x_source,
        x_offset=x_offset,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    *,
    client: AuthenticatedClient,
    body: list[PostedRating] | PostedRating,
    x_source: str | Unset = UNSET,
    x_offset: int | Unset = UNSET,
) -> Accepted | ProblemDocument | None:
    """Post Ratings

     Post one rating, or an array whose elements are checked one by one. A rating replaces the earlier
    one.

    Args:
        x_source (str | Unset): Where a batch comes from that may be delivered again; with
            X-Offset. Each key has its own sources. A queue that is made again needs another name,
            such as one with its id.
        x_offset (int | Unset): Of its last message; a batch up to an earlier one is skipped, and
            one that is more than 100,000,000 above it is refused.
        body (list[PostedRating] | PostedRating):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Accepted | ProblemDocument
    """

    return sync_detailed(
        client=client,
        body=body,
        x_source=x_source,
        x_offset=x_offset,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    body: list[PostedRating] | PostedRating,
    x_source: str | Unset = UNSET,
    x_offset: int | Unset = UNSET,
) -> Response[Accepted | ProblemDocument]:
    """Post Ratings

     Post one rating, or an array whose elements are checked one by one. A rating replaces the earlier
    one.

    Args:
        x_source (str | Unset): Where a batch comes from that may be delivered again; with
            X-Offset. Each key has its own sources. A queue that is made again needs another name,
            such as one with its id.
        x_offset (int | Unset): Of its last message; a batch up to an earlier one is skipped, and
            one that is more than 100,000,000 above it is refused.
        body (list[PostedRating] | PostedRating):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Accepted | ProblemDocument]
    """

    kwargs = _get_kwargs(
        body=body,
        x_source=x_source,
        x_offset=x_offset,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    body: list[PostedRating] | PostedRating,
    x_source: str | Unset = UNSET,
    x_offset: int | Unset = UNSET,
) -> Accepted | ProblemDocument | None:
    """Post Ratings

     Post one rating, or an array whose elements are checked one by one. A rating replaces the earlier
    one.

    Args:
        x_source (str | Unset): Where a batch comes from that may be delivered again; with
            X-Offset. Each key has its own sources. A queue that is made again needs another name,
            such as one with its id.
        x_offset (int | Unset): Of its last message; a batch up to an earlier one is skipped, and
            one that is more than 100,000,000 above it is refused.
        body (list[PostedRating] | PostedRating):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Accepted | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            body=body,
            x_source=x_source,
            x_offset=x_offset,
        )
    ).parsed
