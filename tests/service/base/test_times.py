"""Dates and datetimes of ISO 8601 as Unix seconds."""

import pytest

from service.base.times import unix_seconds

NOON = 1_700_049_600.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-11-15", NOON - 43200),
        ("2023-11-15T12:00", NOON),
        ("2023-11-15 12:00:00", NOON),
        ("2023-11-15T12:00:00Z", NOON),
        ("2023-11-15T12:00:00.25", NOON + 0.25),
        ("2023-11-15T12:00:00,250000999Z", NOON + 0.25),
        ("2023-11-15T14:00:00+02:00", NOON),
        ("2023-11-15T14:00:00+0200", NOON),
        ("2023-11-15T04:00:00-08", NOON),
        ("1969-12-31T23:59:59", -1.0),
        ("0001-01-01T00:00:00+23:59", -62135596800.0 - 86340),
        ("9999-12-31T23:59:59-23:59", 253402300799.0 + 86340),
    ],
)
def test_a_date_or_a_datetime_is_in_utc_unless_it_has_an_offset(text: str, seconds: float) -> None:
    assert unix_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "now", "1700000000", "20231115", "2023-W46-3", "2023-11", "2023-11-31", "2023-11-15T25:00", "2023-11-15x12:00",
     "2023-11-15T12", "15.11.2023", " 2023-11-15", "2023-11-15T12:00:00 UTC", "٢٠٢٣-11-15", "x" * 1000],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected Unix seconds, or a date or datetime such as 2023") as caught:
        unix_seconds(text)
    assert len(str(caught.value)) < 200
