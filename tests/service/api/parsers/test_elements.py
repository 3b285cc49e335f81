"""Bodies of which each line is an element: the same limits and reasons as for an array, and the number of the line."""

import json

import msgspec
import pytest

from service.api.parsers.elements import Body, Rejection
from service.api.parsers.rating_parser import read_ratings
from service.base.errors import InvalidRequest
from service.storage.events import RatingEvent

NOW_S = 1_700_000_000.5
GOOD = {"user": "u", "item": "i", "rating": 4}
LINE = json.dumps(GOOD).encode()
RATING = RatingEvent("u", "i", 4.0, NOW_S)


def read(content: bytes, **limits):
    return read_ratings(Body(content, is_lines=True), NOW_S, **limits)


@pytest.mark.parametrize(
    "content", [LINE + b"\n" + LINE, LINE + b"\r\n" + LINE + b"\r\n\r\n", b"\n \n" + LINE + b"\n\t\n" + LINE + b"\n"]
)
def test_each_line_is_an_element_and_empty_ones_are_none(content):
    assert read(content) == ([RATING, RATING], [])


@pytest.mark.parametrize("content", [b"", b"\n\n", b" "])
def test_no_line_is_no_element(content):
    assert read(content) == ([], [])


def test_a_bad_line_is_named_by_index_and_line():
    lines = [
        LINE,
        b"",
        b'{"user": "u"',
        LINE,
        b"[1]",
        b"\xff",
        json.dumps(GOOD | {"rating": "x"}).encode(),
        b"[" * 9000,
    ]
    intake = read(b"\n".join(lines))
    assert intake.accepted == [RATING, RATING]
    assert [(one.index, one.line) for one in intake.rejected] == [(1, 3), (3, 5), (4, 6), (5, 7), (6, 8)]
    reasons = [one.error for one in intake.rejected]
    assert reasons[0] == "Invalid line: expected JSON, got something else (Expecting ',' delimiter in column 13)"
    assert reasons[1].startswith("Invalid rating object: expected an object, got")
    assert reasons[3] == "Invalid rating: expected a number, got text"


@pytest.mark.parametrize("content", [LINE + b" " + LINE, LINE.replace(b", ", b",\n"), b"[" + LINE + b"]"])
def test_an_element_is_exactly_one_line(content):
    intake = read(LINE + b"\n" + content)
    assert intake.accepted == [RATING]
    assert intake.rejected


def test_the_number_of_lines_is_bounded_before_they_are_parsed():
    assert len(read((LINE + b"\n") * 3, max_ratings=3).accepted) == 3
    for content in ((LINE + b"\n") * 4, b"\n" * 10**6 + LINE):
        with pytest.raises(InvalidRequest, match="expected at most 3 lines, got"):
            read(content, max_ratings=3)


def test_only_lines_have_a_number():
    assert msgspec.json.encode(Rejection(0, "bad")) == b'{"index":0,"error":"bad"}'
    assert msgspec.json.encode(Rejection(0, "bad", 1)) == b'{"index":0,"error":"bad","line":1}'


TIMES = {"2023-11-14T22:13:20Z": 1.7e9, "2023-11-14 23:13:20.5+01:00": 1.7e9 + 0.5, "2023-11-14": 1699920000.0}


@pytest.mark.parametrize("is_lines", [False, True])
def test_dates_and_datetimes_are_timestamps_too(is_lines):
    elements = [json.dumps(GOOD | {"timestamp": text}).encode() for text in TIMES]
    content = b"\n".join(elements) if is_lines else b"[" + b",".join(elements) + b"]"
    intake = read_ratings(Body(content, is_lines=is_lines), NOW_S)
    assert [rating.timestamp for rating in intake.accepted] == list(TIMES.values())


def test_another_text_is_no_timestamp():
    with pytest.raises(
        InvalidRequest, match=r"Invalid timestamp: expected Unix seconds, or a date .*, got '1700000000'"
    ):
        read_ratings(Body(json.dumps(GOOD | {"timestamp": "1700000000"}).encode()), NOW_S)
