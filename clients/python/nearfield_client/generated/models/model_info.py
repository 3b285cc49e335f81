from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.model_info_metrics import ModelInfoMetrics
    from ..models.model_info_parameters import ModelInfoParameters
    from ..models.stored_calibration import StoredCalibration


T = TypeVar("T", bound="ModelInfo")


@_attrs_define
class ModelInfo:
    """One snapshot.

    Attributes:
        version: its name.
        algorithm: how it was trained.
        name: the name under which it can be live.
        shadow: whether it learns and is tested in this process without answering; `live` is then false.
        revision: how many times a user was forgotten in it.
        live: whether it answers in this process.
        metrics: on the pairs held out of its training.
        watermark: the last entry it was trained on.
        parameters: its hyperparameters; null for those that training derived from the data.
        calibration: the values that training derived from the data.
        rating_scale: lowest and highest rating. Estimates stay within; for a model that makes only lists it is the
            scale of `calibration`. Null: no upper bound.
        error: why it cannot be used, or null.

    Attributes:
        version (str):
        algorithm (str):
        live (bool):
        metrics (ModelInfoMetrics | Unset):
        watermark (None | str | Unset):
        parameters (ModelInfoParameters | Unset):
        calibration (None | StoredCalibration | Unset):
        rating_scale (list[float | None] | None | Unset):
        revision (int | Unset):
        error (None | str | Unset):
        name (str | Unset):
        shadow (bool | Unset):
    """

    version: str
    algorithm: str
    live: bool
    metrics: ModelInfoMetrics | Unset = UNSET
    watermark: None | str | Unset = UNSET
    parameters: ModelInfoParameters | Unset = UNSET
    calibration: None | StoredCalibration | Unset = UNSET
    rating_scale: list[float | None] | None | Unset = UNSET
    revision: int | Unset = UNSET
    error: None | str | Unset = UNSET
    name: str | Unset = UNSET
    shadow: bool | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.stored_calibration import StoredCalibration  # noqa: PLC0415

        version = self.version

        algorithm = self.algorithm

        live = self.live

        metrics: dict[str, Any] | Unset = UNSET
        if not isinstance(self.metrics, Unset):
            metrics = self.metrics.to_dict()

        watermark: None | str | Unset
        if isinstance(self.watermark, Unset):
            watermark = UNSET
        else:
            watermark = self.watermark

        parameters: dict[str, Any] | Unset = UNSET
        if not isinstance(self.parameters, Unset):
            parameters = self.parameters.to_dict()

        calibration: dict[str, Any] | None | Unset
        if isinstance(self.calibration, Unset):
            calibration = UNSET
        elif isinstance(self.calibration, StoredCalibration):
            calibration = self.calibration.to_dict()
        else:
            calibration = self.calibration

        rating_scale: list[float | None] | None | Unset
        if isinstance(self.rating_scale, Unset):
            rating_scale = UNSET
        elif isinstance(self.rating_scale, list):
            rating_scale = []
            for rating_scale_type_0_item_data in self.rating_scale:
                rating_scale_type_0_item: float | None
                rating_scale_type_0_item = rating_scale_type_0_item_data
                rating_scale.append(rating_scale_type_0_item)

        else:
            rating_scale = self.rating_scale

        revision = self.revision

        error: None | str | Unset
        if isinstance(self.error, Unset):
            error = UNSET
        else:
            error = self.error

        name = self.name

        shadow = self.shadow

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "version": version,
                "algorithm": algorithm,
                "live": live,
            }
        )
        if metrics is not UNSET:
            field_dict["metrics"] = metrics
        if watermark is not UNSET:
            field_dict["watermark"] = watermark
        if parameters is not UNSET:
            field_dict["parameters"] = parameters
        if calibration is not UNSET:
            field_dict["calibration"] = calibration
        if rating_scale is not UNSET:
            field_dict["rating_scale"] = rating_scale
        if revision is not UNSET:
            field_dict["revision"] = revision
        if error is not UNSET:
            field_dict["error"] = error
        if name is not UNSET:
            field_dict["name"] = name
        if shadow is not UNSET:
            field_dict["shadow"] = shadow

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.model_info_metrics import ModelInfoMetrics  # noqa: PLC0415
        from ..models.model_info_parameters import ModelInfoParameters  # noqa: PLC0415
        from ..models.stored_calibration import StoredCalibration  # noqa: PLC0415

        d = dict(src_dict)
        version = d.pop("version")

        algorithm = d.pop("algorithm")

        live = d.pop("live")

        _metrics = d.pop("metrics", UNSET)
        metrics: ModelInfoMetrics | Unset
        if isinstance(_metrics, Unset):
            metrics = UNSET
        else:
            metrics = ModelInfoMetrics.from_dict(_metrics)

        def _parse_watermark(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        watermark = _parse_watermark(d.pop("watermark", UNSET))

        _parameters = d.pop("parameters", UNSET)
        parameters: ModelInfoParameters | Unset
        if isinstance(_parameters, Unset):
            parameters = UNSET
        else:
            parameters = ModelInfoParameters.from_dict(_parameters)

        def _parse_calibration(data: object) -> None | StoredCalibration | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                calibration_type_0 = StoredCalibration.from_dict(data)

                return calibration_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | StoredCalibration | Unset, data)

        calibration = _parse_calibration(d.pop("calibration", UNSET))

        def _parse_rating_scale(data: object) -> list[float | None] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                rating_scale_type_0 = []
                _rating_scale_type_0 = data
                for rating_scale_type_0_item_data in _rating_scale_type_0:

                    def _parse_rating_scale_type_0_item(data: object) -> float | None:
                        if data is None:
                            return data
                        return cast(float | None, data)

                    rating_scale_type_0_item = _parse_rating_scale_type_0_item(
                        rating_scale_type_0_item_data
                    )

                    rating_scale_type_0.append(rating_scale_type_0_item)

                return rating_scale_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[float | None] | None | Unset, data)

        rating_scale = _parse_rating_scale(d.pop("rating_scale", UNSET))

        revision = d.pop("revision", UNSET)

        def _parse_error(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        error = _parse_error(d.pop("error", UNSET))

        name = d.pop("name", UNSET)

        shadow = d.pop("shadow", UNSET)

        model_info = cls(
            version=version,
            algorithm=algorithm,
            live=live,
            metrics=metrics,
            watermark=watermark,
            parameters=parameters,
            calibration=calibration,
            rating_scale=rating_scale,
            revision=revision,
            error=error,
            name=name,
            shadow=shadow,
        )

        model_info.additional_properties = d
        return model_info

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
