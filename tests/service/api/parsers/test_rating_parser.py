"""Each element of a body is judged alone, and nothing good is lost to a bad neighbor."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.errors import MalformedBody
from service.api.parsers.elements import Body
from service.api.parsers.rating_parser import read_ratings
from service.base.errors import InvalidRequest
from service.storage.events import RatingEvent, StreamId, encode_ratings, parse_entry

NOW_S = 1_700_000_000.5
GOOD = {"user": "u", "item": "i", "rating": 4}


def read(document, **limits):
    return read_ratings(Body(json.dumps(document).encode()), NOW_S, **limits)


def test_one_object_is_one_rating():
    assert read(GOOD).accepted == [RatingEvent("u", "i", 4.0, NOW_S)]


def test_timestamp_of_the_client_is_kept():
    assert read([GOOD | {"timestamp": 12}]).accepted[0].timestamp == 12


BAD = {
    "rating: got bool": GOOD | {"rating": True},
    "rating: got str": GOOD | {"rating": "5"},
    "rating: null": GOOD | {"rating": None},
    "rating: NaN": GOOD | {"rating": math.nan},
    "rating: infinite": GOOD | {"rating": math.inf},
    "rating: beyond a million": GOOD | {"rating": 1e7},
    "rating: huge integer": GOOD | {"rating": 10**400},
    "user: number": GOOD | {"user": 7},
    "user: empty": GOOD | {"user": ""},
    "user: a megabyte": GOOD | {"user": "x" * 1_000_000},
    "user: 257 bytes in 129 characters": GOOD | {"user": "x" + "é" * 128},
    "item: null": GOOD | {"item": None},
    "item: lone surrogate": GOOD | {"item": "\ud800"},
    "timestamp: text": GOOD | {"timestamp": "now"},
    "timestamp: NaN": GOOD | {"timestamp": math.nan},
    "timestamp: divide milliseconds by 1,000": GOOD | {"timestamp": 1_700_000_000_000},
    "rating object: missing field": {"user": "u", "item": "i"},
    "rating object: unknown field": GOOD | {"stars": 5},
    "rating object: number": 7,
    "rating object: null": None,
    "rating object: array": [GOOD],
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_element_is_named_by_index_and_field(name):
    intake = read([GOOD, BAD[name], GOOD])
    assert len(intake.accepted) == 2
    assert [rejection.index for rejection in intake.rejected] == [1]
    assert intake.rejected[0].error.startswith(f"Invalid {name.split(':')[0]}: ")


@pytest.mark.parametrize("name", [name for name in BAD if isinstance(BAD[name], dict)])
def test_a_single_bad_object_is_refused(name):
    with pytest.raises(InvalidRequest, match=f"Invalid {name.split(':')[0]}"):
        read(BAD[name])


def test_three_bad_among_a_hundred():
    batch: list[object] = [GOOD | {"item": str(index)} for index in range(100)]
    batch[3], batch[50], batch[99] = GOOD | {"rating": "x"}, 1, {}
    intake = read(batch)
    assert len(intake.accepted) == 97
    assert [rejection.index for rejection in intake.rejected] == [3, 50, 99]


def test_scale_is_checked_where_set():
    intake = read([GOOD, GOOD | {"rating": 0.5}, GOOD | {"rating": 5.1}], scale=(1, 5))
    assert [rejection.index for rejection in intake.rejected] == [1, 2]
    assert "expected a number from 1 to 5, got 5.1" in intake.rejected[1].error


@pytest.mark.parametrize(
    "body", [b"", b"[", b'[{"user":"u"', b"nonsense", b'"text"', b"7", b"null", b"\xff", b"[" * 40_000]
)
def test_bodies_other_than_objects_and_arrays_are_malformed(body):
    with pytest.raises(MalformedBody):
        read_ratings(Body(body), NOW_S)


def test_an_empty_array_is_nothing():
    assert read([]) == ([], [])


def test_too_many_ratings_are_refused_as_a_whole():
    with pytest.raises(InvalidRequest, match="at most 2 ratings, got 3"):
        read([GOOD] * 3, max_ratings=2)


ids = st.text(min_size=1, max_size=80)


@given(st.lists(st.tuples(ids, ids, st.floats(-1e6, 1e6))))
def test_accepted_ratings_pass_the_parser_of_the_stream(triples):
    """What POST acknowledges is never a bad entry later."""
    body = msgspec.json.encode([{"user": u, "item": i, "rating": r} for u, i, r in triples])
    intake = read_ratings(Body(body), NOW_S, max_ratings=10_000)
    assert intake.rejected == []
    assert parse_entry(StreamId(1, 0), encode_ratings(intake.accepted)).ratings == intake.accepted


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["user", "item", "rating", "timestamp", "x"]), inner)
    ),
    max_leaves=8,
)


@given(st.lists(json_values, max_size=5))
def test_any_array_is_judged_without_a_crash(document):
    intake = read(document)
    assert len(intake.accepted) + len(intake.rejected) == len(document)
    parse_entry(StreamId(1, 0), encode_ratings(intake.accepted))
