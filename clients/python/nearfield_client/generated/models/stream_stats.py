from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="StreamStats")


@_attrs_define
class StreamStats:
    """The stream in Redis: entries, bytes of memory, and the last stream id that was given.

    Attributes:
        entries (int):
        bytes_ (int):
        last_id (str):
    """

    entries: int
    bytes_: int
    last_id: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        entries = self.entries

        bytes_ = self.bytes_

        last_id = self.last_id

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "entries": entries,
                "bytes": bytes_,
                "last_id": last_id,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        entries = d.pop("entries")

        bytes_ = d.pop("bytes")

        last_id = d.pop("last_id")

        stream_stats = cls(
            entries=entries,
            bytes_=bytes_,
            last_id=last_id,
        )

        stream_stats.additional_properties = d
        return stream_stats

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
