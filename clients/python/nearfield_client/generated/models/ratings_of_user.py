from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.rating import Rating


T = TypeVar("T", bound="RatingsOfUser")


@_attrs_define
class RatingsOfUser:
    """The answer to `UserRatings`; `n_ratings` is the number of all ratings of the user.

    Attributes:
        user (str):
        n_ratings (int):
        ratings (list[Rating]):
        as_of (str):
    """

    user: str
    n_ratings: int
    ratings: list[Rating]
    as_of: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        user = self.user

        n_ratings = self.n_ratings

        ratings = []
        for ratings_item_data in self.ratings:
            ratings_item = ratings_item_data.to_dict()
            ratings.append(ratings_item)

        as_of = self.as_of

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "user": user,
                "n_ratings": n_ratings,
                "ratings": ratings,
                "as_of": as_of,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.rating import Rating  # noqa: PLC0415

        d = dict(src_dict)
        user = d.pop("user")

        n_ratings = d.pop("n_ratings")

        ratings = []
        _ratings = d.pop("ratings")
        for ratings_item_data in _ratings:
            ratings_item = Rating.from_dict(ratings_item_data)

            ratings.append(ratings_item)

        as_of = d.pop("as_of")

        ratings_of_user = cls(
            user=user,
            n_ratings=n_ratings,
            ratings=ratings,
            as_of=as_of,
        )

        ratings_of_user.additional_properties = d
        return ratings_of_user

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
