from typing import Literal

WebhookBodyEventsItem = Literal[
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

WEBHOOK_BODY_EVENTS_ITEM_VALUES: set[WebhookBodyEventsItem] = {
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


def check_webhook_body_events_item(value: str) -> WebhookBodyEventsItem:
    if value in WEBHOOK_BODY_EVENTS_ITEM_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {WEBHOOK_BODY_EVENTS_ITEM_VALUES!r}"
    )
