from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.item_details_numbers import ItemDetailsNumbers
    from ..models.item_details_tags import ItemDetailsTags


T = TypeVar("T", bound="ItemDetails")


@_attrs_define
class ItemDetails:
    """One item.

    Attributes:
        tags: values by name.
        numbers: numbers by name.
        available, published, until: see `service.storage.item_changes.Attributes`.
        embedding: the numbers as float32, or null.
        hidden: whether an operator has hidden the item.
        n_ratings: its present ratings.

    Attributes:
        item (str):
        tags (ItemDetailsTags):
        numbers (ItemDetailsNumbers):
        available (bool):
        published (float | None):
        until (float | None):
        embedding (list[float] | None):
        hidden (bool):
        n_ratings (int):
        as_of (str):
    """

    item: str
    tags: ItemDetailsTags
    numbers: ItemDetailsNumbers
    available: bool
    published: float | None
    until: float | None
    embedding: list[float] | None
    hidden: bool
    n_ratings: int
    as_of: str
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

        embedding: list[float] | None
        if isinstance(self.embedding, list):
            embedding = self.embedding

        else:
            embedding = self.embedding

        hidden = self.hidden

        n_ratings = self.n_ratings

        as_of = self.as_of

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
                "embedding": embedding,
                "hidden": hidden,
                "n_ratings": n_ratings,
                "as_of": as_of,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.item_details_numbers import ItemDetailsNumbers  # noqa: PLC0415
        from ..models.item_details_tags import ItemDetailsTags  # noqa: PLC0415

        d = dict(src_dict)
        item = d.pop("item")

        tags = ItemDetailsTags.from_dict(d.pop("tags"))

        numbers = ItemDetailsNumbers.from_dict(d.pop("numbers"))

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

        def _parse_embedding(data: object) -> list[float] | None:
            if data is None:
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                embedding_type_0 = cast(list[float], data)

                return embedding_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[float] | None, data)

        embedding = _parse_embedding(d.pop("embedding"))

        hidden = d.pop("hidden")

        n_ratings = d.pop("n_ratings")

        as_of = d.pop("as_of")

        item_details = cls(
            item=item,
            tags=tags,
            numbers=numbers,
            available=available,
            published=published,
            until=until,
            embedding=embedding,
            hidden=hidden,
            n_ratings=n_ratings,
            as_of=as_of,
        )

        item_details.additional_properties = d
        return item_details

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
