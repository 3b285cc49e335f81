import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.engine.state.rating_runs import RatingRun, joined, runs_of
from service.storage.events import Entry, RatingEvent, StreamId, TypedEvent

ids = st.sampled_from(["u", "v", "é"])
values = st.one_of(st.none(), st.integers(1, 5))
ratings = st.lists(st.builds(RatingEvent, ids, ids, values, st.floats(0, 9)), max_size=4)
contents = st.lists(st.one_of(ratings, ids, st.sampled_from(["noop", "item"])), min_size=1, max_size=12)


def entry(ms: int, content: list[RatingEvent] | str) -> Entry:
    """`content`: ratings, "noop", "item" (a change of no item), or a user to forget."""
    at = StreamId(ms, 1)
    if isinstance(content, list):
        return Entry(at, "rating", content)
    return Entry(at, content) if content in ("noop", "item") else Entry(at, "forget", subject=content)  # type: ignore[arg-type]


def ids_of(run: RatingRun) -> tuple[list[str], list[str]]:
    return run.users.ids(), run.items.ids()


def assert_equal(runs: list[RatingRun], others: list[RatingRun]) -> None:
    for run, other in zip(runs, others, strict=True):
        assert (run.entries, *ids_of(run)) == (other.entries, *ids_of(other))
        for column, of_other in zip(run[3:], other[3:], strict=True):
            np.testing.assert_array_equal(column, of_other, strict=True)


@given(contents, st.data())
def test_runs_of_parts_join_to_those_of_all(contents: list[list[RatingEvent] | str], data: st.DataObject) -> None:
    entries = [entry(ms, content) for ms, content in enumerate(contents)]
    cut = data.draw(st.integers(0, len(entries)))
    runs = runs_of(entries)
    assert_equal(joined(runs_of(entries[:cut]) + runs_of(entries[cut:])), runs)
    assert [one for run in runs for one in run.entries] == entries
    assert all(one.kind in ("rating", "noop") for run in runs for one in run.entries[:-1])


def test_columns_hold_the_ratings_in_order() -> None:
    first = entry(5, [RatingEvent("u", "i", 2.0, 7.0), RatingEvent("v", "i", None, 8.0)])
    (run,) = runs_of([first, entry(6, "noop"), entry(7, [RatingEvent("u", "é", -1.0, 9.0)])])
    assert (*ids_of(run), run.closing) == (["u", "v", "u"], ["i", "i", "é"], None)
    np.testing.assert_array_equal(run.values, np.array([2, math.nan, -1], dtype=np.float32), strict=True)
    assert (run.timestamps.tolist(), run.times_ms.tolist()) == ([7.0, 8.0, 9.0], [5, 5, 7])
    assert run.after(StreamId(5, 1)).users.ids() == ["u"]
    assert not run.after(StreamId(7, 1)).entries


def test_ratings_and_events_keep_their_order() -> None:
    rating, event = RatingEvent("u", "i", 2.0, 7.0), TypedEvent("v", "j", "view", 3.0, 8.0)
    (run,) = runs_of([entry(5, [rating]), Entry(StreamId(6, 0), "event", events=[event]), entry(7, [rating])])
    assert (*ids_of(run), run.types) == (["u", "v", "u"], ["i", "j", "i"], ["view"])
    assert (run.values.tolist(), run.times_ms.tolist()) == ([2.0, 3.0, 2.0], [5, 6, 7])
    assert run.are_events.tolist() == [False, True, False]
