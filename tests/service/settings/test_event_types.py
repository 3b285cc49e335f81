import pytest

from service.settings.errors import InvalidSetting
from service.settings.event_types import DEFAULT_TYPES, parse_event_types
from service.settings.half_lives import parse_half_lives
from service.settings.settings import Settings


def test_types_have_weights_and_seen_is_zero() -> None:
    assert dict(DEFAULT_TYPES) == {"view": 1, "cart": 3, "purchase": 10, "dislike": -2, "impression": 0}
    assert parse_event_types(" a=0.5 , b-2=seen") == {"a": 0.5, "b-2": 0}
    assert Settings(events="a=2").event_types == {"a": 2}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "got ''"),
        ("View=1", "lower-case letters, digits, - and _, got 'View=1'"),
        ("a=1,a=2", "different names .* got 'a=2'"),
        ("x" * 33 + "=1", "Invalid events"),
        ("a", "Invalid weight of a in events: expected seen or a number from -1000 to 1000, got ''"),
        ("a=much", "got 'much'"),
        ("a=nan", "got 'nan'"),
        ("a=1001", "got '1001'"),
        (",".join(f"a{n}=1" for n in range(33)), "Invalid events: expected at most 32 types, got 33"),
    ],
)
def test_what_is_no_type_or_weight_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_event_types(text)
    with pytest.raises((InvalidSetting, ValueError), match=reason):
        Settings(events=text)


def test_half_lives_have_names_and_seconds() -> None:
    assert parse_half_lives("90m, 12h,7d") == {"90m": 5400, "12h": 43_200, "7d": 604_800}
    for text in ("", "1", "0d", "1w", "1d,1d", "1.5d", "1d,,7d", "99999d", ",".join(f"{n}d" for n in range(1, 10))):
        with pytest.raises(ValueError, match="Invalid half_lives"):
            Settings(half_lives=text)


def test_types_that_lists_leave_out_are_those_of_events_or_rating() -> None:
    assert Settings(seen_types="purchase, rating").seen_types == ("purchase", "rating")
    assert Settings(seen_types="").seen_types == ()
    with pytest.raises(ValueError, match="Invalid seen_types: expected some of rating, a, got 'view'"):
        Settings(events="a=2", seen_types="view")
