from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="ArmBody")


@_attrs_define
class ArmBody:
    """An arm of an experiment.

    Attributes:
        model (str): Name of a model that answers.
        share (float): Percentage of users who get it.
    """

    model: str
    share: float

    def to_dict(self) -> dict[str, Any]:
        model = self.model

        share = self.share

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "model": model,
                "share": share,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        model = d.pop("model")

        share = d.pop("share")

        arm_body = cls(
            model=model,
            share=share,
        )

        return arm_body
