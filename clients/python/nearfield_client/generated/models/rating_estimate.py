from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="RatingEstimate")


@_attrs_define
class RatingEstimate:
    """`estimate` is a rating within the scale of the training, or a probability for an implicit model.

    Attributes:
        personalized: whether the user has rated an item that the model was trained on.
        warnings: the ids without ratings, which count as average.

    Attributes:
        user (str):
        item (str):
        estimate (float):
        personalized (bool):
        model (str):
        model_version (str):
        as_of (str):
        warnings (list[str]):
    """

    user: str
    item: str
    estimate: float
    personalized: bool
    model: str
    model_version: str
    as_of: str
    warnings: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        user = self.user

        item = self.item

        estimate = self.estimate

        personalized = self.personalized

        model = self.model

        model_version = self.model_version

        as_of = self.as_of

        warnings = self.warnings

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "user": user,
                "item": item,
                "estimate": estimate,
                "personalized": personalized,
                "model": model,
                "model_version": model_version,
                "as_of": as_of,
                "warnings": warnings,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        user = d.pop("user")

        item = d.pop("item")

        estimate = d.pop("estimate")

        personalized = d.pop("personalized")

        model = d.pop("model")

        model_version = d.pop("model_version")

        as_of = d.pop("as_of")

        warnings = cast(list[str], d.pop("warnings"))

        rating_estimate = cls(
            user=user,
            item=item,
            estimate=estimate,
            personalized=personalized,
            model=model,
            model_version=model_version,
            as_of=as_of,
            warnings=warnings,
        )

        rating_estimate.additional_properties = d
        return rating_estimate

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
