from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.quality_report_measure import (
    QualityReportMeasure,
    check_quality_report_measure,
)

if TYPE_CHECKING:
    from ..models.quality_point import QualityPoint
    from ..models.quality_report_untested import QualityReportUntested
    from ..models.quality_result import QualityResult


T = TypeVar("T", bound="QualityReport")


@_attrs_define
class QualityReport:
    """How well a model foretold ratings and events before it learned them.

        Attributes:
            measure: `rmse` of estimated ratings, or `hit_rate`: the share of items among the first ten of a hundred.
            baseline: what `baseline` numbers are: the mean of the user's ratings, or the most popular items.
            since: the last entry before the first test of this process.
            window, decayed, all: the last results; all with the weight halved every thousand; all alike.
            untested: sampled ratings and events that were no test: of users or items that the model does not know, of
    pairs
                that it has learned before, and those that say nothing of what it foretells (dislikes, views,
    deletions).
            curve: from the oldest point to the newest.

        Attributes:
            model (str):
            model_version (str):
            algorithm (str):
            measure (QualityReportMeasure):
            baseline (str):
            since (str):
            window (QualityResult): Means over `n` results: of the model, and of the baseline in the same tests. Null
                without results.
            decayed (QualityResult): Means over `n` results: of the model, and of the baseline in the same tests. Null
                without results.
            all_ (QualityResult): Means over `n` results: of the model, and of the baseline in the same tests. Null without
                results.
            untested (QualityReportUntested):
            curve (list[QualityPoint]):
            as_of (str):
    """

    model: str
    model_version: str
    algorithm: str
    measure: QualityReportMeasure
    baseline: str
    since: str
    window: QualityResult
    decayed: QualityResult
    all_: QualityResult
    untested: QualityReportUntested
    curve: list[QualityPoint]
    as_of: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        model = self.model

        model_version = self.model_version

        algorithm = self.algorithm

        measure: str = self.measure

        baseline = self.baseline

        since = self.since

        window = self.window.to_dict()

        decayed = self.decayed.to_dict()

        all_ = self.all_.to_dict()

        untested = self.untested.to_dict()

        curve = []
        for curve_item_data in self.curve:
            curve_item = curve_item_data.to_dict()
            curve.append(curve_item)

        as_of = self.as_of

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "model": model,
                "model_version": model_version,
                "algorithm": algorithm,
                "measure": measure,
                "baseline": baseline,
                "since": since,
                "window": window,
                "decayed": decayed,
                "all": all_,
                "untested": untested,
                "curve": curve,
                "as_of": as_of,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.quality_point import QualityPoint  # noqa: PLC0415
        from ..models.quality_report_untested import QualityReportUntested  # noqa: PLC0415
        from ..models.quality_result import QualityResult  # noqa: PLC0415

        d = dict(src_dict)
        model = d.pop("model")

        model_version = d.pop("model_version")

        algorithm = d.pop("algorithm")

        measure = check_quality_report_measure(d.pop("measure"))

        baseline = d.pop("baseline")

        since = d.pop("since")

        window = QualityResult.from_dict(d.pop("window"))

        decayed = QualityResult.from_dict(d.pop("decayed"))

        all_ = QualityResult.from_dict(d.pop("all"))

        untested = QualityReportUntested.from_dict(d.pop("untested"))

        curve = []
        _curve = d.pop("curve")
        for curve_item_data in _curve:
            curve_item = QualityPoint.from_dict(curve_item_data)

            curve.append(curve_item)

        as_of = d.pop("as_of")

        quality_report = cls(
            model=model,
            model_version=model_version,
            algorithm=algorithm,
            measure=measure,
            baseline=baseline,
            since=since,
            window=window,
            decayed=decayed,
            all_=all_,
            untested=untested,
            curve=curve,
            as_of=as_of,
        )

        quality_report.additional_properties = d
        return quality_report

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
