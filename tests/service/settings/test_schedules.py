import calendar
import time

import pytest

from service.settings.errors import InvalidSetting
from service.settings.schedules import Schedule, parse_schedules
from service.settings.settings import Settings


def text_of(time_s: int) -> str:
    return time.strftime("%a %Y-%m-%d %H:%M:%S", time.gmtime(time_s))


def at(text: str) -> int:
    return calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S"))


def test_lines_have_fields_an_action_and_a_name() -> None:
    text = " 0 3 * * *   train culsh ;\n\n30 5 * * mon lists  weekly digest \n"
    assert parse_schedules(text) == [
        Schedule("0 3 * * * train culsh", "0 3 * * *", "train", "culsh"),
        Schedule("30 5 * * mon lists weekly digest", "30 5 * * mon", "lists", "weekly digest"),
    ]
    assert parse_schedules("") == parse_schedules(" ; \n") == []
    assert Settings(schedules=text, default_models=["als"]).schedules == text


@pytest.mark.parametrize(
    ("cron", "now", "last", "following"),
    [
        ("0 3 * * *", "2026-11-27 03:00:00", "Fri 2026-11-27 03:00:00", "Sat 2026-11-28 03:00:00"),
        ("0 3 * * *", "2026-11-27 02:59:59", "Thu 2026-11-26 03:00:00", "Fri 2026-11-27 03:00:00"),
        ("30 5 * * 1", "2026-11-27 12:00:01", "Mon 2026-11-23 05:30:00", "Mon 2026-11-30 05:30:00"),
        ("*/20 * 1,15 * *", "2026-11-27 12:00:01", "Sun 2026-11-15 23:40:00", "Tue 2026-12-01 00:00:00"),
        ("0 0 L * *", "2026-11-27 12:00:01", "Sat 2026-10-31 00:00:00", "Mon 2026-11-30 00:00:00"),
        ("0 0 29 2 *", "2026-11-27 12:00:01", "Thu 2024-02-29 00:00:00", "Tue 2028-02-29 00:00:00"),
    ],
)
def test_times_are_those_of_cron_in_utc(cron: str, now: str, last: str, following: str) -> None:
    (schedule,) = parse_schedules(f"{cron} train als")
    assert text_of(schedule.last(at(now))) == last
    assert text_of(schedule.next(at(now))) == following


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("60 3 * * * train als", "Invalid minute of line 1 of schedules: expected 0 to 59, .* got '60'"),
        ("0 3 * * * train als; 0 24 * * * train als", "Invalid hour of line 2 of schedules: expected 0 to 23, .*'24'"),
        ("0 3 0 * * train als", "Invalid day of the month of line 1 of schedules: expected 1 to 31"),
        ("0 3 * 13 * train als", "Invalid month of line 1 of schedules: expected 1 to 12"),
        ("0 3 * * 8 train als", "Invalid day of the week of line 1 of schedules: expected 0 to 7"),
        ("0 3 * * train als", "Invalid day of the week of line 1 of schedules: .* got 'train'"),
        ("@daily train als", "Invalid minute of line 1 of schedules: .* got '@daily'"),
        ("*/0 3 * * * train als", "Invalid minute of line 1"),
        ("0 0 31 4 * train als", "Invalid day of line 1 of schedules: expected one that the month has, got '0 0 31 4"),
        ("0 3", "Invalid line 1 of schedules: expected five fields of cron in UTC, then train MODEL or lists SCENARIO"),
        ("0 3 * * * train", "Invalid line 1 of schedules: .* got '0 3 \\* \\* \\* train'"),
        ("0 3 * * * export all", "Invalid line 1 of schedules: .* got '0 3 \\* \\* \\* export all'"),
        ("0 3 * * * train als\n0 3 * * *  train als", "Invalid line 2 of schedules: expected each line once"),
        (f"0 3 * * * lists {'x' * 257}", "Invalid id: expected 1 to 256 bytes, got 257"),
        (
            "0 3 * * * train clush",
            "Invalid model of schedules: expected an algorithm or one .*als.*, got '0 3 .* clush",
        ),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Settings(schedules=text)


def test_a_service_with_a_store_has_no_lists() -> None:
    assert Settings(store="s3://bucket", schedules="0 3 * * * train als").schedules
    with pytest.raises(ValueError, match=r"Invalid schedules: expected train alone with a store, .* lists weekly'"):
        Settings(store="s3://bucket", schedules="30 5 * * 1 lists weekly")


def test_a_data_set_may_have_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data_sets=("shop", "news"), schedules="0 3 * * * train als")
    monkeypatch.setenv("NEARFIELD_SHOP__SCHEDULES", "0 4 * * * train ease")
    assert [(one.schedules or "")[:3] for one in settings.each()] == ["0 3", "0 4", "0 3"]
    monkeypatch.setenv("NEARFIELD_SHOP__SCHEDULES", "0 4 * * * train")
    with pytest.raises(InvalidSetting, match="Invalid variable NEARFIELD_SHOP__SCHEDULES: Invalid line 1 of schedules"):
        settings.each()
