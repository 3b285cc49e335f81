from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.listed_webhook_events_item import (
    ListedWebhookEventsItem,
    check_listed_webhook_events_item,
)

if TYPE_CHECKING:
    from ..models.attempt import Attempt


T = TypeVar("T", bound="ListedWebhook")


@_attrs_define
class ListedWebhook:
    """A webhook and what became of its deliveries.

    Attributes:
        waiting: deliveries that have not ended.
        next_ms: Unix milliseconds of the next attempt; null if none waits.
        delivered, given_up: deliveries that have ended.
        last: the last attempt; null before it.

    Attributes:
        id (str):
        url (str):
        events (list[ListedWebhookEventsItem]):
        created_ms (int):
        waiting (int):
        next_ms (int | None):
        delivered (int):
        given_up (int):
        last (Attempt | None):
    """

    id: str
    url: str
    events: list[ListedWebhookEventsItem]
    created_ms: int
    waiting: int
    next_ms: int | None
    delivered: int
    given_up: int
    last: Attempt | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.attempt import Attempt  # noqa: PLC0415

        id = self.id

        url = self.url

        events = []
        for events_item_data in self.events:
            events_item: str = events_item_data
            events.append(events_item)

        created_ms = self.created_ms

        waiting = self.waiting

        next_ms: int | None
        next_ms = self.next_ms

        delivered = self.delivered

        given_up = self.given_up

        last: dict[str, Any] | None
        if isinstance(self.last, Attempt):
            last = self.last.to_dict()
        else:
            last = self.last

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "url": url,
                "events": events,
                "created_ms": created_ms,
                "waiting": waiting,
                "next_ms": next_ms,
                "delivered": delivered,
                "given_up": given_up,
                "last": last,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.attempt import Attempt  # noqa: PLC0415

        d = dict(src_dict)
        id = d.pop("id")

        url = d.pop("url")

        events = []
        _events = d.pop("events")
        for events_item_data in _events:
            events_item = check_listed_webhook_events_item(events_item_data)

            events.append(events_item)

        created_ms = d.pop("created_ms")

        waiting = d.pop("waiting")

        def _parse_next_ms(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        next_ms = _parse_next_ms(d.pop("next_ms"))

        delivered = d.pop("delivered")

        given_up = d.pop("given_up")

        def _parse_last(data: object) -> Attempt | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                last_type_0 = Attempt.from_dict(data)

                return last_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Attempt | None, data)

        last = _parse_last(d.pop("last"))

        listed_webhook = cls(
            id=id,
            url=url,
            events=events,
            created_ms=created_ms,
            waiting=waiting,
            next_ms=next_ms,
            delivered=delivered,
            given_up=given_up,
            last=last,
        )

        listed_webhook.additional_properties = d
        return listed_webhook

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
