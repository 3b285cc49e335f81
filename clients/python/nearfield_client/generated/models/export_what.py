from typing import Literal

ExportWhat = Literal["events", "items", "ratings"]

EXPORT_WHAT_VALUES: set[ExportWhat] = {
    "events",
    "items",
    "ratings",
}


def check_export_what(value: str) -> ExportWhat:
    if value in EXPORT_WHAT_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {EXPORT_WHAT_VALUES!r}"
    )
