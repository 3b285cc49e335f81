from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="DocumentDetails")


@_attrs_define
class DocumentDetails:
    """One document.

    Attributes:
        body: JSON as the client has sent it, without spaces.
        stream_id: the position of the entry that has put it: two answers with the same one have the same body.

    Attributes:
        name (str):
        body (Any):
        stream_id (str):
        as_of (str):
    """

    name: str
    body: Any
    stream_id: str
    as_of: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        body = self.body

        stream_id = self.stream_id

        as_of = self.as_of

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "body": body,
                "stream_id": stream_id,
                "as_of": as_of,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        body = d.pop("body")

        stream_id = d.pop("stream_id")

        as_of = d.pop("as_of")

        document_details = cls(
            name=name,
            body=body,
            stream_id=stream_id,
            as_of=as_of,
        )

        document_details.additional_properties = d
        return document_details

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
