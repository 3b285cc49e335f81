from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.scored_item import ScoredItem


T = TypeVar("T", bound="PopularItems")


@_attrs_define
class PopularItems:
    """The answer to `Popular`; `eligible` as in `Recommendation`.

    Attributes:
        items (list[ScoredItem]):
        as_of (str):
        warnings (list[str]):
        eligible (int | Unset):
        next_ (None | str | Unset):
    """

    items: list[ScoredItem]
    as_of: str
    warnings: list[str]
    eligible: int | Unset = UNSET
    next_: None | str | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        items = []
        for items_item_data in self.items:
            items_item = items_item_data.to_dict()
            items.append(items_item)

        as_of = self.as_of

        warnings = self.warnings

        eligible = self.eligible

        next_: None | str | Unset
        if isinstance(self.next_, Unset):
            next_ = UNSET
        else:
            next_ = self.next_

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "items": items,
                "as_of": as_of,
                "warnings": warnings,
            }
        )
        if eligible is not UNSET:
            field_dict["eligible"] = eligible
        if next_ is not UNSET:
            field_dict["next"] = next_

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.scored_item import ScoredItem  # noqa: PLC0415

        d = dict(src_dict)
        items = []
        _items = d.pop("items")
        for items_item_data in _items:
            items_item = ScoredItem.from_dict(items_item_data)

            items.append(items_item)

        as_of = d.pop("as_of")

        warnings = cast(list[str], d.pop("warnings"))

        eligible = d.pop("eligible", UNSET)

        def _parse_next_(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        next_ = _parse_next_(d.pop("next", UNSET))

        popular_items = cls(
            items=items,
            as_of=as_of,
            warnings=warnings,
            eligible=eligible,
            next_=next_,
        )

        popular_items.additional_properties = d
        return popular_items

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
