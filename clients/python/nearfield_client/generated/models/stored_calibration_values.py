from typing import Literal

StoredCalibrationValues = Literal["counts", "ratings"]

STORED_CALIBRATION_VALUES_VALUES: set[StoredCalibrationValues] = {
    "counts",
    "ratings",
}


def check_stored_calibration_values(value: str) -> StoredCalibrationValues:
    if value in STORED_CALIBRATION_VALUES_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {STORED_CALIBRATION_VALUES_VALUES!r}"
    )
