import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.base.ids import check_id
from service.storage import documents
from service.storage.documents import Arm, Document, Experiment
from service.storage.errors import BadEntry, NewerEntry
from service.storage.events import (
    ITEMS_PER_ENTRY,
    LATEST_EVENT_S,
    ZERO,
    Entry,
    Merge,
    RatingColumns,
    RatingEvent,
    Retraction,
    StreamId,
    TypedEvent,
    encode_document,
    encode_events,
    encode_items,
    encode_merge,
    encode_ratings,
    encode_retraction,
    encode_subject,
    encode_unmark,
    encode_users,
    parse_entry,
    portions,
)
from service.storage.item_changes import ItemChange
from service.storage.log.segment import entries_of, table_of
from service.storage.sources import Source, Unmark
from service.storage.user_changes import UserChange

AT = StreamId(5000, 1)
ids = st.text(min_size=1, max_size=64).filter(lambda text: text.isprintable())


def fields(*ratings: dict[str, object]) -> dict[bytes, bytes]:
    return {b"v": b"1", b"ratings": json.dumps(ratings).encode()}


def test_ids_compare_as_numbers_and_survive_text() -> None:
    assert StreamId.parse("9-2") < StreamId.parse("10-0") < StreamId.parse("10-11")
    assert str(StreamId.parse("1700000000000-3")) == "1700000000000-3"
    assert StreamId(0, 0) == ZERO


def test_the_parts_of_stream_ids_have_63_bits() -> None:
    largest = 2**63 - 1
    assert StreamId.parse(f"{largest}-{largest}") == (largest, largest)
    for text in (f"{largest + 1}-0", f"0-{largest + 1}"):
        with pytest.raises(ValueError, match="Invalid stream id"):
            StreamId.parse(text)


@pytest.mark.parametrize("text", ["", "5", "5-", "-5", "5-1-1", "a-b", "5-1 ", "٣-1", "5.0-1", "1" * 20 + "-0"])
def test_malformed_stream_ids_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid stream id"):
        StreamId.parse(text)


@given(ids, ids, st.one_of(st.none(), st.floats(-1e6, 1e6)), st.floats(0, 4e9))
def test_encoded_events_are_parsed(user: str, item: str, rating: float | None, timestamp: float) -> None:
    events = [RatingEvent(user, item, rating, timestamp), RatingEvent("u", "i", 1.0, 0.0)]
    entry = parse_entry(AT, encode_ratings(events))
    assert (entry.kind, entry.ratings, entry.id) == ("rating", events, AT)


def test_items_are_parsed() -> None:
    changes = [
        ItemChange("a/b é", tags={"genre": ["x"], "mood": None}, numbers=None, until=1.7e9),
        ItemChange("i", op="delete"),
    ]
    entry = parse_entry(AT, encode_items(changes))
    assert (entry.kind, entry.items, entry.n_rows) == ("item", changes, 2)


def test_items_are_applied_in_smaller_batches_than_ratings() -> None:
    changes = [ItemChange("i")] * ITEMS_PER_ENTRY
    entries = [Entry(StreamId(5, n), "item", items=changes) for n in range(3)]
    assert [len(portion) for portion in portions(entries)] == [1, 1, 1]


@given(ids, ids, st.floats(-1e6, 1e6), st.floats(0, 4e9), st.one_of(st.none(), ids))
def test_encoded_typed_events_are_parsed(user: str, item: str, value: float, timestamp: float, one: str | None) -> None:
    events = [TypedEvent(user, item, "view", value, timestamp, one), TypedEvent("u", "i", "other", timestamp=0.0)]
    entry = parse_entry(AT, encode_events(events))
    assert (entry.kind, entry.events, entry.ratings, entry.n_rows) == ("event", events, [], 2)


@given(ids, st.integers(0, 2**63 - 1), st.sampled_from(["", "k", "k" * 64]))
def test_a_source_is_parsed_beside_ratings_and_events(name: str, offset: int, owner: str) -> None:
    source = Source(name, offset, owner)
    for fields in (encode_ratings([RatingEvent("u", "i", 1.0, 0.0)], source), encode_events([], source)):
        assert parse_entry(AT, fields).source == source
    assert parse_entry(AT, encode_ratings([])).source is None
    for unmark in (Unmark(name, owner), Unmark(name, None)):
        assert parse_entry(AT, encode_unmark(unmark)) == Entry(AT, "unmark", unmark=unmark)


def test_an_event_that_another_producer_wrote_has_defaults() -> None:
    entry = parse_entry(AT, {b"v": b"1", b"events": b'[{"user": "u", "item": "i", "type": "view"}]'})
    assert entry.events == [TypedEvent("u", "i", "view", 1.0, 5.0, None)]


def test_subjects_and_noop() -> None:
    assert parse_entry(AT, encode_subject("forget", "a/b é")).subject == "a/b é"
    assert parse_entry(AT, encode_subject("hide", "x")).kind == "hide"
    assert parse_entry(AT, encode_subject("show", "x")).kind == "show"
    assert parse_entry(AT, {b"v": b"noop"}).kind == "noop"


@pytest.mark.parametrize("document", [Document("scenario", "a/b é", '{"n":5}'), Document("scenario", "a")])
def test_documents_are_parsed(document: Document) -> None:
    assert parse_entry(AT, encode_document(document)) == Entry(AT, "document", document=document)


def test_merges_are_parsed_and_are_a_batch_of_their_own() -> None:
    merge = Merge("a/b é", "b")
    entry = parse_entry(AT, encode_merge(merge))
    assert entry == Entry(AT, "merge", merge=merge)
    assert entries_of(table_of([entry]).to_batches()[0]) == [entry]
    assert [len(portion) for portion in portions([entry, entry])] == [1, 1]
    with pytest.raises(ValueError, match="expected two users"):
        encode_merge(Merge("a", "a"))


def test_retractions_are_parsed() -> None:
    entry = parse_entry(AT, encode_retraction(Retraction("a/b é", "order-1")))
    assert entry == Entry(AT, "retract", retract=Retraction("a/b é", "order-1"))
    assert entries_of(table_of([entry, entry]).to_batches()[0]) == [entry, entry]
    assert entry.users == {"a/b é"}


def test_an_entry_says_whom_it_names_what_it_adds_and_what_it_costs() -> None:
    rating, event = RatingEvent("u", "i", 1.0, 1.0), TypedEvent("v", "i", "view", timestamp=1.0)
    told: list[tuple[Entry, tuple[set[str], bool, int, int]]] = [
        (Entry(AT, "rating", [rating, RatingEvent("w", "i", None, 1.0)]), ({"u", "w"}, True, 2, 2)),
        (Entry(AT, "rating", [RatingEvent("w", "i", None, 1.0)]), ({"w"}, False, 1, 1)),
        (Entry(AT, "event", events=[event, event]), ({"v"}, True, 2, 2)),
        (Entry(AT, "item", items=[ItemChange("i"), ItemChange("j", op="delete")]), (set(), True, 20, 2)),
        (Entry(AT, "item", items=[ItemChange("j", op="delete")]), (set(), False, 10, 1)),
        (Entry(AT, "user", user_changes=[UserChange("u", tags={"x": ["y"]})]), ({"u"}, True, 10, 1)),
        (Entry(AT, "user", user_changes=[UserChange("u")]), ({"u"}, False, 10, 1)),
        (Entry(AT, "merge", merge=Merge("u", "v")), ({"u", "v"}, False, 1000, 0)),
        (Entry(AT, "retract", retract=Retraction("u", "e")), ({"u"}, False, 10, 0)),
        (Entry(AT, "forget", subject="u"), ({"u"}, False, 0, 0)),
        (Entry(AT, "hide", subject="i"), (set(), False, 0, 0)),
    ]
    for entry, expected in told:
        assert (entry.users, entry.adds, entry.cost, entry.n_rows) == expected


def test_fields_that_older_versions_do_not_know_stand_beside_what_needs_them_alone() -> None:
    plain, attributed = (TypedEvent("u", "i", "view", 1.0, 1.0, None, one) for one in (None, "x"))
    assert b"attributed" not in encode_events([plain])
    assert encode_events([plain, attributed])[b"attributed"] == b"1"
    assert b"shown" not in encode_items([ItemChange("i", tags={"x": ["y"]})])
    for change in (ItemChange("i", title="t"), ItemChange("i", url=None), ItemChange("i", image="http://a/b")):
        fields = encode_items([ItemChange("j"), change])
        assert fields[b"shown"] == b"1"
        assert parse_entry(AT, fields).items[1] == change


def test_a_batch_ends_with_the_entry_that_fills_it() -> None:
    rating = RatingEvent("u", "i", 1.0, 1.0)
    entries = [
        Entry(StreamId(5, n), "rating", [rating] * size) for n, size in enumerate((999, 1, 600, 399, 1, 3, 1000))
    ]
    assert [[len(entry.ratings) for entry in portion] for portion in portions(entries)] == [
        [999, 1],
        [600, 399, 1],
        [3, 1000],
    ]
    assert [len(portion) for portion in portions(entries[:1])] == [1]


def test_time_of_acceptance_stands_in_for_a_missing_timestamp() -> None:
    entry = parse_entry(AT, fields({"user": "u", "item": "i", "rating": 3}))
    assert entry.ratings == [RatingEvent("u", "i", 3.0, 5.0)]


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {b"v": b"1", b"merge": b'{"user": "a", "into": "a"}'},
        {b"v": b"1", b"merge": b'{"user": "a"}'},
        {b"v": b"1", b"merge": b'{"user": "a", "into": ""}'},
        {b"v": b"1", b"merge": b'{"user": "a", "into": "b"}', b"forget": b"a"},
        {b"v": b"1", b"merge": b'{"user": "a", "into": "b"}', b"source": b'{"name": "s", "offset": 1}'},
        {b"v": b"1", b"retract": b'{"user": "a"}'},
        {b"v": b"1", b"retract": b'{"user": "a", "event_id": ""}'},
        {b"v": b"1", b"retract": b'{"user": "a", "event_id": "e"}', b"source": b'{"name": "s", "offset": 1}'},
        {b"ratings": b"[]"},
        {b"v": b"1"},
        {b"v": b"1", b"forget": b"u", b"hide": b"i"},
        {b"v": b"1", b"forget": b"u", b"source": b'{"name": "a", "offset": 1}'},
        {b"v": b"1", b"source": b'{"name": "a", "offset": 1}'},
        {b"v": b"1", b"ratings": b"[]", b"source": b'{"name": "a", "offset": -1}'},
        {b"v": b"1", b"ratings": b"[]", b"source": b'{"name": "", "offset": 1}'},
        {b"v": b"1", b"ratings": b"[]", b"owner": b"k"},
        {b"v": b"1", b"ratings": b"[]", b"source": b'{"name": "a", "offset": 1, "owner": "k"}'},
        {b"v": b"1", b"ratings": b"[]", b"source": b'{"name": "a", "offset": 1}', b"owner": b"k" * 65},
        {b"v": b"1", b"ratings": b"[]", b"source": b'{"name": "a", "offset": 1}', b"owner": b""},
        {b"v": b"1", b"ratings": b"[]", b"source": b'{"name": "%s", "offset": 1}' % ("é" * 129).encode()},
        {b"v": b"1", b"unmark": b'{"name": "%s", "owner": null}' % ("é" * 129).encode()},
        {b"v": b"1", b"unmark": b'{"name": "a", "owner": "%s"}' % (b"k" * 65)},
        {b"v": b"1", b"ratings": b"[]", b"attributed": b"1"},
        {b"v": b"1", b"events": b"[]", b"shown": b"1"},
        {b"v": b"1", b"forget": b""},
        {b"v": b"1", b"forget": b"\xff"},
        {b"v": b"1", b"hide": b"x" * 257},
        {b"v": b"1", b"items": b"{}"},
        {b"v": b"1", b"items": b'[{"item": ""}]'},
        {b"v": b"1", b"items": b'[{"item": "i", "price": 1}]'},
        {b"v": b"1", b"items": b'[{"item": "i", "published": 1700000000000}]'},
        {b"v": b"1", b"document": b'{"kind": "scenario", "name": ""}'},
        {b"v": b"1", b"document": b'{"kind": "scenario", "name": "a", "body": "{"}'},
        {b"v": b"1", b"document": b'{"kind": "scenario", "name": "a", "since": 1}'},
        *(
            {b"v": b"1", b"document": msgspec.json.encode({"kind": "experiment", "name": "a", "body": body})}
            for body in (
                '{"arms": [], "salt": "s"}',
                '{"arms": [{"model": "a", "share": 0}], "salt": "s"}',
                '{"arms": [{"model": "a", "share": 50}, {"model": "b", "share": 100.5}], "salt": "s"}',
            )
        ),
        {b"v": b"1", b"ratings": b"[{"},
        {b"v": b"1", b"ratings": b"{}"},
        {b"v": b"1", b"events": b"[]", b"ratings": b"[]"},
        {b"v": b"1", b"retract": msgspec.json.encode(Retraction("é" * 129, "e"))},
        {b"v": b"1", b"retract": msgspec.json.encode(Retraction("u", "日" * 100))},
        {b"v": b"1", b"events": b'[{"user": "u", "item": "i"}]'},
        {b"v": b"1", b"events": b'[{"user": "u", "item": "i", "type": ""}]'},
        {b"v": b"1", b"events": b'[{"user": "u", "item": "i", "type": "view", "event_id": ""}]'},
        {b"v": b"1", b"events": b'[{"user": "u", "item": "i", "type": "view", "value": null}]'},
        {b"v": b"1", b"events": b'[{"user": "u", "item": "i", "type": "view", "recommendation_id": "x.y"}]'},
        fields({"user": "u", "item": "i"}),
        fields({"user": "u", "item": "i", "rating": "4"}),
        fields({"user": "u", "item": "i", "rating": True}),
        fields({"user": "u", "item": "i", "rating": 1e7}),
        fields({"user": "u", "item": "i", "rating": math.nan}),
        fields({"user": "u", "item": "i", "rating": math.inf}),
        fields({"user": "", "item": "i", "rating": 1}),
        fields({"user": 7, "item": "i", "rating": 1}),
        fields({"user": "é" * 129, "item": "i", "rating": 1}),
        {b"v": b"1", b"ratings": b'[{"user": "u", "item": "%s", "rating": 1}]' % ("é" * 129).encode()},
        fields({"user": "u" * 257, "item": "i", "rating": 1}),
        fields({"user": "\ud800", "item": "i", "rating": 1}),
        fields({"user": "u", "item": "i", "rating": 1, "extra": 1}),
        fields({"user": "u", "item": "i", "rating": 1}, {"user": "u", "item": "i", "rating": 1, "timestamp": "now"}),
    ],
)
def test_bad_entries_say_why(bad: dict[bytes, bytes]) -> None:
    with pytest.raises(BadEntry, match="Invalid"):
        parse_entry(AT, bad)


@pytest.mark.parametrize(
    "newer",
    [
        {b"v": b"2", b"ratings": b"[]"},
        {b"v": b"2", b"ratings": b"not even JSON"},
        {b"v": b"1", b"like": b"x"},
        {b"v": b"1", b"ratings": b"[]", b"origin": b"x"},
        {b"v": b"1", b"document": b'{"kind": "recipe", "name": "a"}'},
    ],
)
def test_entries_of_a_newer_version_are_not_bad(newer: dict[bytes, bytes]) -> None:
    with pytest.raises(NewerEntry, match="upgrade this process"):
        parse_entry(AT, newer)


@pytest.mark.parametrize("good", ["a", "a/b?c#d", "é" * 128, "x" * 256, "日本", "\x00", " "])
def test_legal_ids(good: str) -> None:
    assert check_id(good) == good


@pytest.mark.parametrize("bad", ["", "x" * 257, "é" * 129, "\ud800"])
def test_illegal_ids(bad: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid id|surrogates"):
        check_id(bad)


NUMBERS = st.one_of(
    st.integers(-6, 10**6).map(float),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.decimals(-1_000_000, 1_000_000, places=9).map(float),
    st.sampled_from([0.0, -0.0, 0.1, 4.5, 1e-9, 1e-7, 2.0**53, 999999.999999999]),
)
TIMES = st.one_of(
    st.decimals(0, 2**33, places=7).map(float), st.floats(0, LATEST_EVENT_S), st.integers(0, 10**10).map(float)
)
LINES = st.lists(st.builds(RatingEvent, ids, ids, st.one_of(st.none(), NUMBERS), TIMES), min_size=1, max_size=4)
PIECES = st.sampled_from([*'"\\,}{[]-.09e \x00é', "null", ""])


@given(LINES)
def test_columns_have_the_ratings_of_the_general_parser(ratings: list[RatingEvent]) -> None:
    columns = RatingColumns.read(msgspec.json.encode(ratings))
    if columns is None:  # an escape, or a number with many digits
        return
    assert list(columns) == ratings
    signs = [[math.copysign(1, one.rating or 0) for one in rows] for rows in (columns, ratings)]
    assert signs[0] == signs[1]


@given(LINES, st.data())
def test_no_other_json_is_read_into_columns(ratings: list[RatingEvent], data: st.DataObject) -> None:
    """What the general parser refuses, or reads in another way, is never read into columns."""
    content = msgspec.json.encode(ratings).decode()
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.integers(0, len(content)))
        content = content[:first] + data.draw(PIECES) + content[first + data.draw(st.integers(0, 3)) :]
    columns = RatingColumns.read(content.encode())
    if columns is not None:
        assert parse_entry(AT, {b"v": b"1", b"ratings": content.encode()}).ratings == columns


def test_the_ratings_of_a_usual_entry_are_columns() -> None:
    now = 1_764_201_600.1234567
    ratings = [RatingEvent(f"user-{n}", f"é/{n}", [None, 4.5, -1.0, 3.0][n % 4], now + n / 7) for n in range(100)]
    entry = parse_entry(AT, encode_ratings(ratings))
    assert isinstance(entry.ratings, RatingColumns)
    assert (list(entry.ratings), entry.n_rows, entry.ratings[-1]) == (ratings, 100, ratings[-1])
    assert entry.ratings[98:] == ratings[98:]
    assert entry.ratings == ratings and entry.ratings not in (ratings[1:], 7)
    parts = [ratings[:2], entry.ratings, ratings[:1], []]
    for n in range(len(parts) + 1):
        joined = RatingColumns.joined(parts[:n])
        assert (len(joined), list(joined)) == (sum(map(len, parts[:n])), [one for part in parts[:n] for one in part])


@pytest.mark.parametrize("length", [0, 257])
def test_ids_of_many_ratings_are_checked(length: int) -> None:
    one = RatingEvent("é" * (length // 2) + "x" * (length % 2), "i", 1.0, 1.0)
    ratings = [RatingEvent("u", "i", 1.0, 1.0)] * 99 + [one]
    with pytest.raises(BadEntry):
        parse_entry(AT, encode_ratings(ratings))


def test_bytes_that_are_no_text_are_refused_in_many_ratings_too() -> None:
    content = encode_ratings([RatingEvent("user", "i", 1.0, 1.0)] * 100)[b"ratings"].replace(b"user", b"us\xffr", 2)
    with pytest.raises(BadEntry):
        parse_entry(AT, {b"v": b"1", b"ratings": content.replace(b'"us\xffr"', b'"user"', 1)})


def test_an_experiment_with_a_filter_stops_older_processes() -> None:
    """They would give an arm to everybody."""
    arms = [Arm("a", 50), Arm("b", 50)]
    bodies = [documents.encode(Experiment(arms, "s", filter_)).decode() for filter_ in (None, '["tag","x",["y"]]')]
    everybody, some = (encode_document(Document("experiment", "e", body)) for body in bodies)
    assert (b"filtered" in everybody, some[b"filtered"]) == (False, b"1")
    assert parse_entry(ZERO, some).document == Document("experiment", "e", bodies[1])
    with pytest.raises(BadEntry):
        parse_entry(ZERO, {**encode_ratings([]), b"filtered": b"1"})


def test_attributes_of_users_go_through_the_stream_and_the_log() -> None:
    changes = [UserChange("u", tags={"x": ["y"]}), UserChange("v", numbers={"n": None}, op="patch")]
    entry = parse_entry(AT, encode_users(changes))
    assert (entry.kind, entry.user_changes, entry.n_rows, entry.users) == ("user", changes, 2, {"u", "v"})
    (batch,) = table_of([entry]).to_batches()
    assert entries_of(batch) == [entry]
    for wrong in (b"{}", b'[{"user": ""}]', b'[{"user": "u", "tags": {"x": [""]}}]', b'[{"user": "u", "title": "t"}]'):
        with pytest.raises(BadEntry):
            parse_entry(AT, {b"v": b"1", b"users": wrong})
