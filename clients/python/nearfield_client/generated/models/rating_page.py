from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.listed_rating import ListedRating


T = TypeVar("T", bound="RatingPage")


@_attrs_define
class RatingPage:
    """The answer to `AllRatings`, in no meaningful order; `next` is the cursor of the next page, null after the last.

    A page may have fewer ratings than wanted, or none, although there are more.

    Attributes:
        ratings (list[ListedRating]):
        next_ (None | str):
        as_of (str):
    """

    ratings: list[ListedRating]
    next_: None | str
    as_of: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        ratings = []
        for ratings_item_data in self.ratings:
            ratings_item = ratings_item_data.to_dict()
            ratings.append(ratings_item)

        next_: None | str
        next_ = self.next_

        as_of = self.as_of

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "ratings": ratings,
                "next": next_,
                "as_of": as_of,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.listed_rating import ListedRating  # noqa: PLC0415

        d = dict(src_dict)
        ratings = []
        _ratings = d.pop("ratings")
        for ratings_item_data in _ratings:
            ratings_item = ListedRating.from_dict(ratings_item_data)

            ratings.append(ratings_item)

        def _parse_next_(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        next_ = _parse_next_(d.pop("next"))

        as_of = d.pop("as_of")

        rating_page = cls(
            ratings=ratings,
            next_=next_,
            as_of=as_of,
        )

        rating_page.additional_properties = d
        return rating_page

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
