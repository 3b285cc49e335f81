from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.arm_report_types import ArmReportTypes


T = TypeVar("T", bound="ArmReport")


@_attrs_define
class ArmReport:
    """One arm; see `ArmCounts`.

    Attributes:
        model (str):
        share (float):
        answered (int):
        users (int):
        types (ArmReportTypes):
    """

    model: str
    share: float
    answered: int
    users: int
    types: ArmReportTypes
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        model = self.model

        share = self.share

        answered = self.answered

        users = self.users

        types = self.types.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "model": model,
                "share": share,
                "answered": answered,
                "users": users,
                "types": types,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.arm_report_types import ArmReportTypes  # noqa: PLC0415

        d = dict(src_dict)
        model = d.pop("model")

        share = d.pop("share")

        answered = d.pop("answered")

        users = d.pop("users")

        types = ArmReportTypes.from_dict(d.pop("types"))

        arm_report = cls(
            model=model,
            share=share,
            answered=answered,
            users=users,
            types=types,
        )

        arm_report.additional_properties = d
        return arm_report

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
