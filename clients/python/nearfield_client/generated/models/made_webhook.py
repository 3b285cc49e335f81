from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.made_webhook_events_item import (
    MadeWebhookEventsItem,
    check_made_webhook_events_item,
)

T = TypeVar("T", bound="MadeWebhook")


@_attrs_define
class MadeWebhook:
    """A new webhook; `secret` is in no other answer.

    Attributes:
        id (str):
        url (str):
        events (list[MadeWebhookEventsItem]):
        created_ms (int):
        secret (str):
    """

    id: str
    url: str
    events: list[MadeWebhookEventsItem]
    created_ms: int
    secret: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = self.id

        url = self.url

        events = []
        for events_item_data in self.events:
            events_item: str = events_item_data
            events.append(events_item)

        created_ms = self.created_ms

        secret = self.secret

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "url": url,
                "events": events,
                "created_ms": created_ms,
                "secret": secret,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        id = d.pop("id")

        url = d.pop("url")

        events = []
        _events = d.pop("events")
        for events_item_data in _events:
            events_item = check_made_webhook_events_item(events_item_data)

            events.append(events_item)

        created_ms = d.pop("created_ms")

        secret = d.pop("secret")

        made_webhook = cls(
            id=id,
            url=url,
            events=events,
            created_ms=created_ms,
            secret=secret,
        )

        made_webhook.additional_properties = d
        return made_webhook

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
