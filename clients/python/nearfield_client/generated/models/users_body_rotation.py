from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="UsersBodyRotation")


@_attrs_define
class UsersBodyRotation:
    """How much showings of an item lower it.

    Attributes:
        half_life (str): A number and m, h or d: a showing that is older by this counts half.
        by (float | Unset): What a showing takes off at first, in units of the score.
    """

    half_life: str
    by: float | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        half_life = self.half_life

        by = self.by

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "half_life": half_life,
            }
        )
        if by is not UNSET:
            field_dict["by"] = by

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        half_life = d.pop("half_life")

        by = d.pop("by", UNSET)

        users_body_rotation = cls(
            half_life=half_life,
            by=by,
        )

        return users_body_rotation
