from typing import Literal

WebhookEventsItem = Literal[
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

WEBHOOK_EVENTS_ITEM_VALUES: set[WebhookEventsItem] = {
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


def check_webhook_events_item(value: str) -> WebhookEventsItem:
    if value in WEBHOOK_EVENTS_ITEM_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {WEBHOOK_EVENTS_ITEM_VALUES!r}"
    )
