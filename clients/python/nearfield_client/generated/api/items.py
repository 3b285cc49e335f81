"""The operations of the tag items. Made by `make clients` from the OpenAPI document of the service."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from nearfield_client.generated.models import (
    Accepted,
    ItemDetails,
    ItemList,
    ItemPatch,
    ListItemsFilter,
    PatchedItem,
    PostedItem,
    Written,
)
from nearfield_client.operation import operation
from nearfield_client.session import Session


@operation("POST", "/items")
def post_items(*, client: Session, body: PostedItem | list[PostedItem]) -> Accepted:
    """Put one item, or an array whose elements are checked one by one. It replaces all attributes of the item."""
    ...


@operation("PATCH", "/items")
def patch_items(*, client: Session, body: PatchedItem | list[PatchedItem]) -> Accepted:
    """Change attributes of one item, or of an array of items, and leave the others: JSON merge patches.

    The elements are checked one by one; those of deleted items are rejected.
    """
    ...


@operation("GET", "/items")
def list_items(
    *,
    client: Session,
    wait_for: str | None = None,
    n: int | None = None,
    cursor: str | None = None,
    search: str | None = None,
    filter_: ListItemsFilter | None = None,
) -> ItemList:
    """A page of all items that are not deleted, available or not, in an order that stays when items come and go.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        cursor: `next` of the page before; empty or by default: the first page.
        search: List the first items by title whose title begins so, in any capitals. There is no next page.
        filter_: `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`.
    """
    ...


@operation("PATCH", "/items/{item}")
def patch_item(item: str, *, client: Session, body: ItemPatch) -> Written:
    """Change attributes of an item and leave the others: a JSON merge patch, in which null removes.

    Args:
        item: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("DELETE", "/items/{item}")
def delete_item(item: str, *, client: Session) -> Written:
    """Never show an item again, and do not train on its ratings, until it is put again.

    Args:
        item: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("GET", "/items/{item}")
def get_item(item: str, *, client: Session, wait_for: str | None = None) -> ItemDetails:
    """The attributes of an item, and the number of its ratings.

    Args:
        item: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...
