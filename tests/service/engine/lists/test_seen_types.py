"""Lists that leave out some types of events alone, against lists of everything that exclude these items by name."""

import re
from typing import Any

import msgspec
import numpy as np
import pytest

from service.base.errors import InvalidRequest
from service.engine.lists.ranking import Ranking
from service.engine.queries import Recommend
from service.engine.queries.columns import Ids
from service.engine.queries.filter_tree import text_of
from service.storage.events import Entry, StreamId, TypedEvent
from tests.service.engine.lists.test_ranking import ask
from tests.service.engine.lists.test_selection import EVEN, World

TYPES = "view", "cart", "purchase", "dislike", "impression"
USERS = ["u0", "u1", "u2", "buyer", "stranger"]
CONDITIONS: list[dict[str, Any]] = [
    {},
    {"n": 4, "offset": 3},
    {"filter": text_of(EVEN), "min_ratings": 20},
    {"candidates": [f"i{n}" for n in range(3, 38)], "max_per": ("a", 9), "diversity": 0.3},
    {"boosts": [(text_of(EVEN), 0.7)], "explore": 0.3, "pins": [("i5", 2), ("i8", 3)]},
    {"rotate": (3600.0, 0.4), "repeat": "never"},
    {"fallback": "latest"},
]


def drawn() -> list[TypedEvent]:
    rng = np.random.default_rng(5)
    draws = zip(rng.integers(4, size=150), rng.integers(40, size=150), rng.choice(TYPES, 150), strict=True)
    return [TypedEvent(USERS[user], f"i{item}", str(type_), 1.0, 4.0) for user, item, type_ in draws]


def had(world: World, user: str, types: tuple[str, ...]) -> list[str]:
    row = world.history.users.row(user)
    rated = () if row is None or "rating" not in types else world.history.items.ids(world.history.table.row(row)[0])
    return [*rated, *(one.item for one in drawn() if one.user == user and one.type in types)]


@pytest.fixture(scope="module", params=["als-implicit", "culsh", "ease"])
def world(request: pytest.FixtureRequest) -> World:
    world = World(request.param)
    world.apply(Entry(StreamId(6000, 0), "event", events=drawn()))
    return world


@pytest.mark.parametrize("conditions", CONDITIONS, ids="-".join)
@pytest.mark.parametrize("types", [("purchase",), ("cart", "purchase", "rating"), ("rating",), ("impression", "view")])
def test_a_list_leaves_out_what_it_names_and_no_more(
    world: World, conditions: dict[str, Any], types: tuple[str, ...]
) -> None:
    are_changed = []
    for user in USERS:
        options: dict[str, Any] = {"user": user, "n": 40} | conditions
        query = Recommend(**options)
        found = ask(world.ranking, msgspec.structs.replace(query, seen_types=types))
        named = msgspec.structs.replace(query, include_seen=True, exclude=had(world, user, types))
        wanted = ask(world.ranking, named)
        assert found.items == wanted.items
        are_changed.append(found.items != ask(world.ranking, query).items)
    assert any(are_changed)


def test_users_of_one_request_and_plain_lists_get_the_same_by_the_setting(world: World) -> None:
    types = ("purchase", "rating")
    alone = [ask(world.ranking, Recommend(user=user, seen_types=types)).items for user in USERS]
    together = ask(world.ranking, Recommend(users=USERS, seen_types=types))
    assert [answer.items for answer in together] == alone
    other = Ranking(world.history, [], seen_types=types)
    other.recount()
    for live_model in world.ranking.models():
        other.install(live_model)
    assert [ask(other, Recommend(user=user)).items for user in USERS] == alone
    seen = [ask(ranking, Recommend(user="u0", include_seen=True, n=40)).items for ranking in (world.ranking, other)]
    assert seen[0] == seen[1]
    columns = ask(other, Recommend(users=Ids.of([user.encode() for user in USERS]))).columns()
    ends, places = np.frombuffer(columns.ends, np.uint32), np.frombuffer(columns.places, np.uint32)
    for place, first, end in zip(places, [0, *ends], ends, strict=False):
        items = re.findall(rb'"item":"([^"]*)"', columns.text[first:end])
        assert [item.decode() for item in items] == [line.item for line in alone[place]]


def test_an_unknown_type_is_refused_by_its_name(world: World) -> None:
    expected = "Invalid seen_types: expected some of rating, view, cart, purchase, dislike, impression, got 'buy'"
    with pytest.raises(InvalidRequest, match=expected):
        ask(world.ranking, Recommend(user="u0", seen_types=["rating", "buy"]))
