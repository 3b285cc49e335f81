from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="QualityResult")


@_attrs_define
class QualityResult:
    """Means over `n` results: of the model, and of the baseline in the same tests. Null without results.

    Attributes:
        n (int):
        value (float | None):
        baseline (float | None):
    """

    n: int
    value: float | None
    baseline: float | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        n = self.n

        value: float | None
        value = self.value

        baseline: float | None
        baseline = self.baseline

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "n": n,
                "value": value,
                "baseline": baseline,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        n = d.pop("n")

        def _parse_value(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        value = _parse_value(d.pop("value"))

        def _parse_baseline(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        baseline = _parse_baseline(d.pop("baseline"))

        quality_result = cls(
            n=n,
            value=value,
            baseline=baseline,
        )

        quality_result.additional_properties = d
        return quality_result

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
