from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ListFile")


@_attrs_define
class ListFile:
    """One file: the job that has made it, its bytes, and when it was written, in Unix milliseconds.

    Attributes:
        job (str):
        bytes_ (int):
        created_ms (int):
    """

    job: str
    bytes_: int
    created_ms: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        job = self.job

        bytes_ = self.bytes_

        created_ms = self.created_ms

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "job": job,
                "bytes": bytes_,
                "created_ms": created_ms,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        job = d.pop("job")

        bytes_ = d.pop("bytes")

        created_ms = d.pop("created_ms")

        list_file = cls(
            job=job,
            bytes_=bytes_,
            created_ms=created_ms,
        )

        list_file.additional_properties = d
        return list_file

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
