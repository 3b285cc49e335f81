from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="PostedEvent")


@_attrs_define
class PostedEvent:
    """
    Attributes:
        user (str):
        item (str):
        type_ (str): One of the setting `events`.
        value (float | Unset): Multiplies the weight of the type.
        timestamp (datetime.date | datetime.datetime | float | Unset): Unix seconds, or a date or datetime of ISO 8601,
            in UTC if it has no offset; default: now. Never decides order.
        event_id (str | Unset): Of a user's events with the same one only the first counts.
        recommendation_id (str | Unset): Of the answer that led to the event, as the same user got it in an experiment.
    """

    user: str
    item: str
    type_: str
    value: float | Unset = UNSET
    timestamp: datetime.date | datetime.datetime | float | Unset = UNSET
    event_id: str | Unset = UNSET
    recommendation_id: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        user = self.user

        item = self.item

        type_ = self.type_

        value = self.value

        timestamp: float | str | Unset
        if isinstance(self.timestamp, Unset):
            timestamp = UNSET
        elif isinstance(self.timestamp, datetime.date):
            timestamp = self.timestamp.isoformat()
        elif isinstance(self.timestamp, datetime.datetime):
            timestamp = self.timestamp.isoformat()
        else:
            timestamp = self.timestamp

        event_id = self.event_id

        recommendation_id = self.recommendation_id

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "user": user,
                "item": item,
                "type": type_,
            }
        )
        if value is not UNSET:
            field_dict["value"] = value
        if timestamp is not UNSET:
            field_dict["timestamp"] = timestamp
        if event_id is not UNSET:
            field_dict["event_id"] = event_id
        if recommendation_id is not UNSET:
            field_dict["recommendation_id"] = recommendation_id

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        user = d.pop("user")

        item = d.pop("item")

        type_ = d.pop("type")

        value = d.pop("value", UNSET)

        def _parse_timestamp(
            data: object,
        ) -> datetime.date | datetime.datetime | float | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                timestamp_type_1 = datetime.date.fromisoformat(data)

                return timestamp_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, str):
                    raise TypeError()
                timestamp_type_2 = datetime.datetime.fromisoformat(data)

                return timestamp_type_2
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.date | datetime.datetime | float | Unset, data)

        timestamp = _parse_timestamp(d.pop("timestamp", UNSET))

        event_id = d.pop("event_id", UNSET)

        recommendation_id = d.pop("recommendation_id", UNSET)

        posted_event = cls(
            user=user,
            item=item,
            type_=type_,
            value=value,
            timestamp=timestamp,
            event_id=event_id,
            recommendation_id=recommendation_id,
        )

        return posted_event
