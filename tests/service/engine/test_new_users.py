"""Users without ratings: they have lists by their tags, which follow each change of these at once."""

import json
from typing import Any

import numpy as np
import pytest

from gpu.base.backend import HOST
from gpu.data.model import Model
from gpu.data.ratings import Rows
from gpu.online import prepare_online
from service.engine.lists.ranking import Ranking
from service.engine.models.live_model import LiveModel
from service.engine.queries import Recommend, Recommendation
from service.engine.queries.columns import Ids
from service.engine.state.history import History
from service.jobs.content import user_map_of
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.snapshots.content_map import ContentMap, ContentMaps
from service.storage.snapshots.manifest import FORMAT, Manifest
from service.storage.user_changes import UserChange
from tests.service.engine.test_learned_events import copy_of, history_of, learn, ranking_of, trained

TASTES = "even", "odd"


def user_entry(ms: int, *changes: UserChange) -> Entry:
    return Entry(StreamId(ms, 0), "user", user_changes=list(changes))


N_USERS, N_ITEMS = 120, 40
TAGGED = user_entry(2000, *(UserChange(f"u{n}", tags={"taste": [TASTES[n % 2]]}) for n in range(N_USERS)))


def ratings_for(algorithm: str) -> list[Entry]:
    """Users rate half of the items of their taste high, and for models of ratings some others low."""
    chance, ratings = np.random.default_rng(0), list[RatingEvent]()
    for user in range(N_USERS):
        for item in range(N_ITEMS):
            is_own = (user + item) % 2 == 0
            if chance.random() < (0.5 if is_own else 0.0 if algorithm == "als-implicit" else 0.1):
                ratings.append(RatingEvent(f"u{user}", f"i{item}", 5.0 if is_own else 1.0, 100.0))
    parts = [ratings[first : first + 100] for first in range(0, len(ratings), 100)]
    return [Entry(StreamId(1000 + n, 0), "rating", part) for n, part in enumerate(parts)]


def map_of(history: History, model: Model) -> ContentMap | None:
    ratings = history.table_of(has_strengths=model.is_implicit).ratings(history.users.keys, history.items.keys)
    return user_map_of(model, ratings, lambda user: history.user_attributes.of(user).tags, HOST)


@pytest.fixture(scope="module", params=["als", "als-implicit"])
def snapshot(request: pytest.FixtureRequest) -> tuple[Model, ContentMap]:
    history = history_of([*ratings_for(request.param), TAGGED])
    model = trained(history, request.param)
    found = map_of(history, model)
    assert found is not None
    return model, found


@pytest.fixture
def history(snapshot: tuple[Model, ContentMap]) -> History:
    return history_of([*ratings_for(snapshot[0].params.algorithm), TAGGED])


@pytest.fixture
def ranking(history: History, snapshot: tuple[Model, ContentMap]) -> Ranking:
    model, of_users = snapshot
    name, table = model.params.algorithm, history.table_of(has_strengths=model.is_implicit)
    counts = model.n_users, model.n_items
    manifest = Manifest(f"{name}-1", name, {}, model.mean, model.scale, {}, "2500-0", *counts, {}, FORMAT)
    moved = copy_of(model).mapped(np.arange(model.n_users), np.arange(model.n_items), table.n_users, table.n_items)
    ready = prepare_online(moved, table, history.users.keys, history.items.keys)
    live_model = LiveModel(manifest, ready, history, ContentMaps(users=of_users))
    assert live_model.settle(None)
    return ranking_of(history, live_model)


def listed(ranking: Ranking, user: str, **options: Any) -> Recommendation:
    (answer,) = ranking.answer([Recommend(user=user, **options)], StreamId(9, 0))
    assert isinstance(answer, Recommendation), answer
    return answer


def taste_of(answer: Recommendation) -> set[int]:
    return {int(one.item[1:]) % 2 for one in answer.items}


def test_a_new_user_has_a_list_by_tags_until_the_first_rating(history: History, ranking: Ranking) -> None:
    learn(history, ranking, user_entry(3000, UserChange("ann", tags={"taste": ["odd"]})))
    answer = listed(ranking, "ann", explain=True)
    assert (answer.fallback, answer.personalized, answer.warnings) == ("attributes", False, [])
    assert answer.model == ranking.models()[0].name
    assert (len(answer.items), taste_of(answer)) == (10, {1})
    learn(history, ranking, user_entry(3001, UserChange("ann", tags={"taste": ["even"]})))
    assert taste_of(listed(ranking, "ann")) == {0}
    learn(history, ranking, Entry(StreamId(3002, 0), "rating", [RatingEvent("ann", "i1", 5.0, 1.0)]))
    answer = listed(ranking, "ann")
    assert answer.personalized
    assert "i1" not in {one.item for one in answer.items}
    assert taste_of(listed(ranking, "ann", n=5)) == {1}


def test_who_has_no_known_tag_or_asks_for_another_list_gets_it(history: History, ranking: Ranking) -> None:
    changes = [UserChange("ann", tags={"taste": ["odd"]}), UserChange("bob", tags={"taste": ["new"], "other": ["odd"]})]
    learn(history, ranking, user_entry(3000, *changes))
    assert listed(ranking, "ann", fallback="popular").fallback == "popular"
    assert listed(ranking, "bob").fallback == "popular"
    learn(history, ranking, user_entry(3001, UserChange("ann")))
    assert listed(ranking, "ann").fallback == "popular"


def test_nothing_is_left_of_who_is_forgotten(history: History, ranking: Ranking) -> None:
    learn(history, ranking, user_entry(3000, UserChange("ann", tags={"taste": ["odd"]})))
    assert listed(ranking, "ann").fallback == "attributes"
    learn(history, ranking, Entry(StreamId(3001, 0), "forget", subject="ann"))
    assert listed(ranking, "ann").fallback == "popular"


def test_lists_of_many_users_at_once_are_those_of_each(history: History, ranking: Ranking) -> None:
    tags = [("ann", "odd"), ("bob", "even"), ("eve", "odd")]
    learn(history, ranking, user_entry(3000, *(UserChange(user, tags={"taste": [taste]}) for user, taste in tags)))
    users = ["ann", "u1", "bob", "stranger", "eve"]
    (answers,) = ranking.answer([Recommend(users=users, n=10)], StreamId(9, 0))
    assert [one.personalized for one in answers] == [False, True, False, False, False]
    for user, answer in zip(users, answers, strict=True):
        assert answer == listed(ranking, user)
    ids = Ids.of([user.encode() for user in users])
    (plain,) = ranking.answer([Recommend(users=ids, n=10)], StreamId(9, 0))
    bodies = [json.loads(body) for body in plain.columns().bodies(ids)]
    assert [body.get("fallback") for body in bodies] == ["attributes", None, "attributes", "popular", "attributes"]
    assert [[one["item"] for one in body["items"]] for body in bodies] == [
        [one.item for one in answer.items] for answer in answers
    ]


@pytest.mark.parametrize("algorithm", ["als", "als-implicit", "nmf"])
def test_tags_that_say_nothing_give_no_map(algorithm: str) -> None:
    chance = np.random.default_rng(0)
    changes = [UserChange(f"u{n}", tags={"taste": [TASTES[chance.integers(2)]]}) for n in range(N_USERS)]
    history = history_of([*ratings_for(algorithm), user_entry(2000, *changes)])
    assert map_of(history, trained(history, algorithm)) is None


def test_what_lies_where_a_row_without_ratings_starts_does_not_count(ranking: Ranking) -> None:
    (live_model,) = ranking.models()
    items = np.array([0, N_ITEMS + 300], dtype=np.int32)  # the second one is left over from rows that have moved
    rows = Rows(np.array([0, 1]), np.array([1, 0]), items, np.zeros(2, dtype=np.float32))
    assert live_model.are_personal(rows).tolist() == [True, False]
