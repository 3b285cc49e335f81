from typing import Literal

QualityReportMeasure = Literal["hit_rate", "rmse"]

QUALITY_REPORT_MEASURE_VALUES: set[QualityReportMeasure] = {
    "hit_rate",
    "rmse",
}


def check_quality_report_measure(value: str) -> QualityReportMeasure:
    if value in QUALITY_REPORT_MEASURE_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {QUALITY_REPORT_MEASURE_VALUES!r}"
    )
