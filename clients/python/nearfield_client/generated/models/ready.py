from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="Ready")


@_attrs_define
class Ready:
    """The answer of a ready service.

    Attributes:
        as_of: the last entry that it has learned.
        left_out: versions that should be live and cannot be loaded; `GET /admin/models` says why.

    Attributes:
        status (str):
        as_of (str):
        left_out (list[str] | Unset):
    """

    status: str
    as_of: str
    left_out: list[str] | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        status = self.status

        as_of = self.as_of

        left_out: list[str] | Unset = UNSET
        if not isinstance(self.left_out, Unset):
            left_out = self.left_out

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "status": status,
                "as_of": as_of,
            }
        )
        if left_out is not UNSET:
            field_dict["left_out"] = left_out

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        status = d.pop("status")

        as_of = d.pop("as_of")

        left_out = cast(list[str], d.pop("left_out", UNSET))

        ready = cls(
            status=status,
            as_of=as_of,
            left_out=left_out,
        )

        ready.additional_properties = d
        return ready

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
