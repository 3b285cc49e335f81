from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="QualityPoint")


@_attrs_define
class QualityPoint:
    """A point of the curve: means over its own results alone.

    Attributes:
        as_of: the last entry whose ratings were tested.
        model_version: the version that was tested last.

    Attributes:
        as_of (str):
        model_version (str):
        n (int):
        value (float):
        baseline (float):
    """

    as_of: str
    model_version: str
    n: int
    value: float
    baseline: float
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        as_of = self.as_of

        model_version = self.model_version

        n = self.n

        value = self.value

        baseline = self.baseline

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "as_of": as_of,
                "model_version": model_version,
                "n": n,
                "value": value,
                "baseline": baseline,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        as_of = d.pop("as_of")

        model_version = d.pop("model_version")

        n = d.pop("n")

        value = d.pop("value")

        baseline = d.pop("baseline")

        quality_point = cls(
            as_of=as_of,
            model_version=model_version,
            n=n,
            value=value,
            baseline=baseline,
        )

        quality_point.additional_properties = d
        return quality_point

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
