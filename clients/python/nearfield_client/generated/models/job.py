from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.job_state import JobState, check_job_state

if TYPE_CHECKING:
    from ..models.job_metrics import JobMetrics
    from ..models.job_params import JobParams
    from ..models.job_trials_item import JobTrialsItem
    from ..models.stored_calibration import StoredCalibration


T = TypeVar("T", bound="Job")


@_attrs_define
class Job:
    """One job as clients see it.

    Attributes:
        kind: `train`, `forget` or `lists`.
        name, shadow: the name of the model, and whether it becomes a shadow.
        params: hyperparameters over the defaults; of `lists`, the body that was sent.
        state: `activating` while this process does not yet serve the promoted version.
        progress: 0 to 1.
        metrics: of the last epoch; after the end, of the held-out pairs.
        calibration: the values that a training derived from the data; set after the end.
        trials: the trainings that a search for parameters has tried; set after the end.
        promoted: whether the new version went live; None while undecided.
        version: the snapshot that a training wrote.
        backend: whether it trains on the host or the device, and why.
        reason: why it waits or was not promoted, or a remark about the result.
        error: why it failed.
        created_ms: Unix milliseconds at which it was submitted.

    Attributes:
        id (str):
        kind (str):
        state (JobState):
        progress (float):
        metrics (JobMetrics):
        algorithm (None | str):
        name (None | str):
        shadow (bool):
        params (JobParams):
        calibration (None | StoredCalibration):
        trials (list[JobTrialsItem]):
        promoted (bool | None):
        version (None | str):
        backend (None | str):
        reason (None | str):
        error (None | str):
        created_ms (int):
    """

    id: str
    kind: str
    state: JobState
    progress: float
    metrics: JobMetrics
    algorithm: None | str
    name: None | str
    shadow: bool
    params: JobParams
    calibration: None | StoredCalibration
    trials: list[JobTrialsItem]
    promoted: bool | None
    version: None | str
    backend: None | str
    reason: None | str
    error: None | str
    created_ms: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.stored_calibration import StoredCalibration  # noqa: PLC0415

        id = self.id

        kind = self.kind

        state: str = self.state

        progress = self.progress

        metrics = self.metrics.to_dict()

        algorithm: None | str
        algorithm = self.algorithm

        name: None | str
        name = self.name

        shadow = self.shadow

        params = self.params.to_dict()

        calibration: dict[str, Any] | None
        if isinstance(self.calibration, StoredCalibration):
            calibration = self.calibration.to_dict()
        else:
            calibration = self.calibration

        trials = []
        for trials_item_data in self.trials:
            trials_item = trials_item_data.to_dict()
            trials.append(trials_item)

        promoted: bool | None
        promoted = self.promoted

        version: None | str
        version = self.version

        backend: None | str
        backend = self.backend

        reason: None | str
        reason = self.reason

        error: None | str
        error = self.error

        created_ms = self.created_ms

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "kind": kind,
                "state": state,
                "progress": progress,
                "metrics": metrics,
                "algorithm": algorithm,
                "name": name,
                "shadow": shadow,
                "params": params,
                "calibration": calibration,
                "trials": trials,
                "promoted": promoted,
                "version": version,
                "backend": backend,
                "reason": reason,
                "error": error,
                "created_ms": created_ms,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.job_metrics import JobMetrics  # noqa: PLC0415
        from ..models.job_params import JobParams  # noqa: PLC0415
        from ..models.job_trials_item import JobTrialsItem  # noqa: PLC0415
        from ..models.stored_calibration import StoredCalibration  # noqa: PLC0415

        d = dict(src_dict)
        id = d.pop("id")

        kind = d.pop("kind")

        state = check_job_state(d.pop("state"))

        progress = d.pop("progress")

        metrics = JobMetrics.from_dict(d.pop("metrics"))

        def _parse_algorithm(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        algorithm = _parse_algorithm(d.pop("algorithm"))

        def _parse_name(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        name = _parse_name(d.pop("name"))

        shadow = d.pop("shadow")

        params = JobParams.from_dict(d.pop("params"))

        def _parse_calibration(data: object) -> None | StoredCalibration:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                calibration_type_0 = StoredCalibration.from_dict(data)

                return calibration_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | StoredCalibration, data)

        calibration = _parse_calibration(d.pop("calibration"))

        trials = []
        _trials = d.pop("trials")
        for trials_item_data in _trials:
            trials_item = JobTrialsItem.from_dict(trials_item_data)

            trials.append(trials_item)

        def _parse_promoted(data: object) -> bool | None:
            if data is None:
                return data
            return cast(bool | None, data)

        promoted = _parse_promoted(d.pop("promoted"))

        def _parse_version(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        version = _parse_version(d.pop("version"))

        def _parse_backend(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        backend = _parse_backend(d.pop("backend"))

        def _parse_reason(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        reason = _parse_reason(d.pop("reason"))

        def _parse_error(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        error = _parse_error(d.pop("error"))

        created_ms = d.pop("created_ms")

        job = cls(
            id=id,
            kind=kind,
            state=state,
            progress=progress,
            metrics=metrics,
            algorithm=algorithm,
            name=name,
            shadow=shadow,
            params=params,
            calibration=calibration,
            trials=trials,
            promoted=promoted,
            version=version,
            backend=backend,
            reason=reason,
            error=error,
            created_ms=created_ms,
        )

        job.additional_properties = d
        return job

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
