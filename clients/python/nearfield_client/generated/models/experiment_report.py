from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.arm_report import ArmReport
    from ..models.difference import Difference


T = TypeVar("T", bound="ExperimentReport")


@_attrs_define
class ExperimentReport:
    """An experiment, what its arms have led to, and how they compare with the first one.

    Attributes:
        experiment (str):
        salt (str):
        stream_id (str):
        confidence (float):
        arms (list[ArmReport]):
        differences (list[Difference]):
        as_of (str):
    """

    experiment: str
    salt: str
    stream_id: str
    confidence: float
    arms: list[ArmReport]
    differences: list[Difference]
    as_of: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        experiment = self.experiment

        salt = self.salt

        stream_id = self.stream_id

        confidence = self.confidence

        arms = []
        for arms_item_data in self.arms:
            arms_item = arms_item_data.to_dict()
            arms.append(arms_item)

        differences = []
        for differences_item_data in self.differences:
            differences_item = differences_item_data.to_dict()
            differences.append(differences_item)

        as_of = self.as_of

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "experiment": experiment,
                "salt": salt,
                "stream_id": stream_id,
                "confidence": confidence,
                "arms": arms,
                "differences": differences,
                "as_of": as_of,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.arm_report import ArmReport  # noqa: PLC0415
        from ..models.difference import Difference  # noqa: PLC0415

        d = dict(src_dict)
        experiment = d.pop("experiment")

        salt = d.pop("salt")

        stream_id = d.pop("stream_id")

        confidence = d.pop("confidence")

        arms = []
        _arms = d.pop("arms")
        for arms_item_data in _arms:
            arms_item = ArmReport.from_dict(arms_item_data)

            arms.append(arms_item)

        differences = []
        _differences = d.pop("differences")
        for differences_item_data in _differences:
            differences_item = Difference.from_dict(differences_item_data)

            differences.append(differences_item)

        as_of = d.pop("as_of")

        experiment_report = cls(
            experiment=experiment,
            salt=salt,
            stream_id=stream_id,
            confidence=confidence,
            arms=arms,
            differences=differences,
            as_of=as_of,
        )

        experiment_report.additional_properties = d
        return experiment_report

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
