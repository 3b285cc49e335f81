from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="ItemRating")


@_attrs_define
class ItemRating:
    """A rating that is not stored.

    Attributes:
        item (str):
        rating (float):
        timestamp (float | None | Unset): Unix seconds, a date or a datetime; default: now.
    """

    item: str
    rating: float
    timestamp: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        item = self.item

        rating = self.rating

        timestamp: float | None | Unset
        if isinstance(self.timestamp, Unset):
            timestamp = UNSET
        else:
            timestamp = self.timestamp

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
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
        item = d.pop("item")

        rating = d.pop("rating")

        def _parse_timestamp(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        timestamp = _parse_timestamp(d.pop("timestamp", UNSET))

        item_rating = cls(
            item=item,
            rating=rating,
            timestamp=timestamp,
        )

        return item_rating
