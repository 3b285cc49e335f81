"""`Nearfield` and `AsyncNearfield`: the requests that most programs make, each a method."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nearfield_client.generated.api.admin import get_job
from nearfield_client.generated.api.items import patch_items, post_items
from nearfield_client.generated.api.lookups import list_item_neighbors, list_user_events
from nearfield_client.generated.api.ratings import post_events, post_ratings
from nearfield_client.generated.api.recommendations import list_popular, recommend_user
from nearfield_client.generated.models import (
    Accepted,
    EventsOfUser,
    ItemNeighbors,
    Job,
    PatchedItem,
    PopularItems,
    PostedEvent,
    PostedItem,
    PostedRating,
    Recommendation,
)
from nearfield_client.problems import NearfieldError
from nearfield_client.retries import FIRST_PAUSE_S, LONGEST_PAUSE_S
from nearfield_client.session import Session


class Nearfield(Session):
    """One service, or one of its data sets: `Nearfield("http://localhost:8000", "the key")`.

    The address of a data set ends with `/d/NAME`. What a method takes beside its named arguments is what the API takes
    for that request, by the same names. A name that Python reserves has `_` at its end: `filter_`, `with_`.

    Raises, each method:
        NearfieldError: the service refused the request, or did not answer.
    """

    def rate(self, user: str, item: str, rating: float, **more: Any) -> Accepted:
        """Post a rating, which replaces the user's earlier one; `more`: `timestamp`."""
        return post_ratings.sync(client=self, body=PostedRating(user, item, rating, **more))

    def event(self, user: str, item: str, type_: str, **more: Any) -> Accepted:
        """Post an event of a type such as `view`; `more`: `value`, `timestamp`, `event_id`, `recommendation_id`."""
        return post_events.sync(client=self, body=PostedEvent(user, item, type_, **more))

    def recommend(self, user: str, **more: Any) -> Recommendation:
        """The best items for a user; `more`: as `GET /recommend/{user}` takes it, such as `n` and `explain`."""
        return recommend_user.sync(user, client=self, **more)

    def similar(self, item: str, **more: Any) -> ItemNeighbors:
        """The items most similar to an item; `more`: as `GET /items/{item}/neighbors` takes it."""
        return list_item_neighbors.sync(item, client=self, **more)

    def popular(self, **more: Any) -> PopularItems:
        """The most popular items; `more`: as `GET /popular` takes it."""
        return list_popular.sync(client=self, **more)

    def put_item(self, item: str, **attributes: Any) -> Accepted:
        """Put an item with these attributes, such as `title` and `tags`; others that it had are removed."""
        return post_items.sync(client=self, body=PostedItem(item, **attributes))

    def patch_items(self, items: Sequence[Mapping[str, Any]]) -> Accepted:
        """Change some attributes of at most 1,000 items, each named by its `item`; None removes an attribute."""
        return patch_items.sync(client=self, body=[PatchedItem(**one) for one in items])

    def user_events(self, user: str, **more: Any) -> EventsOfUser:
        """What the events of a user add up to, item by item; `more`: `n`, `offset`."""
        return list_user_events.sync(user, client=self, **more)

    def wait(self, job: Job) -> Job:
        """The job when it has succeeded, asked for again and again. An error if it fails or is cancelled."""
        for pause_s in _pauses():
            if _has_succeeded(job):
                break
            time.sleep(pause_s)
            job = get_job.sync(job.id, client=self)
        return job


class AsyncNearfield(Session):
    """`Nearfield` whose methods are coroutines: `await client.rate("ann", "i1", 5)`; `async with` closes it."""

    async def rate(self, user: str, item: str, rating: float, **more: Any) -> Accepted:
        """Post a rating, which replaces the user's earlier one; `more`: `timestamp`."""
        return await post_ratings.asyncio(client=self, body=PostedRating(user, item, rating, **more))

    async def event(self, user: str, item: str, type_: str, **more: Any) -> Accepted:
        """Post an event of a type such as `view`; `more`: `value`, `timestamp`, `event_id`, `recommendation_id`."""
        return await post_events.asyncio(client=self, body=PostedEvent(user, item, type_, **more))

    async def recommend(self, user: str, **more: Any) -> Recommendation:
        """The best items for a user; `more`: as `GET /recommend/{user}` takes it, such as `n` and `explain`."""
        return await recommend_user.asyncio(user, client=self, **more)

    async def similar(self, item: str, **more: Any) -> ItemNeighbors:
        """The items most similar to an item; `more`: as `GET /items/{item}/neighbors` takes it."""
        return await list_item_neighbors.asyncio(item, client=self, **more)

    async def popular(self, **more: Any) -> PopularItems:
        """The most popular items; `more`: as `GET /popular` takes it."""
        return await list_popular.asyncio(client=self, **more)

    async def put_item(self, item: str, **attributes: Any) -> Accepted:
        """Put an item with these attributes, such as `title` and `tags`; others that it had are removed."""
        return await post_items.asyncio(client=self, body=PostedItem(item, **attributes))

    async def patch_items(self, items: Sequence[Mapping[str, Any]]) -> Accepted:
        """Change some attributes of at most 1,000 items, each named by its `item`; None removes an attribute."""
        return await patch_items.asyncio(client=self, body=[PatchedItem(**one) for one in items])

    async def user_events(self, user: str, **more: Any) -> EventsOfUser:
        """What the events of a user add up to, item by item; `more`: `n`, `offset`."""
        return await list_user_events.asyncio(user, client=self, **more)

    async def wait(self, job: Job) -> Job:
        """The job when it has succeeded, asked for again and again. An error if it fails or is cancelled."""
        for pause_s in _pauses():
            if _has_succeeded(job):
                break
            await asyncio.sleep(pause_s)
            job = await get_job.asyncio(job.id, client=self)
        return job


def _pauses() -> Iterator[float]:
    """Seconds between two looks at a job, without end."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _has_succeeded(job: Job) -> bool:
    if job.state in {"failed", "cancelled"}:
        raise NearfieldError(None, f"Job {job.state}", job.error or job.reason or job.id)
    return job.state == "succeeded"
