"""Plain lists as columns, once they are written, have the bytes of the usual lists."""

from typing import Any

import msgspec
import pytest

from service.engine.queries import Recommend
from service.engine.queries.columns import Ids, ListColumns
from service.storage.events import Entry, StreamId, TypedEvent
from tests.service.engine.lists.test_selection import World

NAMES = "culsh", "als-implicit", "ease"
USERS = [*(f"u{n}" for n in range(9)), "stranger", "tasteless", "a.b"]
ODD = (
    'a"b',
    "new\nline",
    "tab\t",
    "back\\slash",
    "\u00e9\u4e2d\U0001f600",
    "\u2028",
    "\x01",
    "x" * 200,
)  # JSON escapes
KINDS = "impression", "view", "purchase", "dislike"


@pytest.fixture(scope="module")
def world() -> World:
    """Lists have items whose names JSON escapes."""
    made = World(*NAMES)
    made.rate(*[(f"u{n}", item, 5.0) for n in range(5, 9) for item in ODD], ("tasteless", "fresh", 5.0))
    return made


def check(world: World, pages: list[dict[str, Any]], batches: list[list[str]]) -> None:
    """Each of `pages` for each of `batches`, asked for together in columns and one by one in the usual way."""
    asked = [Recommend(users=Ids.of([user.encode() for user in users]), **page) for page in pages for users in batches]
    answers = world.ranking.answer([*asked, Recommend(user="u1")], StreamId(7, 8))
    usual = [Recommend(user=user, **page) for page in pages for users in batches for user in users]
    alone = iter(world.ranking.answer(usual, StreamId(7, 8)))
    for query, answer in zip(asked, answers, strict=False):
        assert isinstance(query.users, Ids)
        expected = [next(alone) for _ in range(len(query.users))]
        if isinstance(expected[0], Exception):
            assert str(answer) == str(expected[0])
            continue
        assert answer.columns().bodies(query.users) == list(map(msgspec.json.encode, expected))


def test_joined_columns_have_the_lists_of_their_parts(world: World) -> None:
    parts = [Ids.of([user.encode() for user in users]) for users in (USERS, ["stranger"], ["u3", "u3", "tasteless"])]
    answers = [
        one.columns() for one in world.ranking.answer([Recommend(users=part, n=4) for part in parts], StreamId(7, 8))
    ]
    joined = ListColumns.joined(answers)
    users = [user for part in parts for user in part.parts()]
    assert joined.bodies(Ids.of(users)) == [
        body for part, answer in zip(parts, answers, strict=True) for body in answer.bodies(part)
    ]


@pytest.mark.parametrize("model", [*NAMES, None, "none"])
def test_columns_become_the_bytes_of_the_usual_lists(world: World, model: str | None) -> None:
    pages = [{"n": 10}, {"n": 9}, {"n": 100}, {"n": 3, "offset": 4}, {"n": 4, "offset": 990}, {"n": 2, "offset": 2000}]
    batches = [USERS, ["u3"], ["stranger", "other"], ["u1", "u1", "stranger", "u1"], [*USERS[::-1]]]
    check(world, [{"model": model, **page} for page in pages], batches)


def test_items_that_come_later_and_events_are_in_the_lists(world: World) -> None:
    (before,) = world.ranking.answer([Recommend(users=Ids.of([b"u1"]))], StreamId(7, 8))
    columns = before.columns()
    world.rate(("u6", "brand\nnew", 5.0), ("u7", "brand\nnew", 5.0))
    check(world, [{"n": 60}, {"n": 60, "model": "culsh"}], [USERS])
    (answer,) = world.ranking.answer([Recommend(users=Ids.of([b"stranger"]), n=100)], StreamId(7, 8))
    assert b'"brand\\nnew"' in answer.columns().bodies(Ids.of([b"stranger"]))[0]
    seen = [TypedEvent(user, f"i{n}", kind, 1.0, 0.0) for user in USERS[:4] for n, kind in enumerate(KINDS)]
    world.apply(Entry(StreamId(9000, 0), "event", events=seen))
    check(world, [{"n": 60}, {"n": 5, "model": "ease"}], [USERS])
    (after,) = world.ranking.answer([Recommend(users=Ids.of([b"u1"]))], StreamId(7, 8))
    assert columns != after.columns()
    assert columns == before.columns(), "lists that were made before changed"
