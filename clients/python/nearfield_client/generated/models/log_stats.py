from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="LogStats")


@_attrs_define
class LogStats:
    """The rating log: segments, rows (ratings, events and other entries), bytes on disk, and its last stream id.

    Attributes:
        segments (int):
        rows (int):
        bytes_ (int):
        last_id (str):
    """

    segments: int
    rows: int
    bytes_: int
    last_id: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        segments = self.segments

        rows = self.rows

        bytes_ = self.bytes_

        last_id = self.last_id

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "segments": segments,
                "rows": rows,
                "bytes": bytes_,
                "last_id": last_id,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        segments = d.pop("segments")

        rows = d.pop("rows")

        bytes_ = d.pop("bytes")

        last_id = d.pop("last_id")

        log_stats = cls(
            segments=segments,
            rows=rows,
            bytes_=bytes_,
            last_id=last_id,
        )

        log_stats.additional_properties = d
        return log_stats

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
