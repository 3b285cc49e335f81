from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.stored_calibration_values import (
    StoredCalibrationValues,
    check_stored_calibration_values,
)
from ..types import UNSET, Unset

T = TypeVar("T", bound="StoredCalibration")


@_attrs_define
class StoredCalibration:
    """The values that a training derived from its data: see `gpu.calibration.Calibration`.

    Attributes:
        middle: ratings below it are dislikes; null: no rating is a dislike.
        scale, event_scale: lowest and highest value; others are clipped. null: no upper bound.

    Attributes:
        values (StoredCalibrationValues):
        middle (float | None):
        scale (list[float | None]):
        is_damped (bool):
        typical (float):
        alpha (float):
        regularization (float):
        density (float):
        unit (float):
        origin (float):
        prior (float):
        as_of_s (float | Unset):
        usual_weight (float | Unset):
        event_weight (float | Unset):
        event_scale (list[float | None] | Unset):
        event_damped (bool | Unset):
        event_typical (float | Unset):
    """

    values: StoredCalibrationValues
    middle: float | None
    scale: list[float | None]
    is_damped: bool
    typical: float
    alpha: float
    regularization: float
    density: float
    unit: float
    origin: float
    prior: float
    as_of_s: float | Unset = UNSET
    usual_weight: float | Unset = UNSET
    event_weight: float | Unset = UNSET
    event_scale: list[float | None] | Unset = UNSET
    event_damped: bool | Unset = UNSET
    event_typical: float | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        values: str = self.values

        middle: float | None
        middle = self.middle

        scale = []
        for scale_item_data in self.scale:
            scale_item: float | None
            scale_item = scale_item_data
            scale.append(scale_item)

        is_damped = self.is_damped

        typical = self.typical

        alpha = self.alpha

        regularization = self.regularization

        density = self.density

        unit = self.unit

        origin = self.origin

        prior = self.prior

        as_of_s = self.as_of_s

        usual_weight = self.usual_weight

        event_weight = self.event_weight

        event_scale: list[float | None] | Unset = UNSET
        if not isinstance(self.event_scale, Unset):
            event_scale = []
            for event_scale_item_data in self.event_scale:
                event_scale_item: float | None
                event_scale_item = event_scale_item_data
                event_scale.append(event_scale_item)

        event_damped = self.event_damped

        event_typical = self.event_typical

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "values": values,
                "middle": middle,
                "scale": scale,
                "is_damped": is_damped,
                "typical": typical,
                "alpha": alpha,
                "regularization": regularization,
                "density": density,
                "unit": unit,
                "origin": origin,
                "prior": prior,
            }
        )
        if as_of_s is not UNSET:
            field_dict["as_of_s"] = as_of_s
        if usual_weight is not UNSET:
            field_dict["usual_weight"] = usual_weight
        if event_weight is not UNSET:
            field_dict["event_weight"] = event_weight
        if event_scale is not UNSET:
            field_dict["event_scale"] = event_scale
        if event_damped is not UNSET:
            field_dict["event_damped"] = event_damped
        if event_typical is not UNSET:
            field_dict["event_typical"] = event_typical

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        values = check_stored_calibration_values(d.pop("values"))

        def _parse_middle(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        middle = _parse_middle(d.pop("middle"))

        scale = []
        _scale = d.pop("scale")
        for scale_item_data in _scale:

            def _parse_scale_item(data: object) -> float | None:
                if data is None:
                    return data
                return cast(float | None, data)

            scale_item = _parse_scale_item(scale_item_data)

            scale.append(scale_item)

        is_damped = d.pop("is_damped")

        typical = d.pop("typical")

        alpha = d.pop("alpha")

        regularization = d.pop("regularization")

        density = d.pop("density")

        unit = d.pop("unit")

        origin = d.pop("origin")

        prior = d.pop("prior")

        as_of_s = d.pop("as_of_s", UNSET)

        usual_weight = d.pop("usual_weight", UNSET)

        event_weight = d.pop("event_weight", UNSET)

        _event_scale = d.pop("event_scale", UNSET)
        event_scale: list[float | None] | Unset = UNSET
        if _event_scale is not UNSET:
            event_scale = []
            for event_scale_item_data in _event_scale:

                def _parse_event_scale_item(data: object) -> float | None:
                    if data is None:
                        return data
                    return cast(float | None, data)

                event_scale_item = _parse_event_scale_item(event_scale_item_data)

                event_scale.append(event_scale_item)

        event_damped = d.pop("event_damped", UNSET)

        event_typical = d.pop("event_typical", UNSET)

        stored_calibration = cls(
            values=values,
            middle=middle,
            scale=scale,
            is_damped=is_damped,
            typical=typical,
            alpha=alpha,
            regularization=regularization,
            density=density,
            unit=unit,
            origin=origin,
            prior=prior,
            as_of_s=as_of_s,
            usual_weight=usual_weight,
            event_weight=event_weight,
            event_scale=event_scale,
            event_damped=event_damped,
            event_typical=event_typical,
        )

        stored_calibration.additional_properties = d
        return stored_calibration

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
