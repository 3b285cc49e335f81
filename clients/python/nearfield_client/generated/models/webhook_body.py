from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.webhook_body_events_item import (
    WebhookBodyEventsItem,
    check_webhook_body_events_item,
)
from ..types import UNSET, Unset

T = TypeVar("T", bound="WebhookBody")


@_attrs_define
class WebhookBody:
    """Body of `POST /admin/webhooks`.

    Attributes:
        url (str): Target: http or https, without user and password. Its host has public addresses alone, or ones in the
            networks of the setting `webhook_networks`.
        events (list[WebhookBodyEventsItem] | Unset): Ends of jobs to tell, KIND.STATE. Default: all.
    """

    url: str
    events: list[WebhookBodyEventsItem] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        url = self.url

        events: list[str] | Unset = UNSET
        if not isinstance(self.events, Unset):
            events = []
            for events_item_data in self.events:
                events_item: str = events_item_data
                events.append(events_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "url": url,
            }
        )
        if events is not UNSET:
            field_dict["events"] = events

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        url = d.pop("url")

        _events = d.pop("events", UNSET)
        events: list[WebhookBodyEventsItem] | Unset = UNSET
        if _events is not UNSET:
            events = []
            for events_item_data in _events:
                events_item = check_webhook_body_events_item(events_item_data)

                events.append(events_item)

        webhook_body = cls(
            url=url,
            events=events,
        )

        return webhook_body
