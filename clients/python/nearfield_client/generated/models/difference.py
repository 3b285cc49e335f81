from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="Difference")


@_attrs_define
class Difference:
    """The rate of a type in an arm minus that in the first arm, and its interval (Newcombe's, of Wilson's).

    An interval without 0 speaks for a difference.

    Attributes:
        model (str):
        type_ (str):
        difference (float):
        low (float):
        high (float):
    """

    model: str
    type_: str
    difference: float
    low: float
    high: float
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        model = self.model

        type_ = self.type_

        difference = self.difference

        low = self.low

        high = self.high

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "model": model,
                "type": type_,
                "difference": difference,
                "low": low,
                "high": high,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        model = d.pop("model")

        type_ = d.pop("type")

        difference = d.pop("difference")

        low = d.pop("low")

        high = d.pop("high")

        difference = cls(
            model=model,
            type_=type_,
            difference=difference,
            low=low,
            high=high,
        )

        difference.additional_properties = d
        return difference

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
