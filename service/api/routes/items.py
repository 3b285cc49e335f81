"""The catalog: attributes of items. A 202 is sent only after the stream has them."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query

from service.api.answers import Accepted, Written
from service.api.dependencies import ItemId, TheService, answers, durable, elements, n_listed
from service.api.door.route import Call, Route
from service.api.errors import MalformedBody
from service.api.openapi.components import component, form_of
from service.api.openapi.examples import ITEM
from service.api.operations import CheckNewNames
from service.api.parsers.bodies import body_of, of_large
from service.api.parsers.elements import Intake, judged, parsed, read_elements, without
from service.api.parsers.item_parser import TIMES, ItemJudge, Judge
from service.api.requests import Filtered, NoParameters, Wait
from service.api.serving import Serving
from service.base.errors import InvalidRequest, ServiceError
from service.engine.queries.catalog_queries import (
    CatalogNames,
    DeletedItem,
    GetCatalogNames,
    GetItem,
    GetTagSizes,
    GetUserNames,
    ItemDetails,
    ItemList,
    ListItems,
    TagSizes,
)
from service.engine.queries.fields import takes
from service.engine.queries.filter_parser import PARAMETERS
from service.engine.state.attribute_index import MAX_NAMES as MAX_NAMES_OF_ALL
from service.storage.events import ITEMS_PER_ENTRY, StreamId, encode_items
from service.storage.item_changes import (
    AttributeChanges,
    ItemChange,
    NewItem,
    check_number_of_values,
    sizes_after,
)

MAX_ITEMS = 1000  # items of one request


@takes(ListItems, "n", "cursor", "search")
class ItemsQuery(Filtered[ListItems]):
    """A page of the items that pass a filter, or of those whose titles begin with a text."""


router = APIRouter(route_class=Route, tags=["items"])

_PATCH, _ITEM = component("ItemPatch", form_of(AttributeChanges, TIMES)), form_of(NewItem, TIMES, item=ITEM)
_ITEMS_BODY = elements("PostedItem", _ITEM, maxItems=MAX_ITEMS)
_PATCHES_BODY = elements("PatchedItem", _ITEM, maxItems=MAX_ITEMS)
_PATCH_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _PATCH}}}}
NoQuery = Annotated[NoParameters, Query()]


@router.post("/items", status_code=202, responses=durable(Accepted), openapi_extra=_ITEMS_BODY)
async def post_items(request: Call, query: NoQuery, serving: TheService) -> bytes:
    """Put one item, or an array whose elements are checked one by one. It replaces all attributes of the item."""
    body, judge = body_of(request.content, request.known), await item_judge(serving)
    accepted, rejected = await of_large(body, read_elements, judge.put, MAX_ITEMS, "items")
    await count_names(serving, judge)
    stream_id = await append_changes(serving, accepted) if accepted else None
    return answer_of(serving, Intake(accepted, rejected), stream_id, request.started)


@router.patch(
    "/items",
    status_code=202,
    responses=durable(Accepted, http_404="Deleted item"),
    openapi_extra=_PATCHES_BODY,
)
async def patch_items(request: Call, query: NoQuery, serving: TheService) -> bytes:
    """Change attributes of one item, or of an array of items, and leave the others: JSON merge patches.

    The elements are checked one by one; those of deleted items are rejected.
    """
    body, judge = body_of(request.content, request.known), await item_judge(serving)
    intake = await of_large(body, read_elements, judge.patch_named, MAX_ITEMS, "items")
    await count_names(serving, judge)
    faults, stream_id = await append_patches(serving, intake.accepted)
    return answer_of(serving, without(intake, faults, body), stream_id, request.started)


@router.patch(
    "/items/{item}",
    status_code=202,
    responses=durable(Written, http_404="Deleted item"),
    openapi_extra=_PATCH_BODY,
)
async def patch_item(item: ItemId, request: Call, query: NoQuery, serving: TheService) -> bytes:
    """Change attributes of an item and leave the others: a JSON merge patch, in which null removes."""
    document, judge = parsed(request.content), await item_judge(serving)
    if not isinstance(document, dict):
        raise MalformedBody(f"Invalid body: expected an object, got {type(document).__name__}")
    change = judged(document, lambda element: judge.patch(item, element))
    await count_names(serving, judge)
    faults, stream_id = await append_patches(serving, [change])
    if faults or stream_id is None:
        raise faults[0]
    return msgspec.json.encode(Written(stream_id))


@router.delete("/items/{item}", status_code=202, responses=durable(Written))
async def delete_item(item: ItemId, query: NoQuery, serving: TheService) -> bytes:
    """Never show an item again, and do not train on its ratings, until it is put again."""
    stream_id = await append_changes(serving, [ItemChange(item, op="delete")])
    return msgspec.json.encode(Written(stream_id))


@router.get("/items", responses=answers(ItemList), openapi_extra=PARAMETERS)
async def list_items(query: Annotated[ItemsQuery, Query()], serving: TheService) -> bytes:
    """A page of all items that are not deleted, available or not, in an order that stays when items come and go."""
    asked = query.query(n=n_listed(serving, query))
    return await serving.answer(asked, query.position)


@router.get("/items/{item}", responses=answers(ItemDetails, http_404="Unknown or deleted item"))
async def get_item(item: ItemId, query: Annotated[Wait, Query()], serving: TheService) -> bytes:
    """The attributes of an item, and the number of its ratings."""
    return await serving.answer(GetItem(item), query.position)


async def item_judge(serving: Serving) -> ItemJudge:
    """Judges the items of one request by the names in the present catalog."""
    return ItemJudge(await names_within(serving, GetCatalogNames()))


async def names_within(serving: Serving, asked: GetCatalogNames | GetUserNames) -> CatalogNames:
    """The names that items, or users, have, and how many more the setting `max_names` permits."""
    names = msgspec.json.decode(await serving.answer(asked), type=CatalogNames)
    names.n_free = max(0, names.n_free - (MAX_NAMES_OF_ALL - serving.settings.max_names))
    return names


async def count_names(serving: Serving, judge: Judge) -> None:
    """Count the new names of a request against the limit of its key; raises `TooManyNewNames`."""
    if judge.n_new:
        await serving.operate(CheckNewNames(judge.n_new))


async def append_patches(serving: Serving, changes: list[ItemChange]) -> tuple[dict[int, ServiceError], str | None]:
    """Append patches; return the faults of those that are refused, by their places, and the position of the last one.

    What a patch makes of an item is decided where it stands in the stream. Here it is refused if its item would have
    too many values of tags, or is deleted and not put again by an entry that waits; in this case it changes nothing.
    """
    sizes = dict(zip((change.item for change in changes), await tag_sizes(serving, changes), strict=True))
    faults, patches, deleted = dict[int, ServiceError](), list[ItemChange](), list[int]()
    for place, change in enumerate(changes):
        present = sizes[change.item]
        if present is None:
            deleted.append(place)
        else:
            after = sizes_after(present, change)
            try:
                check_number_of_values(sum(after.values()))
            except ValueError as error:
                faults[place] = InvalidRequest(str(error))
                continue
            sizes[change.item] = after
        patches.append(change)
    stream_id = await append_changes(serving, patches) if patches else None
    if deleted and stream_id is not None:
        sizes_now = await tag_sizes(serving, [changes[place] for place in deleted], StreamId.parse(stream_id))
        for place, size in zip(deleted, sizes_now, strict=True):
            if size is None:
                faults[place] = DeletedItem.of(changes[place].item)
    return dict(sorted(faults.items())), stream_id if len(faults) < len(changes) else None


async def tag_sizes(
    serving: Serving, changes: list[ItemChange], position: StreamId | None = None
) -> list[dict[str, int] | None]:
    """How many values of tags the items of `changes` have at `position`, or at present."""
    sizes: list[dict[str, int] | None] = []
    for first in range(0, len(changes), ITEMS_PER_ENTRY):
        asked = GetTagSizes([change.item for change in changes[first : first + ITEMS_PER_ENTRY]])
        sizes += msgspec.json.decode(await serving.answer(asked, position), type=TagSizes).of_items
    return sizes


def answer_of(serving: Serving, intake: Intake[ItemChange], stream_id: str | None, started: float) -> bytes:
    """The answer to several items."""
    serving.metrics.items_rejected.inc(len(intake.rejected))
    took_ms = round((time.perf_counter() - started) * 1000, 3)
    return msgspec.json.encode(Accepted(len(intake.accepted), intake.rejected, stream_id, took_ms))


async def append_changes(serving: Serving, changes: list[ItemChange]) -> str:
    """Append the changes, and return the position of the last one.

    They go in several entries, because the engine answers nobody while it applies one. A request that fails between two
    of them can be repeated without harm.
    """
    await serving.check_new([], [change.item for change in changes])
    for first in range(0, len(changes), ITEMS_PER_ENTRY):
        stream_id = await serving.append(encode_items(changes[first : first + ITEMS_PER_ENTRY]))
    serving.metrics.items_accepted.inc(len(changes))
    return str(stream_id)
