from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="MaxPer")


@_attrs_define
class MaxPer:
    """A limit for items with the same value of a tag.

    Attributes:
        tag (str):
        n (int): Items with the same value, at most.
    """

    tag: str
    n: int

    def to_dict(self) -> dict[str, Any]:
        tag = self.tag

        n = self.n

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "tag": tag,
                "n": n,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        tag = d.pop("tag")

        n = d.pop("n")

        max_per = cls(
            tag=tag,
            n=n,
        )

        return max_per
