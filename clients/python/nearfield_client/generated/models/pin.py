from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="Pin")


@_attrs_define
class Pin:
    """An item at a fixed place, if the list may show it.

    Attributes:
        item (str):
        at (int): Place in the list that begins at offset 0; the first is 1.
    """

    item: str
    at: int

    def to_dict(self) -> dict[str, Any]:
        item = self.item

        at = self.at

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "item": item,
                "at": at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        item = d.pop("item")

        at = d.pop("at")

        pin = cls(
            item=item,
            at=at,
        )

        return pin
