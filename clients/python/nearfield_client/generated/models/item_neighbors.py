from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.scored_item import ScoredItem


T = TypeVar("T", bound="ItemNeighbors")


@_attrs_define
class ItemNeighbors:
    """Items most similar to `item`.

        Attributes:
            neighbors: `score` is the share of equal signature bits, the partial correlation (`ease`), or the cosine of
    the
                factors.
            eligible: as in `Recommendation`.

        Attributes:
            item (str):
            neighbors (list[ScoredItem]):
            model (str):
            model_version (str):
            as_of (str):
            eligible (int | Unset):
            next_ (None | str | Unset):
    """

    item: str
    neighbors: list[ScoredItem]
    model: str
    model_version: str
    as_of: str
    eligible: int | Unset = UNSET
    next_: None | str | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        item = self.item

        neighbors = []
        for neighbors_item_data in self.neighbors:
            neighbors_item = neighbors_item_data.to_dict()
            neighbors.append(neighbors_item)

        model = self.model

        model_version = self.model_version

        as_of = self.as_of

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
                "item": item,
                "neighbors": neighbors,
                "model": model,
                "model_version": model_version,
                "as_of": as_of,
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
        item = d.pop("item")

        neighbors = []
        _neighbors = d.pop("neighbors")
        for neighbors_item_data in _neighbors:
            neighbors_item = ScoredItem.from_dict(neighbors_item_data)

            neighbors.append(neighbors_item)

        model = d.pop("model")

        model_version = d.pop("model_version")

        as_of = d.pop("as_of")

        eligible = d.pop("eligible", UNSET)

        def _parse_next_(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        next_ = _parse_next_(d.pop("next", UNSET))

        item_neighbors = cls(
            item=item,
            neighbors=neighbors,
            model=model,
            model_version=model_version,
            as_of=as_of,
            eligible=eligible,
            next_=next_,
        )

        item_neighbors.additional_properties = d
        return item_neighbors

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
