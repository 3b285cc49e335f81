from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="Rate")


@_attrs_define
class Rate:
    """Events of a type in an arm.

    Attributes:
        events: their number.
        users: users with at least one of them.
        rate: `users` divided by all users with events that were attributed to the arm; null without any.
        low, high: the interval of the rate (Wilson).

    Attributes:
        events (int):
        users (int):
        rate (float | None):
        low (float):
        high (float):
    """

    events: int
    users: int
    rate: float | None
    low: float
    high: float
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        events = self.events

        users = self.users

        rate: float | None
        rate = self.rate

        low = self.low

        high = self.high

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "events": events,
                "users": users,
                "rate": rate,
                "low": low,
                "high": high,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        events = d.pop("events")

        users = d.pop("users")

        def _parse_rate(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        rate = _parse_rate(d.pop("rate"))

        low = d.pop("low")

        high = d.pop("high")

        rate = cls(
            events=events,
            users=users,
            rate=rate,
            low=low,
            high=high,
        )

        rate.additional_properties = d
        return rate

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
