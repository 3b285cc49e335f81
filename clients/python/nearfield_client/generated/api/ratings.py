"""The operations of the tag ratings. Made by `make clients` from the OpenAPI document of the service."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from nearfield_client.generated.models import Accepted, PostedEvent, PostedRating, RetractedEvent, Written
from nearfield_client.operation import operation
from nearfield_client.session import Session


@operation("POST", "/ratings", headers={"x_source": "X-Source", "x_offset": "X-Offset"})
def post_ratings(
    *,
    client: Session,
    body: PostedRating | list[PostedRating],
    x_source: str | None = None,
    x_offset: int | None = None,
) -> Accepted:
    """Post one rating, or an array whose elements are checked one by one. A rating replaces the earlier one.

    Args:
        x_source: Where a batch comes from that may be delivered again; with X-Offset. Each key has its own sources. A
            queue that is made again needs another name, such as one with its id.
        x_offset: Of its last message; a batch up to an earlier one is skipped, and one that is more than 100,000,000
            above it is refused.
    """
    ...


@operation("POST", "/events", headers={"x_source": "X-Source", "x_offset": "X-Offset"})
def post_events(
    *, client: Session, body: PostedEvent | list[PostedEvent], x_source: str | None = None, x_offset: int | None = None
) -> Accepted:
    """Post one event, or an array whose elements are checked one by one. Events of a user and an item add up.

    Args:
        x_source: Where a batch comes from that may be delivered again; with X-Offset. Each key has its own sources. A
            queue that is made again needs another name, such as one with its id.
        x_offset: Of its last message; a batch up to an earlier one is skipped, and one that is more than 100,000,000
            above it is refused.
    """
    ...


@operation("DELETE", "/ratings/{user}/{item}")
def delete_rating(user: str, item: str, *, client: Session) -> Written:
    """Delete one rating. Deleting a rating that does not exist is accepted too.

    Args:
        user: Percent-encoded, so any character may occur in it.
        item: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("DELETE", "/users/{user}/events/{event_id}")
def delete_event(user: str, event_id: str, *, client: Session) -> RetractedEvent:
    """Take one of the last 64 events with an `event_id` of a user back, as if it had not come.

    Args:
        user: Percent-encoded, so any character may occur in it.
        event_id: The `event_id` that the event was posted with, percent-encoded.
    """
    ...
