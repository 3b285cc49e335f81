"""Undoing a source: afterwards the state is that of a service to which the source has sent nothing."""

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.engine.state.history import History
from service.jobs import undo_plan
from service.jobs.undo import MERGED, Undo, Undoing
from service.storage.events import (
    Entry,
    Merge,
    RatingEvent,
    Retraction,
    StreamId,
    TypedEvent,
    encode_events,
    encode_merge,
    encode_ratings,
)
from service.storage.log.rating_log import RatingLog
from service.storage.sources import Source
from tests.service.logs import commit
from tests.service.waiting import eventually
from tests.service.whole import Whole

UNDONE = Undo("file")
users, items = st.sampled_from("uvw"), st.sampled_from("abc")
sources = st.sampled_from([None, "file", "file", "other"])
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("rating"),
            sources,
            st.lists(st.tuples(users, items, st.none() | st.integers(1, 5)), min_size=1, max_size=4),
        ),
        st.tuples(
            st.just("event"),
            sources,
            st.lists(
                st.tuples(users, items, st.sampled_from(["view", "purchase", "impression"]), st.sampled_from("123")),
                min_size=1,
                max_size=4,
            ),
        ),
        st.tuples(st.just("merge"), st.none(), st.permutations("uvw").map(lambda ids: Merge(*ids[:2]))),
        st.tuples(st.just("forget"), st.none(), users),
    ),
    max_size=16,
)


def entry_of(ms: int, kind: Any, name: str | None, content: Any) -> Entry:
    at, source = StreamId(ms, 0), None if name is None else Source(name, ms)
    match kind:
        case "rating":
            ratings = [RatingEvent(user, item, value, float(ms)) for user, item, value in content]
            return Entry(at, kind, ratings, source=source)
        case "event":
            # An id that came by two ways stays: the first one counted.
            events = [TypedEvent(user, item, of, 1.0, float(ms), f"{name}{key}") for user, item, of, key in content]
            return Entry(at, kind, events=events, source=source)
        case "merge":
            return Entry(at, kind, merge=content)
    return Entry(at, kind, subject=content)


def ratings_left(entries: Sequence[Entry]) -> dict[tuple[str, str], tuple[float, float]]:
    """The last rating of each pair without those of the file, computed one by one."""
    clock, found = itertools.count(), dict[str, dict[str, tuple[int, float, float]]]()
    for entry in entries:
        for one in entry.ratings if entry.source is None or entry.source.name != "file" else ():
            of_user = found.setdefault(one.user, {})
            of_user.pop(one.item, None)
            if one.rating is not None:
                of_user[one.item] = next(clock), one.rating, one.timestamp
        if entry.kind == "forget":
            found.pop(str(entry.subject), None)
        elif entry.merge is not None:
            into = found.setdefault(entry.merge.into, {})
            theirs = found.pop(entry.merge.user, {})
            for item, (at, *rating) in sorted(theirs.items(), key=lambda one: one[1]):
                if item not in into or into[item][0] < at:
                    into[item] = (next(clock), *rating)  # type: ignore[assignment]
    return {(user, item): rating[1:] for user, its in found.items() for item, rating in its.items()}


def ratings_of(history: History) -> dict[tuple[str, str], tuple[float, float]]:
    found = undo_plan.Ratings.of(history, history.users, history.items)
    ids = zip(history.users.ids(found.pairs >> 32), history.items.ids(found.pairs & 0xFFFFFFFF), strict=True)
    return dict(zip(ids, zip(found.values.tolist(), found.timestamps.tolist(), strict=True), strict=True))


def sums_of(history: History) -> dict[tuple[str, str], float]:
    found = dict[tuple[str, str], float]()
    for user, item in itertools.product("uvw", "abc"):
        rows = history.users.row(user), history.items.row(item)
        if None not in rows:
            (total,), _ = history.strengths.sums(rows[0], np.array(rows[1:], np.int32))  # type: ignore[arg-type]
            found |= {} if np.isnan(total) else {(user, item): float(total)}
    return found


def planned(log: RatingLog, folder: Path, undo: Undo = UNDONE) -> tuple[dict[str, float], list[Any]]:
    """What an undoing counts, and its steps."""
    path = folder / "plan"
    metrics = undo_plan.write(log, undo, log.last_id(), path)
    lines = path.read_bytes().splitlines()[1:]
    return metrics, [msgspec.json.decode(line, type=list[RatingEvent] | Retraction) for line in lines]


@given(steps)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_left_is_as_if_the_file_had_never_come(given_steps):
    entries = [entry_of(ms, *step) for ms, step in enumerate(given_steps, 1)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ratings").mkdir()
        log = RatingLog(folder / "ratings")
        if not entries:
            return
        commit(log, entries)
        metrics, found = planned(log, folder)
        written = [
            Entry(StreamId(1000 + n, 0), "rating", step)
            if isinstance(step, list)
            else Entry(StreamId(1000 + n, 0), "retract", retract=step)
            for n, step in enumerate(found)
        ]
        history, without = History(), History()
        history.load(log)
        rest = [one for one in entries if one.source is None or one.source.name != "file"]
        for applied, to in ((written, history), (rest, without)):
            if applied:
                to.apply(applied)
        assert ratings_of(history) == ratings_left(entries) == ratings_of(without)
        if not any(entry.merge for entry in entries):  # after which a sum only loses what an event had added
            assert sums_of(history) == sums_of(without)
        assert metrics["ratings_deleted"] + metrics["ratings_restored"] == sum(
            len(step) for step in found if isinstance(step, list)
        )
        if written:
            commit(log, written)
        assert planned(log, folder)[1] == [], "a second undoing has nothing to do"


def from_file(whole: Whole, *ratings: tuple[str, str, float], offset: int = 1, name: str = "file") -> StreamId:
    sent = [RatingEvent(user, item, value, 1.0) for user, item, value in ratings]
    return whole.append(encode_ratings(sent, Source(name, offset, "write")))


def rated(whole: Whole) -> dict[tuple[str, str], float]:
    return {pair: value for pair, (value, _) in ratings_of(whole.engine.history).items()}


def undone(whole: Whole, undo: Undo = UNDONE) -> dict[str, float]:
    job = whole.ended(whole.jobs.submit_undo(undo))
    assert (job.kind, job.state, job.error) == ("undo", "succeeded", None)
    whole.see(whole.stream.last_id())
    return {name.removeprefix("ratings_"): int(n) for name, n in job.metrics.items() if n}


def test_a_job_takes_a_file_back_once_and_the_file_may_come_again(whole: Whole) -> None:
    whole.rate(("ann", "before", 2.0), ("bob", "x", 1.0))
    from_file(whole, ("ann", "before", 5.0), ("ann", "new", 4.0), ("bob", "since", 3.0), ("gone", "x", 3.0))
    from_file(whole, ("ann", "of another file", 4.0), name="file2")
    view = TypedEvent("bob", "y", "view", timestamp=1.0)
    sent = [msgspec.structs.replace(view, event_id="e1"), view]
    whole.append(encode_events(sent, Source("file", 2, "write")))
    whole.rate(("bob", "since", 1.0))
    whole.subject("forget", "gone")
    before = rated(whole)
    expected = {"deleted": 1, "restored": 1, "kept": 1, "events_taken_back": 1, "events_kept": 1}

    assert undone(whole, Undo("file", dry_run=True)) == expected
    assert undone(whole, Undo("file", key="another key")) == {}
    assert rated(whole) == before
    assert undone(whole, Undo("file", key="write")) == expected
    after = before | {("ann", "before"): 2.0}
    del after["ann", "new"]
    assert rated(whole) == after
    assert undone(whole) == {"kept": 3, "events_kept": 1}, "nothing is left to take back"
    from_file(whole, ("ann", "new", 4.0))
    assert rated(whole) == after | {("ann", "new"): 4.0}


def test_what_comes_after_the_plan_stays(whole: Whole, tmp_path: Path) -> None:
    last = from_file(whole, ("ann", "a", 5.0), ("ann", "b", 5.0), ("bob", "a", 5.0), ("carl", "a", 5.0))
    whole.stream.request_commit(last)
    eventually(lambda: whole.log.last_id() >= last)
    plan = tmp_path / "plan"
    undo_plan.write(whole.log, UNDONE, last, plan)
    whole.rate(("ann", "a", 1.0))
    whole.append(encode_merge(Merge("carl", "dora")))
    last = whole.subject("forget", "bob")
    undoing = Undoing(whole.stream, whole.log, UNDONE, plan)
    assert [*undoing.steps()][-1] == 1.0
    whole.see(whole.stream.last_id())
    assert rated(whole) == {("ann", "a"): 1.0, ("dora", "a"): 5.0}
    assert "bob" not in whole.engine.history.users
    assert (undoing.left_out["deleted"], undoing.has_merged) == (3, True)
    assert undone(whole) == {"deleted": 1, "kept": 2}, MERGED
    assert rated(whole) == {("ann", "a"): 1.0}
