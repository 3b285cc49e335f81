"""Entries that another producer has written by hand: each one applies or is set aside, in the stream and in the log."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from service.base.recommendation_ids import RecommendationIds, ShownList
from service.base.signing import Signer
from service.engine.errors import UnknownDocument
from service.engine.queries.document_queries import ListDocuments
from service.engine.queries.source_queries import ListSources
from service.jobs.export_rows import rows_of
from service.storage.errors import BadEntry, NewerEntry
from service.storage.events import Entry, StreamId, TypedEvent, parse_entry
from service.storage.log.rating_log import RatingLog
from tests.service.extras.experiments.test_attributions import Counting
from tests.service.logs import commit

OURS = RecommendationIds(Signer(lambda: b"k" * 32)).of(ShownList("e", "1-0", "als", "v", "1-0"), "u")
FOREIGN_IDS = ["abc", "ä", ".", "a.b", "\ud800", base64.urlsafe_b64encode(b'["e"]').decode(), OURS[1:], OURS]
texts = st.sampled_from(["u", "v", "", "ä" * 129, "\ud800", "x\x00y", "\u2028"]) | st.text(max_size=5)
numbers = st.sampled_from([0, 1, -1, 1e6, 1e7, 1e300, -1e300, 2**63, 10**400, 1e-320]) | st.floats() | st.integers()
scalars = st.none() | st.booleans() | texts | numbers
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


def one_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have mostly these fields with these values, and sometimes anything else."""
    good = st.fixed_dictionaries({}, optional=fields)
    changed = st.tuples(good, st.dictionaries(st.sampled_from([*fields, "other"]), values, max_size=2))
    return good | changed.map(lambda pair: pair[0] | pair[1])


ids, names = st.sampled_from(["u", "v", "w"]), st.sampled_from(["a", "b"])
of_rating = one_of(user=ids, item=ids, rating=st.none() | numbers, timestamp=numbers)
of_event = one_of(
    user=ids,
    item=ids,
    type=st.sampled_from(["view", "purchase", "ü", "\ud800"]),
    value=numbers,
    timestamp=numbers,
    event_id=texts,
    recommendation_id=st.sampled_from(FOREIGN_IDS) | texts,
)
of_item = one_of(
    item=ids,
    op=st.sampled_from(["put", "patch", "delete"]),
    tags=st.none() | st.dictionaries(names, st.none() | st.lists(texts, max_size=3), max_size=2),
    numbers=st.none() | st.dictionaries(names, st.none() | numbers, max_size=2),
    available=st.none() | st.booleans(),
    published=st.none() | numbers,
    until=st.none() | numbers,
    embedding=st.none() | st.lists(numbers, max_size=3),
)
of_arm = one_of(model=st.sampled_from(["als", "ease"]), share=st.sampled_from([50, 100, 0, -1, 1e300]) | numbers)
bodies = one_of(arms=st.lists(of_arm, max_size=2), salt=texts).map(json.dumps) | st.sampled_from(
    ["{}", "", "[" * 5000, '{"arms":[],"salt":""}', '{"a":"\ud800"}', '"\\ud800"']
)
of_document = one_of(kind=st.sampled_from(["scenario", "experiment"]), name=ids, body=st.none() | bodies)
contents: dict[str, st.SearchStrategy[Any]] = {
    "ratings": st.lists(of_rating, max_size=3) | values,
    "events": st.lists(of_event, max_size=3) | values,
    "items": st.lists(of_item, max_size=3) | values,
    "document": of_document | values,
    "merge": one_of(user=ids, into=ids) | values,
    "retract": one_of(user=ids, event_id=ids) | values,
    "unmark": one_of(name=names, owner=st.none() | texts) | values,
}
sources = one_of(name=names, offset=st.integers(0, 2**63) | numbers) | values
raw = st.binary(max_size=20) | ids.map(str.encode)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@st.composite
def foreign_fields(draw: st.DrawFn) -> dict[bytes, bytes]:
    name = draw(st.sampled_from([*contents, "forget", "hide", "show"]))
    is_whole = name in contents and draw(st.integers(0, 9)) > 0
    fields = {b"v": b"1", name.encode(): encoded(draw(contents[name])) if is_whole else draw(raw)}
    if draw(st.integers(0, 4)) == 0:
        fields[b"source"] = encoded(draw(sources))
        if draw(st.booleans()):
            fields[b"owner"] = draw(raw)
    if draw(st.integers(0, 9)) == 0:
        fields[b"attributed"] = b"1"
    return fields


def judged(fields: dict[bytes, bytes], stream_id: StreamId) -> Entry:
    """What the reader of the stream makes of an entry."""
    try:
        return parse_entry(stream_id, fields)
    except BadEntry:
        return Entry(stream_id, "noop")


def shown(history: Counting) -> Any:
    """What people may ask for, and what two histories of the same entries have in common."""
    users, items = range(len(history.users)), range(len(history.items))
    documents = {
        (kind, one.name): history.documents.find(kind, one.name, UnknownDocument)[0]
        for kind in ("scenario", "experiment")
        for one in history.documents.list(ListDocuments(kind), "").documents
    }
    return json.dumps(
        [
            [history.table.row(row)[1].tolist() for row in users],
            [history.strengths.table.row(row)[1].tolist() for row in users],
            [str(history.catalog.attributes(row)) for row in items],
            [str(one) for one in documents.items()],
            [str(one) for one in history.sources.list(ListSources(99, 0), "").sources],
            history.attributions.of("e", "als")[0],
            history.users.ids(users),
            history.items.ids(items),
        ]
    )


@given(st.lists(foreign_fields(), min_size=1, max_size=6), st.sampled_from([1, 1_700_000_000_000, 2**63 - 99]))
@example([{b"v": b"1", b"document": encoded({"kind": "scenario", "name": "s", "body": "[" * 100_000})}], 1)
@settings(suppress_health_check=list(HealthCheck), max_examples=400, deadline=None)
def test_any_entry_applies_or_is_set_aside_and_the_log_agrees(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[bytes, bytes]], first_ms: int
) -> None:
    try:
        entries = [judged(fields, StreamId(first_ms + n, n)) for n, fields in enumerate(written)]
    except NewerEntry:  # a document of a kind that this version does not know: this process waits to be upgraded
        return
    streamed, loaded, log = Counting(), Counting(), RatingLog(tmp_path_factory.mktemp("log"))
    streamed.apply(entries)
    commit(log, entries)
    loaded.load(log)
    assert shown(loaded) == shown(streamed)
    for what in ("ratings", "events", "items"):
        for batch in rows_of(log, what, entries[-1].id).batches:
            batch.validate(full=True)


@pytest.mark.parametrize("foreign", [one for one in FOREIGN_IDS if one != OURS])
def test_a_recommendation_id_that_nobody_gave_sets_the_entry_aside(foreign: str) -> None:
    element = {"user": "u", "item": "i", "type": "view", "recommendation_id": foreign}
    with pytest.raises(BadEntry):
        parse_entry(StreamId(1, 0), {b"v": b"1", b"attributed": b"1", b"events": encoded([element])})


def test_a_log_of_older_versions_may_hold_such_an_id(tmp_path: Path) -> None:
    event = TypedEvent("u", "i", "view", 1.0, 0.0, recommendation_id="abc")
    log, history = RatingLog(tmp_path), Counting()
    commit(log, [Entry(StreamId(1, 0), "event", events=[event])])
    history.load(log)
    assert history.n_events == 1
    assert history.attributions.of("e", "als") == (0, {})


@pytest.mark.parametrize(
    "body",
    [
        '{"arms":[],"salt":"s"}',
        '{"arms":[{"model":"als","share":0}],"salt":"s"}',
        '{"arms":[{"model":"als","share":-5}],"salt":"s"}',
        '{"salt":"s"}',
        '{"arms":[{"model":"als","share":5}],"salt":"\\ud800"}',
        '{"arms":[{"model":"\\ud800","share":5}],"salt":"s"}',
        '"\ud800"',
        "[" * 100_000,
    ],
)
def test_an_experiment_that_nobody_could_be_in_is_set_aside(body: str) -> None:
    document = encoded({"kind": "experiment", "name": "e", "body": body})
    with pytest.raises(BadEntry):
        parse_entry(StreamId(1, 0), {b"v": b"1", b"document": document})
