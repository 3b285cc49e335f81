from typing import Literal

MadeWebhookEventsItem = Literal[
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

MADE_WEBHOOK_EVENTS_ITEM_VALUES: set[MadeWebhookEventsItem] = {
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


def check_made_webhook_events_item(value: str) -> MadeWebhookEventsItem:
    if value in MADE_WEBHOOK_EVENTS_ITEM_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {MADE_WEBHOOK_EVENTS_ITEM_VALUES!r}"
    )
