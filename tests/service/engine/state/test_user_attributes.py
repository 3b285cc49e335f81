from collections.abc import Callable
from pathlib import Path

import pytest

from service.base.errors import InvalidRequest
from service.engine.lists.filters import Filters
from service.engine.queries.filter_tree import HasTag, InRange, Node, Not, text_of
from service.engine.state.history import History
from service.storage.events import Entry, Merge, StreamId
from service.storage.item_changes import Values
from service.storage.log.rating_log import RatingLog
from service.storage.user_changes import UserChange
from tests.service.logs import commit


def described(ms: int, *changes: UserChange) -> Entry:
    return Entry(StreamId(ms, 0), "user", user_changes=list(changes))


def of(history: History, user: str) -> Values:
    row = history.users.row(user)
    assert row is not None
    return history.user_attributes.of(row)


def both(tmp_path: Path, entries: list[Entry]) -> tuple[History, History, RatingLog]:
    """A history that has followed the stream, and one that has read the log."""
    streamed, loaded, log = History(), History(), RatingLog(tmp_path)
    streamed.apply(entries)
    commit(log, entries)
    loaded.load(log)
    return streamed, loaded, log


def passing(history: History, node: Node) -> list[str]:
    eligible = Filters(history.user_attributes.index, history.users).passing(text_of(node))
    return [user for user in history.users.ids(eligible.rows.tolist()) if user]


def test_stream_and_log_give_users_the_same_attributes(tmp_path: Path, rating_entry: Callable[..., Entry]) -> None:
    entries = [
        described(1, UserChange("u", tags={"country": ["de", "de", "at"]}, numbers={"visits": 3.0}), UserChange("v")),
        rating_entry(2, ("w", "a", 3.0)),
        described(3, UserChange("u", op="patch", tags={"plan": ["trial"]}, numbers={"visits": None})),
        described(4, UserChange("w", tags={"country": ["de"], "visits": ["contradicts nobody any more"]})),
    ]
    for history in both(tmp_path, entries)[:2]:
        assert of(history, "u") == Values({"country": ["de", "at"], "plan": ["trial"]})
        assert of(history, "w") == Values({"country": ["de"], "visits": ["contradicts nobody any more"]})
        assert of(history, "v") == Values()
        assert history.users.ids(range(3)) == ["u", "v", "w"]
        assert history.first_seen_ms.tolist() == [2]  # of items: users bring none
        assert passing(history, HasTag("country", ("at", "ch"))) == ["u"]
        assert passing(history, Not(HasTag("country", ("de",)))) == ["v"]


def test_what_contradicts_other_users_is_left_out() -> None:
    history = History()
    history.apply([described(1, UserChange("u", tags={"plan": ["trial"]}))])
    history.apply([described(2, UserChange("v", numbers={"plan": 2.0, "visits": 1.0}))])
    assert of(history, "v") == Values(numbers={"visits": 1.0})
    assert passing(history, InRange("visits", 1.0, 1.0)) == ["v"]
    with pytest.raises(InvalidRequest, match=r"expected a tag of users \(plan\), got 'visits'"):
        passing(history, HasTag("visits", ("x",)))


def test_who_loses_the_last_attribute_has_none() -> None:
    history = History()
    history.apply([described(1, UserChange("u", tags={"plan": ["trial"]}), UserChange("v", numbers={"visits": 1.0}))])
    history.apply([described(2, UserChange("u", op="patch", tags={"plan": None}))])
    assert (of(history, "u"), len(history.user_attributes)) == (Values(), 1)


def test_users_of_a_filter_in_use_are_told_one_by_one(rating_entry: Callable[..., Entry]) -> None:
    history = History()
    changes = [UserChange(f"u{n}", tags={"plan": ["trial" if n % 2 else "paid"]}) for n in range(70)]
    history.apply([described(1, *changes)])
    filters, rows = Filters(history.user_attributes.index, history.users), [*range(70), None]
    trial = HasTag("plan", ("trial",))
    assert filters.which_pass(text_of(trial), rows) == [*(n % 2 == 1 for n in range(70)), False]
    assert filters.which_pass(text_of(Not(trial)), rows) == [*(n % 2 == 0 for n in range(70)), True]
    assert filters.which_pass(text_of(HasTag("of nobody", ("x",))), rows) == [False] * 71
    history.apply([rating_entry(2, *((f"later-{n}", "a", 1.0) for n in range(70)))])
    assert filters.which_pass(text_of(trial), [1, 139]) == [True, False]
    assert filters.which_pass(text_of(Not(trial)), [1, 139]) == [False, True]


def test_a_merge_gives_what_the_other_user_lacks(tmp_path: Path) -> None:
    entries = [
        described(1, UserChange("visitor", tags={"country": ["de"], "campaign": ["spring"]}, numbers={"visits": 2.0})),
        described(2, UserChange("u", tags={"country": ["at"]})),
        Entry(StreamId(3, 0), "merge", merge=Merge("visitor", "u")),
    ]
    for history in both(tmp_path, entries)[:2]:
        assert of(history, "u") == Values({"country": ["at"], "campaign": ["spring"]}, {"visits": 2.0})
        assert passing(history, HasTag("country", ("de",))) == []


def test_who_is_forgotten_leaves_neither_attributes_nor_names(
    tmp_path: Path, rating_entry: Callable[..., Entry]
) -> None:
    secret, left = "only-of-this-user", Values({"country": ["de"]})
    entries = [
        described(
            1, UserChange("u", tags={"country": ["de"], secret: [secret]}), UserChange("v", tags={"country": ["de"]})
        ),
        described(2, UserChange("visitor", numbers={secret + "-number": 1.0})),
        rating_entry(3, ("v", "a", 3.0)),
        Entry(StreamId(4, 0), "merge", merge=Merge("visitor", "u")),
        Entry(StreamId(5, 0), "forget", subject="u"),
    ]
    streamed, _, log = both(tmp_path, entries)
    log.rewrite_without("u", StreamId(5, 0))
    loaded = History()
    loaded.load(log)
    for history in (streamed, loaded):
        assert history.user_attributes.index.kinds == {"country": "tag"}
        assert history.user_attributes.index.n_free == 999
        assert of(history, "v") == left
        assert passing(history, HasTag("country", ("de",))) == ["v"]
    texts = [str(batch.to_pylist()) for batch in log.read()]
    assert not [text for text in texts if secret in text]
