from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.scored_item_source import ScoredItemSource, check_scored_item_source
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.reason import Reason


T = TypeVar("T", bound="ScoredItem")


@_attrs_define
class ScoredItem:
    """One line of a list; lists are ordered by `score`, except for items with a source.

        Attributes:
            score: with the boost; None for a pin, which is not ranked.
            estimate: the estimated rating, as in `Estimate`; only of models that estimate ratings.
            boost: the part of the score that comes from boosts and showings; only if the query has `boosts` or
    `rotate`.
            source: why the item is at its place, if not for its score alone: to be explored, or as a pin.

        Attributes:
            item (str):
            score (float | None):
            estimate (float | Unset):
            reasons (list[Reason] | Unset):
            boost (float | Unset):
            source (ScoredItemSource | Unset):
    """

    item: str
    score: float | None
    estimate: float | Unset = UNSET
    reasons: list[Reason] | Unset = UNSET
    boost: float | Unset = UNSET
    source: ScoredItemSource | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        item = self.item

        score: float | None
        score = self.score

        estimate = self.estimate

        reasons: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.reasons, Unset):
            reasons = []
            for reasons_item_data in self.reasons:
                reasons_item = reasons_item_data.to_dict()
                reasons.append(reasons_item)

        boost = self.boost

        source: str | Unset = UNSET
        if not isinstance(self.source, Unset):
            source = self.source

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "item": item,
                "score": score,
            }
        )
        if estimate is not UNSET:
            field_dict["estimate"] = estimate
        if reasons is not UNSET:
            field_dict["reasons"] = reasons
        if boost is not UNSET:
            field_dict["boost"] = boost
        if source is not UNSET:
            field_dict["source"] = source

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.reason import Reason  # noqa: PLC0415

        d = dict(src_dict)
        item = d.pop("item")

        def _parse_score(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        score = _parse_score(d.pop("score"))

        estimate = d.pop("estimate", UNSET)

        _reasons = d.pop("reasons", UNSET)
        reasons: list[Reason] | Unset = UNSET
        if _reasons is not UNSET:
            reasons = []
            for reasons_item_data in _reasons:
                reasons_item = Reason.from_dict(reasons_item_data)

                reasons.append(reasons_item)

        boost = d.pop("boost", UNSET)

        _source = d.pop("source", UNSET)
        source: ScoredItemSource | Unset
        if isinstance(_source, Unset):
            source = UNSET
        else:
            source = check_scored_item_source(_source)

        scored_item = cls(
            item=item,
            score=score,
            estimate=estimate,
            reasons=reasons,
            boost=boost,
            source=source,
        )

        scored_item.additional_properties = d
        return scored_item

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
