from typing import Literal

ListedWebhookEventsItem = Literal[
    "forget.cancelled",
    "forget.failed",
    "forget.succeeded",
    "lists.cancelled",
    "lists.failed",
    "lists.succeeded",
    "train.cancelled",
    "train.failed",
    "train.succeeded",
]

LISTED_WEBHOOK_EVENTS_ITEM_VALUES: set[ListedWebhookEventsItem] = {
    "forget.cancelled",
    "forget.failed",
    "forget.succeeded",
    "lists.cancelled",
    "lists.failed",
    "lists.succeeded",
    "train.cancelled",
    "train.failed",
    "train.succeeded",
}


def check_listed_webhook_events_item(value: str) -> ListedWebhookEventsItem:
    if value in LISTED_WEBHOOK_EVENTS_ITEM_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {LISTED_WEBHOOK_EVENTS_ITEM_VALUES!r}"
    )
