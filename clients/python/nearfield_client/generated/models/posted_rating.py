from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="PostedRating")


@_attrs_define
class PostedRating:
    """
    Attributes:
        user (str):
        item (str):
        rating (float):
        timestamp (datetime.date | datetime.datetime | float | Unset): Unix seconds, or a date or datetime of ISO 8601,
            in UTC if it has no offset; default: now. Never decides order.
    """

    user: str
    item: str
    rating: float
    timestamp: datetime.date | datetime.datetime | float | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        user = self.user

        item = self.item

        rating = self.rating

        timestamp: float | str | Unset
        if isinstance(self.timestamp, Unset):
            timestamp = UNSET
        elif isinstance(self.timestamp, datetime.date):
            timestamp = self.timestamp.isoformat()
        elif isinstance(self.timestamp, datetime.datetime):
            timestamp = self.timestamp.isoformat()
        else:
            timestamp = self.timestamp

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "user": user,
                "item": item,
                "rating": rating,
            }
        )
        if timestamp is not UNSET:
            field_dict["timestamp"] = timestamp

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        user = d.pop("user")

        item = d.pop("item")

        rating = d.pop("rating")

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

        posted_rating = cls(
            user=user,
            item=item,
            rating=rating,
            timestamp=timestamp,
        )

        return posted_rating
