from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.listed_source import ListedSource


T = TypeVar("T", bound="RemovedSource")


@_attrs_define
class RemovedSource:
    """The answer to `DELETE /admin/sources/{source}`; `removed` is empty if there was none of that name.

    Attributes:
        stream_id (str):
        removed (list[ListedSource]):
    """

    stream_id: str
    removed: list[ListedSource]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        stream_id = self.stream_id

        removed = []
        for removed_item_data in self.removed:
            removed_item = removed_item_data.to_dict()
            removed.append(removed_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "stream_id": stream_id,
                "removed": removed,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.listed_source import ListedSource  # noqa: PLC0415

        d = dict(src_dict)
        stream_id = d.pop("stream_id")

        removed = []
        _removed = d.pop("removed")
        for removed_item_data in _removed:
            removed_item = ListedSource.from_dict(removed_item_data)

            removed.append(removed_item)

        removed_source = cls(
            stream_id=stream_id,
            removed=removed,
        )

        removed_source.additional_properties = d
        return removed_source

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
