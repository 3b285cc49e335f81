from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.listed_item_numbers import ListedItemNumbers
    from ..models.listed_item_tags import ListedItemTags


T = TypeVar("T", bound="ListedItem")


@_attrs_define
class ListedItem:
    """One item of a list; see `ItemDetails`.

    Attributes:
        item (str):
        tags (ListedItemTags):
        numbers (ListedItemNumbers):
        available (bool):
        published (float | None):
        until (float | None):
        hidden (bool):
        n_ratings (int):
    """

    item: str
    tags: ListedItemTags
    numbers: ListedItemNumbers
    available: bool
    published: float | None
    until: float | None
    hidden: bool
    n_ratings: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        item = self.item

        tags = self.tags.to_dict()

        numbers = self.numbers.to_dict()

        available = self.available

        published: float | None
        published = self.published

        until: float | None
        until = self.until

        hidden = self.hidden

        n_ratings = self.n_ratings

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "item": item,
                "tags": tags,
                "numbers": numbers,
                "available": available,
                "published": published,
                "until": until,
                "hidden": hidden,
                "n_ratings": n_ratings,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.listed_item_numbers import ListedItemNumbers  # noqa: PLC0415
        from ..models.listed_item_tags import ListedItemTags  # noqa: PLC0415

        d = dict(src_dict)
        item = d.pop("item")

        tags = ListedItemTags.from_dict(d.pop("tags"))

        numbers = ListedItemNumbers.from_dict(d.pop("numbers"))

        available = d.pop("available")

        def _parse_published(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        published = _parse_published(d.pop("published"))

        def _parse_until(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        until = _parse_until(d.pop("until"))

        hidden = d.pop("hidden")

        n_ratings = d.pop("n_ratings")

        listed_item = cls(
            item=item,
            tags=tags,
            numbers=numbers,
            available=available,
            published=published,
            until=until,
            hidden=hidden,
            n_ratings=n_ratings,
        )

        listed_item.additional_properties = d
        return listed_item

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
