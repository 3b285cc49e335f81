from typing import Literal

ExportFormat = Literal["arrow", "ndjson", "parquet"]

EXPORT_FORMAT_VALUES: set[ExportFormat] = {
    "arrow",
    "ndjson",
    "parquet",
}


def check_export_format(value: str) -> ExportFormat:
    if value in EXPORT_FORMAT_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {EXPORT_FORMAT_VALUES!r}"
    )
