"""Events in live models: what is learned, what is kept out of lists, and that a restart ends in the same bits."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gpu
from gpu.data.model import Model
from gpu.online import prepare_online
from service.engine.lists.ranking import Ranking
from service.engine.models.live_model import LiveModel
from service.engine.queries import Popular, Query, Recommend, Recommendation
from service.engine.state.history import History
from service.settings.event_types import parse_event_types
from service.storage.events import Entry, Merge, RatingEvent, Retraction, StreamId, TypedEvent
from service.storage.snapshots.manifest import FORMAT, Manifest
from tests.service.planted import SMALL, entries

TYPES = parse_event_types("rate=1,purchase=10,dislike=-2,impression=seen")
DECAYED = [f"{one} with a half-life" for one in ("als-implicit", "culsh", "culsh-implicit", "ease", "sgd")]
COUNTED = "als-implicit of counts", "culsh-implicit of counts", "ease of counts"
LATER = [("u0", "i3", "purchase"), ("u0", "i8", "dislike"), ("u0", "i13", "impression"), ("new", "i2", "purchase")]


def as_events(given: Sequence[Entry]) -> list[Entry]:
    """The ratings of `given` as events of a type with the weight 1."""

    def of(rating: RatingEvent) -> TypedEvent:
        return TypedEvent(rating.user, rating.item, "rate", rating.rating or 0.0, rating.timestamp)

    return [Entry(one.id, "event", events=list(map(of, one.ratings))) for one in given]


def events(ms: int, *given: tuple[str, ...]) -> Entry:
    """Of (user, item, type), and perhaps the id of an event."""
    typed = [
        TypedEvent(user, item, name, timestamp=ms / 1000, event_id=rest[0] if rest else None)
        for user, item, name, *rest in given
    ]
    return Entry(StreamId(ms, 0), "event", events=typed)


def history_of(given: Sequence[Entry]) -> History:
    history = History(TYPES)
    history.apply(given)
    return history


def trained(history: History, algorithm: str) -> Model:
    small: dict[str, Any] = {"n_factors": 8, "n_epochs": 5}
    small = SMALL if algorithm.startswith("culsh") else {} if algorithm.startswith(("ease", "neighbors")) else small
    special = {name: {"values": "counts"} for name in COUNTED} | {one: {"half_life_days": 1e-3} for one in DECAYED}
    small = small | special.get(algorithm, {})
    params = gpu.params_for(algorithm.partition(" ")[0], small)
    table = history.table_of(has_strengths=params.is_implicit)
    times = gpu.Times(table.seconds(), 2.0)
    return gpu.fit(table.ratings(history.users.keys, history.items.keys), params, times=times)


def copy_of(model: Model) -> Model:
    arrays = {name: array.copy() for name, array in model.arrays.items()}
    return Model(model.params, model.mean, model.scale, arrays, model.calibration)


def live(history: History, model: Model, watermark: str = "2000-0", *, number: int = 1) -> LiveModel:
    name, users = model.params.algorithm, np.arange(model.n_users)
    rows = np.where([bool(history.users.id(user)) for user in users.tolist()], users, -1), np.arange(model.n_items)
    params, n_users, n_items = dataclasses.asdict(model.params), model.n_users, model.n_items
    manifest = Manifest(
        f"{name}-{number}", name, params, model.mean, model.scale, {}, watermark, n_users, n_items, {}, FORMAT
    )
    table = history.table_of(has_strengths=model.is_implicit)
    moved = copy_of(model).mapped(*rows, table.n_users, table.n_items)
    live_model = LiveModel(manifest, prepare_online(moved, table, history.users.keys, history.items.keys), history)
    assert live_model.settle(None)
    return live_model


def ranking_of(history: History, *models: LiveModel) -> Ranking:
    ranking = Ranking(history, [live_model.name for live_model in models])
    ranking.recount()
    for live_model in models:
        ranking.install(live_model)
    return ranking


def learn(history: History, ranking: Ranking, *given: Entry) -> None:
    applied = history.apply(given)
    ranking.note(applied)
    for live_model in ranking.models():
        live_model.learn(applied)
        assert live_model.settle(None)


def items(ranking: Ranking, user: str, **options: Any) -> list[str]:
    (answer,) = ranking.answer([Recommend(user=user, **{"n": 40} | options)], StreamId(9, 0))
    assert isinstance(answer, Recommendation), answer
    return [one.item for one in answer.items]


@pytest.mark.parametrize("algorithm", [*COUNTED, "nmf"])
def test_counts_posted_as_ratings_or_as_events_give_the_same_lists(algorithm: str) -> None:
    rated, typed = history_of(entries()), history_of(as_events(entries()))
    models = trained(rated, algorithm), trained(typed, algorithm)
    for name, array in models[0].arrays.items():
        np.testing.assert_array_equal(array, models[1].arrays[name], err_msg=name)
    later = [
        Entry(StreamId(3000, 0), "rating", [RatingEvent("u1", "i1", 5.0, 3.0), RatingEvent("new", "i2", 4.0, 3.0)])
    ]
    answers = []
    for history, model, more in zip((rated, typed), models, (later, as_events(later)), strict=True):
        ranking = ranking_of(history, live(history, model))
        learn(history, ranking, *more)
        queries: list[Query] = [
            *(Recommend(user=user, explain=True) for user in ("u0", "u1", "new", "nobody")),
            Popular(),
        ]
        answers.append(ranking.answer(queries, StreamId(9, 0)))
    assert answers[0] == answers[1]
    assert typed.table.n_ratings == 0


@pytest.mark.parametrize("algorithm", ["als-implicit", "als", "culsh-implicit", "ease", "neighbors"])
def test_events_keep_items_out_of_lists(algorithm: str) -> None:
    history = history_of(entries())
    ranking = ranking_of(history, live(history, trained(history, algorithm)))
    rated = {r.item for entry in entries() for r in entry.ratings if r.user == "u0"}
    every = {f"i{n}" for n in range(40)}
    learn(history, ranking, events(3000, *LATER))
    assert set(items(ranking, "u0")) == every - rated - {"i3", "i8", "i13"}
    assert set(items(ranking, "u0", exclude=["i5"])) == set(items(ranking, "u0")) - {"i5"}
    assert set(items(ranking, "u0", include_seen=True)) == {f"i{n}" for n in range(40)} - {"i8"} | (
        {"i8"} & rated - {"i8"}
    )
    assert "i2" not in items(ranking, "new")


def test_popular_items_follow_strengths_and_masks() -> None:
    history = History(TYPES)
    ranking = ranking_of(history)
    purchases = [(f"u{n}", "much bought", "purchase") for n in range(3)]
    learn(history, ranking, events(1, *purchases, ("u0", "once bought", "purchase"), ("u0", "shown", "impression")))
    (answer,) = ranking.answer([Popular()], StreamId(9, 0))
    assert [one.item for one in answer.items] == ["much bought", "once bought"]
    learn(history, ranking, events(2, ("v", "much bought", "impression")))
    assert items(ranking, "v") == ["once bought"]
    learn(history, ranking, Entry(StreamId(3, 0), "forget", subject="u0"))
    (answer,) = ranking.answer([Popular()], StreamId(9, 0))
    assert [one.item for one in answer.items] == ["much bought"]


@pytest.mark.parametrize("algorithm", [*COUNTED, *DECAYED, "als-implicit", "als", "ease", "neighbors", "sgd"])
def test_a_restart_learns_events_as_the_stream_did(algorithm: str) -> None:
    given = [
        events(3000, *LATER),
        Entry(StreamId(3001, 0), "rating", [RatingEvent("u5", "i3", 1.0, 3.0), RatingEvent("u0", "i8", 5.0, 3.0)]),
        events(3002, ("u5", "i3", "purchase"), ("u6", "brand new", "purchase"), ("u7", "brand new", "purchase")),
        Entry(StreamId(3003, 0), "rating", [RatingEvent("u5", "i3", None, 3.0)]),
        Entry(StreamId(3004, 0), "forget", subject="u7"),
        events(3005, ("u8", "i3", "impression"), ("u7", "i4", "purchase")),
        Entry(StreamId(3006, 0), "merge", merge=Merge("u5", "u0")),
        Entry(StreamId(3007, 0), "merge", merge=Merge("u6", "late")),
        events(3008, ("u5", "i9", "purchase")),
        events(3009, ("u1", "i9", "purchase", "order"), ("u1", "i7", "rate", "click")),
        Entry(StreamId(3010, 0), "retract", retract=Retraction("u1", "order")),
    ]
    model = trained(history_of(entries()), algorithm)
    streamed = history_of(entries())
    ranking = ranking_of(streamed, live(streamed, model))
    for entry in given:
        learn(streamed, ranking, entry)
    restarted = history_of([*entries(), *given])
    (one,), other = ranking.models(), live(restarted, model)
    for name, array in one.model.arrays.items():
        np.testing.assert_array_equal(array, other.model.arrays[name], err_msg=name)


@pytest.mark.parametrize("algorithm", ["als-implicit", "ease", "neighbors"])
def test_a_model_forgets_an_event_that_is_taken_back(algorithm: str) -> None:
    history = history_of(entries())
    ranking = ranking_of(history, live(history, trained(history, algorithm)))
    before = [(one.item, one.score) for one in ranking.answer([Recommend(user="u1", n=40)], StreamId(9, 0))[0].items]
    learn(history, ranking, events(3009, ("u1", before[0][0], "purchase", "order")))
    assert before[0][0] not in items(ranking, "u1")
    learn(history, ranking, Entry(StreamId(3010, 0), "retract", retract=Retraction("u1", "order")))
    after = [(one.item, one.score) for one in ranking.answer([Recommend(user="u1", n=40)], StreamId(9, 0))[0].items]
    assert [one[0] for one in after] == [one[0] for one in before]
    np.testing.assert_allclose([one[1] for one in after], [one[1] for one in before], rtol=0.01)


def drawn(seed: int) -> list[Entry]:
    """Entries of ratings, events and forgotten users; times are new, old, older than any, or in the future."""
    generator = np.random.default_rng(seed)
    found = []
    for ms in range(3000, 3014):
        users = [f"u{n}" for n in generator.integers(0, 63, 12)]
        pairs = [(user, f"i{n}") for user, n in zip(users, generator.integers(0, 43, 12), strict=True)]
        times = generator.choice([ms / 1000, -100.0, -300.0, 5e9], 12).tolist()
        kind = generator.choice(["rating", "event", "forget"], p=[0.7, 0.2, 0.1])
        if kind == "forget":
            found.append(Entry(StreamId(ms, 0), "forget", subject=users[0]))
        elif kind == "event":
            types = generator.choice(list(TYPES), 12).tolist()
            typed = [TypedEvent(*pair, one, timestamp=t) for pair, one, t in zip(pairs, types, times, strict=True)]
            found.append(Entry(StreamId(ms, 0), "event", events=typed))
        else:
            values = generator.choice([1.0, 3.0, 5.0, 5.0, 0.0], 12).tolist()
            rated = [RatingEvent(*pair, one or None, t) for pair, one, t in zip(pairs, values, times, strict=True)]
            found.append(Entry(StreamId(ms, 0), "rating", rated))
    return found


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("algorithm", DECAYED)
def test_weights_by_age_do_not_depend_on_how_entries_were_grouped(algorithm: str, seed: int) -> None:
    given, generator = drawn(seed), np.random.default_rng(seed)
    model, streamed = trained(history_of(entries()), algorithm), history_of(entries())
    ranking = ranking_of(streamed, live(streamed, model))
    (one,), rest = ranking.models(), given
    while rest:
        size = int(generator.integers(1, 5))
        one.learn(streamed.apply(rest[:size]))
        if generator.random() < 0.5:
            one.settle(0.0)
        rest = rest[size:]
    assert one.settle(None)
    restarted = history_of([*entries(), *given])
    other = live(restarted, model)
    for name, array in one.model.arrays.items():
        np.testing.assert_array_equal(array, other.model.arrays[name], err_msg=name)
    if one.model.params.has_item_weights:  # its users are their rows
        rows = [live_model.rows_of(np.arange(len(streamed.users))) for live_model in (one, other)]
        np.testing.assert_array_equal(rows[0].values, rows[1].values)


def test_an_explicit_model_learns_ratings_alone() -> None:
    history = history_of(entries())
    model = trained(history, "als")
    ranking = ranking_of(history, live(history, model))
    before = {name: array.copy() for name, array in ranking.models()[0].model.arrays.items()}
    learn(history, ranking, events(3000, ("u0", "i3", "purchase"), ("u1", "i8", "dislike")))
    for name, array in ranking.models()[0].model.arrays.items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


@pytest.mark.parametrize("algorithm", ["als-implicit", "culsh-implicit", "ease", "neighbors"])
def test_a_model_of_ratings_on_a_scale_takes_the_first_events_for_likes(algorithm: str) -> None:
    """An event of weight 1 is no rating of 1: whose events are of even items alone is listed even items."""
    history = history_of(entries())
    model = trained(history, algorithm)
    assert model.calibration.values == "ratings"
    ranking = ranking_of(history, live(history, model))
    learn(history, ranking, events(3000, *(("even", f"i{n}", "rate") for n in (0, 2, 4))))
    assert all(int(item[1:]) % 2 == 0 for item in items(ranking, "even", n=10))
    stars = Entry(StreamId(3001, 0), "rating", [RatingEvent("odd", f"i{n}", 1.0, 3.0) for n in (0, 2, 4)])
    learn(history, ranking, stars, events(3002, ("odd", "i1", "rate"), ("odd", "i3", "rate")))
    assert all(int(item[1:]) % 2 for item in items(ranking, "odd", n=10))


def test_a_dislike_lowers_what_is_like_it_and_a_purchase_raises_it() -> None:
    likes = [Entry(one.id, "rating", [r for r in one.ratings if r.rating == 5]) for one in entries()]
    history = history_of(as_events(likes))
    model = trained(history, "als-implicit")
    ranking = ranking_of(history, live(history, model))
    learn(
        history,
        ranking,
        events(3000, ("even", "i0", "purchase"), ("even", "i2", "purchase"), ("even", "i1", "dislike")),
    )
    assert all(int(item[1:]) % 2 == 0 for item in items(ranking, "even", n=10))
