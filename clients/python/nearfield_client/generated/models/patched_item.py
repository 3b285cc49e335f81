from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.patched_item_numbers_type_0 import PatchedItemNumbersType0
    from ..models.patched_item_tags_type_0 import PatchedItemTagsType0


T = TypeVar("T", bound="PatchedItem")


@_attrs_define
class PatchedItem:
    """
    Attributes:
        item (str):
        tags (None | PatchedItemTagsType0 | Unset):
        numbers (None | PatchedItemNumbersType0 | Unset):
        available (bool | None | Unset): Whether lists show the item; default true.
        published (float | None | str | Unset): Lists do not show the item before this time: Unix seconds, or a date.
        until (float | None | str | Unset): Lists do not show the item from this time on: Unix seconds, or a date.
        embedding (list[float] | None | Unset): As many numbers as those of the other items. Places an item that nobody
            has rated.
    """

    item: str
    tags: None | PatchedItemTagsType0 | Unset = UNSET
    numbers: None | PatchedItemNumbersType0 | Unset = UNSET
    available: bool | None | Unset = UNSET
    published: float | None | str | Unset = UNSET
    until: float | None | str | Unset = UNSET
    embedding: list[float] | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.patched_item_numbers_type_0 import PatchedItemNumbersType0  # noqa: PLC0415
        from ..models.patched_item_tags_type_0 import PatchedItemTagsType0  # noqa: PLC0415

        item = self.item

        tags: dict[str, Any] | None | Unset
        if isinstance(self.tags, Unset):
            tags = UNSET
        elif isinstance(self.tags, PatchedItemTagsType0):
            tags = self.tags.to_dict()
        else:
            tags = self.tags

        numbers: dict[str, Any] | None | Unset
        if isinstance(self.numbers, Unset):
            numbers = UNSET
        elif isinstance(self.numbers, PatchedItemNumbersType0):
            numbers = self.numbers.to_dict()
        else:
            numbers = self.numbers

        available: bool | None | Unset
        if isinstance(self.available, Unset):
            available = UNSET
        else:
            available = self.available

        published: float | None | str | Unset
        if isinstance(self.published, Unset):
            published = UNSET
        else:
            published = self.published

        until: float | None | str | Unset
        if isinstance(self.until, Unset):
            until = UNSET
        else:
            until = self.until

        embedding: list[float] | None | Unset
        if isinstance(self.embedding, Unset):
            embedding = UNSET
        elif isinstance(self.embedding, list):
            embedding = self.embedding

        else:
            embedding = self.embedding

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "item": item,
            }
        )
        if tags is not UNSET:
            field_dict["tags"] = tags
        if numbers is not UNSET:
            field_dict["numbers"] = numbers
        if available is not UNSET:
            field_dict["available"] = available
        if published is not UNSET:
            field_dict["published"] = published
        if until is not UNSET:
            field_dict["until"] = until
        if embedding is not UNSET:
            field_dict["embedding"] = embedding

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.patched_item_numbers_type_0 import PatchedItemNumbersType0  # noqa: PLC0415
        from ..models.patched_item_tags_type_0 import PatchedItemTagsType0  # noqa: PLC0415

        d = dict(src_dict)
        item = d.pop("item")

        def _parse_tags(data: object) -> None | PatchedItemTagsType0 | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                tags_type_0 = PatchedItemTagsType0.from_dict(data)

                return tags_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | PatchedItemTagsType0 | Unset, data)

        tags = _parse_tags(d.pop("tags", UNSET))

        def _parse_numbers(data: object) -> None | PatchedItemNumbersType0 | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                numbers_type_0 = PatchedItemNumbersType0.from_dict(data)

                return numbers_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | PatchedItemNumbersType0 | Unset, data)

        numbers = _parse_numbers(d.pop("numbers", UNSET))

        def _parse_available(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        available = _parse_available(d.pop("available", UNSET))

        def _parse_published(data: object) -> float | None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | str | Unset, data)

        published = _parse_published(d.pop("published", UNSET))

        def _parse_until(data: object) -> float | None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | str | Unset, data)

        until = _parse_until(d.pop("until", UNSET))

        def _parse_embedding(data: object) -> list[float] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                embedding_type_0 = cast(list[float], data)

                return embedding_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[float] | None | Unset, data)

        embedding = _parse_embedding(d.pop("embedding", UNSET))

        patched_item = cls(
            item=item,
            tags=tags,
            numbers=numbers,
            available=available,
            published=published,
            until=until,
            embedding=embedding,
        )

        return patched_item
