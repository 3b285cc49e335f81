from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ListedSource")


@_attrs_define
class ListedSource:
    """How far a source has come.

    Attributes:
        source: its name.
        key: the key whose source it is: the name of a setting, or the id of a made key. Null: none was needed, and
            the mark holds for every key.
        offset: the highest one that has counted.
        stream_id: the entry that had it.

    Attributes:
        source (str):
        key (None | str):
        offset (int):
        stream_id (str):
    """

    source: str
    key: None | str
    offset: int
    stream_id: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        source = self.source

        key: None | str
        key = self.key

        offset = self.offset

        stream_id = self.stream_id

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "source": source,
                "key": key,
                "offset": offset,
                "stream_id": stream_id,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        source = d.pop("source")

        def _parse_key(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        key = _parse_key(d.pop("key"))

        offset = d.pop("offset")

        stream_id = d.pop("stream_id")

        listed_source = cls(
            source=source,
            key=key,
            offset=offset,
            stream_id=stream_id,
        )

        listed_source.additional_properties = d
        return listed_source

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
