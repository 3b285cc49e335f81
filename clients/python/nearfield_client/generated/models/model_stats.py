from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ModelStats")


@_attrs_define
class ModelStats:
    """A live model.

    Attributes:
        age_s: seconds since its training.
        ratings_since: ratings and other rows of the log after its training; it has learned them online.
        refits_waiting: refits of trained items and their users that are due.

    Attributes:
        model (str):
        model_version (str):
        age_s (float):
        ratings_since (int):
        refits_waiting (int):
    """

    model: str
    model_version: str
    age_s: float
    ratings_since: int
    refits_waiting: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        model = self.model

        model_version = self.model_version

        age_s = self.age_s

        ratings_since = self.ratings_since

        refits_waiting = self.refits_waiting

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "model": model,
                "model_version": model_version,
                "age_s": age_s,
                "ratings_since": ratings_since,
                "refits_waiting": refits_waiting,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        model = d.pop("model")

        model_version = d.pop("model_version")

        age_s = d.pop("age_s")

        ratings_since = d.pop("ratings_since")

        refits_waiting = d.pop("refits_waiting")

        model_stats = cls(
            model=model,
            model_version=model_version,
            age_s=age_s,
            ratings_since=ratings_since,
            refits_waiting=refits_waiting,
        )

        model_stats.additional_properties = d
        return model_stats

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
