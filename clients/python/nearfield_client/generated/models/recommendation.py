from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.recommendation_fallback import (
    RecommendationFallback,
    check_recommendation_fallback,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.scored_item import ScoredItem


T = TypeVar("T", bound="Recommendation")


@_attrs_define
class Recommendation:
    """The answer to `Recommend` for one user; `user` is None for an anonymous one.

    Attributes:
        experiment, arm, recommendation_id: only in an experiment whose arm has answered; events bring the id back.
        eligible: items that pass the filter and may be shown; only if there is a filter.
        next: the cursor of the next page, null after the last one; only if the query has a cursor.

    Attributes:
        user (None | str):
        items (list[ScoredItem]):
        personalized (bool):
        model (None | str):
        model_version (None | str):
        as_of (str):
        warnings (list[str]):
        fallback (RecommendationFallback | Unset):
        eligible (int | Unset):
        next_ (None | str | Unset):
        experiment (str | Unset):
        arm (str | Unset):
        recommendation_id (str | Unset):
        took_ms (float | Unset):
        request_id (str | Unset):
    """

    user: None | str
    items: list[ScoredItem]
    personalized: bool
    model: None | str
    model_version: None | str
    as_of: str
    warnings: list[str]
    fallback: RecommendationFallback | Unset = UNSET
    eligible: int | Unset = UNSET
    next_: None | str | Unset = UNSET
    experiment: str | Unset = UNSET
    arm: str | Unset = UNSET
    recommendation_id: str | Unset = UNSET
    took_ms: float | Unset = UNSET
    request_id: str | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        user: None | str
        user = self.user

        items = []
        for items_item_data in self.items:
            items_item = items_item_data.to_dict()
            items.append(items_item)

        personalized = self.personalized

        model: None | str
        model = self.model

        model_version: None | str
        model_version = self.model_version

        as_of = self.as_of

        warnings = self.warnings

        fallback: str | Unset = UNSET
        if not isinstance(self.fallback, Unset):
            fallback = self.fallback

        eligible = self.eligible

        next_: None | str | Unset
        if isinstance(self.next_, Unset):
            next_ = UNSET
        else:
            next_ = self.next_

        experiment = self.experiment

        arm = self.arm

        recommendation_id = self.recommendation_id

        took_ms = self.took_ms

        request_id = self.request_id

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "user": user,
                "items": items,
                "personalized": personalized,
                "model": model,
                "model_version": model_version,
                "as_of": as_of,
                "warnings": warnings,
            }
        )
        if fallback is not UNSET:
            field_dict["fallback"] = fallback
        if eligible is not UNSET:
            field_dict["eligible"] = eligible
        if next_ is not UNSET:
            field_dict["next"] = next_
        if experiment is not UNSET:
            field_dict["experiment"] = experiment
        if arm is not UNSET:
            field_dict["arm"] = arm
        if recommendation_id is not UNSET:
            field_dict["recommendation_id"] = recommendation_id
        if took_ms is not UNSET:
            field_dict["took_ms"] = took_ms
        if request_id is not UNSET:
            field_dict["request_id"] = request_id

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.scored_item import ScoredItem  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_user(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        user = _parse_user(d.pop("user"))

        items = []
        _items = d.pop("items")
        for items_item_data in _items:
            items_item = ScoredItem.from_dict(items_item_data)

            items.append(items_item)

        personalized = d.pop("personalized")

        def _parse_model(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        model = _parse_model(d.pop("model"))

        def _parse_model_version(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        model_version = _parse_model_version(d.pop("model_version"))

        as_of = d.pop("as_of")

        warnings = cast(list[str], d.pop("warnings"))

        _fallback = d.pop("fallback", UNSET)
        fallback: RecommendationFallback | Unset
        if isinstance(_fallback, Unset):
            fallback = UNSET
        else:
            fallback = check_recommendation_fallback(_fallback)

        eligible = d.pop("eligible", UNSET)

        def _parse_next_(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        next_ = _parse_next_(d.pop("next", UNSET))

        experiment = d.pop("experiment", UNSET)

        arm = d.pop("arm", UNSET)

        recommendation_id = d.pop("recommendation_id", UNSET)

        took_ms = d.pop("took_ms", UNSET)

        request_id = d.pop("request_id", UNSET)

        recommendation = cls(
            user=user,
            items=items,
            personalized=personalized,
            model=model,
            model_version=model_version,
            as_of=as_of,
            warnings=warnings,
            fallback=fallback,
            eligible=eligible,
            next_=next_,
            experiment=experiment,
            arm=arm,
            recommendation_id=recommendation_id,
            took_ms=took_ms,
            request_id=request_id,
        )

        recommendation.additional_properties = d
        return recommendation

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
