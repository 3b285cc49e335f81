import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import numpy as np
import pytest

import gpu
from gpu.online import prepare_online
from gpu.ranking import topn
from service.base.errors import NotReady
from service.engine.errors import UnknownItem, UnknownUser
from service.engine.lists.ranking import Ranking
from service.engine.models.live_model import LiveModel
from service.engine.models.shelf import Shelf
from service.engine.queries import Estimate, Neighbors, Popular, Query, Recommend, Recommendation, UserRatings
from service.engine.state.history import History
from service.storage.errors import UnknownModel
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.snapshots.manifest import Manifest
from tests.service.planted import SMALL, entries

ALGORITHMS = ("culsh", "culsh-implicit", "sgd", "esgd", "als", "als-implicit", "ease", "neighbors")
FACTORS = {"n_factors": 8, "n_epochs": 20}
Make = Callable[..., Ranking]
Subject = tuple[Literal["hide", "show"], str]


def resident_of(history: History, algorithm: str) -> LiveModel:
    given = SMALL | {"n_epochs": 20} if algorithm.startswith("culsh") else FACTORS
    params = gpu.params_for(algorithm, {} if algorithm in ("ease", "neighbors") else given)
    model = gpu.fit(history.table.ratings(history.users.keys, history.items.keys), params)
    sizes = model.n_users, model.n_items
    manifest = Manifest(
        f"{algorithm}-1", algorithm, dataclasses.asdict(params), model.mean, model.scale, {}, "2000-0", *sizes, {}
    )
    live_model = LiveModel(
        manifest, prepare_online(model, history.table, history.users.keys, history.items.keys), history
    )
    assert live_model.settle(None)
    return live_model


@pytest.fixture(scope="module")
def history() -> History:
    known = History()
    known.apply(entries())
    return known


@pytest.fixture(scope="module")
def residents(history: History) -> dict[str, LiveModel]:
    return {name: resident_of(history, name) for name in ALGORITHMS}


@pytest.fixture
def make(history: History, residents: dict[str, LiveModel]) -> Make:
    """make("culsh", …): a ranking with these models live."""

    def build(*names: str) -> Ranking:
        ranking = Ranking(history, ["culsh-implicit", "culsh"])
        ranking.recount()
        for name in names:
            ranking.install(residents[name])
        return ranking

    return build


def ask(ranking: Ranking, query: Query) -> Any:
    (answer,) = ranking.answer([query], StreamId(7, 8))
    if isinstance(answer, Exception):
        raise answer
    return answer


def share_of_even(answer: Recommendation) -> float:
    return float(np.mean([int(item.item[1:]) % 2 == 0 for item in answer.items]))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_model_finds_the_planted_taste(make: Make, name: str) -> None:
    ranking = make(name)
    even = ask(ranking, Recommend(user="u2", n=4, include_seen=True))
    odd = ask(ranking, Recommend(user="u3", n=4, include_seen=True))
    assert (even.model, even.model_version, even.as_of, even.personalized) == (name, f"{name}-1", "7-8", True)
    if name != "culsh-implicit":  # which has seen only who rated what
        assert (share_of_even(even), share_of_even(odd)) == (1.0, 0.0)
    scores = [item.score for item in even.items]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_anonymous_user_gets_a_personal_list(make: Make, name: str) -> None:
    ranking = make(name)
    taste = [(f"i{item}", 5.0 if item % 2 else 1.0) for item in range(20)]
    answer = ask(ranking, Recommend(ratings=[*taste, ("nowhere", 3.0)], n=5, explain=True))
    assert (answer.user, answer.personalized) == (None, True)
    assert answer.warnings == ["unknown items in ratings: 'nowhere'"]
    assert not {item for item, _ in taste} & {item.item for item in answer.items}
    if name != "culsh-implicit":
        assert share_of_even(answer) == 0.0
        assert any(item.reasons for item in answer.items)
    unknown = ask(ranking, Recommend(ratings=[("nowhere", 3.0)]))
    assert (unknown.personalized, unknown.fallback) == (False, "popular")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_reasons_are_rated_items(make: Make, name: str) -> None:
    ranking = make(name)
    answer = ask(ranking, Recommend(user="u2", n=5, explain=True))
    rated = {rating.item for rating in ask(ranking, UserRatings(user="u2")).ratings}
    for item in answer.items:
        assert {reason.item for reason in item.reasons} <= rated
        shares = [reason.contribution for reason in item.reasons]
        assert shares == sorted(shares, reverse=True)
    plain = ask(ranking, Recommend(user="u2", n=5))
    assert [(item.item, item.score) for item in plain.items] == [(item.item, item.score) for item in answer.items]
    assert b"reasons" not in msgspec.json.encode(plain)


def test_filters_and_pages(make: Make) -> None:
    ranking = make("culsh")
    whole = [item.item for item in ask(ranking, Recommend(user="u2", n=40, include_seen=True)).items]
    assert len(whole) == 40
    page = ask(ranking, Recommend(user="u2", n=7, offset=5, include_seen=True))
    assert [item.item for item in page.items] == whole[5:12]
    rest = ask(ranking, Recommend(user="u2", n=40, include_seen=True, exclude=[whole[0], "nowhere", whole[3]]))
    assert [item.item for item in rest.items] == [*whole[1:3], *whole[4:]]
    some = ask(ranking, Recommend(user="u2", n=40, include_seen=True, candidates=[whole[9], whole[4], "nowhere"]))
    assert [item.item for item in some.items] == [whole[4], whole[9]]
    assert ask(ranking, Recommend(user="u2", candidates=[])).items == []
    assert ask(ranking, Recommend(user="u2", n=10, offset=1000)).items == []


def test_pages_go_beyond_the_longest_list(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    ranking = make("culsh")
    whole = ask(ranking, Recommend(user="u0", n=20)).items
    monkeypatch.setattr("gpu.ranking.topn.MAX_N", 6)
    pages = [Recommend(user="u0", n=n, offset=offset) for n, offset in ((3, 5), (6, 1), (6, 9), (2, 3), (4, 10**9))]
    for query, answer in zip(pages, ranking.answer(pages, StreamId(1, 0)), strict=True):
        assert answer.items == whole[query.offset : query.offset + query.n][: query.n]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_lists_of_explicit_models_have_the_estimates(make: Make, name: str) -> None:
    ranking = make(name)
    queries = [Recommend(user=f"u{user}", n=12, offset=user, include_seen=True, model=name) for user in range(3)]
    for user, answer in zip(("u0", "u1", "u2"), ranking.answer(queries, StreamId(1, 0)), strict=True):
        assert len(answer.items) == 12
        for one in answer.items:
            expected = ask(ranking, Estimate(user=user, item=one.item, model=name)).estimate
            assert one.estimate == (msgspec.UNSET if gpu.ALGORITHMS[name].params.is_implicit else expected)
    anonymous = ask(ranking, Recommend(ratings=[("i2", 5.0)], n=3))
    assert (b"estimate" in msgspec.json.encode(anonymous)) != gpu.ALGORITHMS[name].params.is_implicit
    assert b"estimate" not in msgspec.json.encode(ask(ranking, Recommend(user="nobody")))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_only_items_with_min_ratings_are_listed(name: str) -> None:
    history = History()
    history.apply(entries())
    ratings = [RatingEvent(f"u{user}", "few", 5.0, 0.0) for user in range(7)]
    ratings += [RatingEvent(f"u{user}", f"i{item}", None, 0.0) for item in (3, 4, 9) for user in range(20 + item)]
    history.apply([Entry(StreamId(1500, 0), "rating", ratings)])
    ranking = Ranking(history, [])
    ranking.recount()
    ranking.install(resident_of(history, name))
    counts = dict(
        zip(map(history.items.id, range(len(history.items))), history.table.item_counts.tolist(), strict=True)
    )
    assert len(set(counts.values())) > 3
    common: dict[str, Any] = {"n": 100, "include_seen": True, "exclude": ["i1"]}
    subjects: list[dict[str, Any]] = [{"user": "u2"}, {"ratings": [("i2", 5.0), ("i5", 1.0)]}, {"user": "nobody"}]
    for asked in subjects:
        whole = [one.item for one in ask(ranking, Recommend(**asked, **common)).items]
        for least in (8, 0, 34, 34, 10**30):
            expected = [item for item in whole if counts[item] >= least]
            query = Recommend(**asked, **common, min_ratings=least)
            assert [one.item for one in ask(ranking, query).items] == expected
        page = Recommend(**asked, include_seen=True, exclude=["i1"], n=4, offset=3, min_ratings=34)
        some = Recommend(**asked, **common, candidates=["few", "i4", "i7", "i8"], min_ratings=34)
        both = ranking.answer([page, some, Recommend(**asked, **common)], StreamId(1, 0))
        allowed = [item for item in whole if counts[item] >= 34]
        assert [one.item for one in both[0].items] == allowed[3:7]
        assert [one.item for one in both[1].items] == [item for item in allowed if item in ("i7", "i8")]
        assert [one.item for one in both[2].items] == whole


def test_new_and_deleted_ratings_count_for_min_ratings() -> None:
    history = History()
    history.apply(entries())
    ranking = Ranking(history, [])
    ranking.recount()
    ranking.install(resident_of(history, "sgd"))
    n_before = int(history.table.item_counts[history.items.row("i7")])

    def listed(ms: int, value: float | None) -> list[bool]:
        applied = history.apply([Entry(StreamId(ms, 0), "rating", [RatingEvent("new", "i7", value, 0.0)])])
        ranking.note(applied)
        for live_model in ranking.models():
            live_model.learn(applied)
            assert live_model.settle(None)
        asked: dict[str, Any] = {"n": 100, "min_ratings": n_before + 1}
        answers = [
            ask(ranking, query) for query in (Recommend(user="u2", include_seen=True, **asked), Popular(**asked))
        ]
        return ["i7" in {one.item for one in answer.items} for answer in answers]

    assert listed(9001, 5.0) == [True, True]
    assert listed(9002, 3.0) == [True, True]
    assert listed(9003, None) == [False, False]


def test_fallbacks_have_the_same_filters(make: Make) -> None:
    ranking = make("culsh")
    popular = [item.item for item in ask(ranking, Popular(n=40)).items]
    answer = ask(ranking, Recommend(user="nobody", n=5, offset=2))
    assert [item.item for item in answer.items] == popular[2:7]
    assert (answer.fallback, answer.model) == ("popular", "culsh")
    some = ask(ranking, Recommend(user="nobody", candidates=popular[3:6], exclude=[popular[4]]))
    assert [item.item for item in some.items] == [popular[3], popular[5]]
    with pytest.raises(UnknownUser):
        ask(ranking, Recommend(user="nobody", fallback="none"))


def test_which_model_answers(make: Make) -> None:
    ranking = make("sgd", "culsh", "culsh-implicit")
    assert [live_model.name for live_model in ranking.models()] == ["culsh-implicit", "culsh", "sgd"]
    assert ask(ranking, Recommend(user="u1")).model == "culsh-implicit"
    assert ask(ranking, Recommend(user="u1", model="sgd")).model == "sgd"
    assert ask(ranking, Estimate(user="u1", item="i1")).model == "culsh"
    assert 0 < ask(ranking, Estimate(user="u1", item="i1", model="culsh-implicit")).estimate < 1
    with pytest.raises(UnknownModel, match="als"):
        ask(ranking, Recommend(user="u1", model="als"))
    with pytest.raises(UnknownModel):
        ask(make(), Estimate(user="u1", item="i1"))


def test_without_a_model_lists_have_popular_items(make: Make) -> None:
    answer = ask(make(), Recommend(user="u1", n=3))
    assert (answer.personalized, answer.model, answer.fallback) == (False, None, "popular")
    assert answer.warnings == ["no model is live yet: POST /admin/retrain trains one; these are the most popular items"]
    with pytest.raises(UnknownModel, match="no model is live yet: POST /admin/retrain trains one"):
        ask(make(), Neighbors(kind="item", id="i1"))


@pytest.mark.parametrize("model", [None, "als"])
def test_while_a_model_is_prepared_lists_are_popular_and_say_so(make: Make, model: str | None) -> None:
    ranking = make()
    ranking.live.expected = frozenset({"als"})
    answer = ask(ranking, Recommend(user="u1", n=3, model=model))
    assert (answer.personalized, answer.model, answer.fallback) == (False, None, "popular")
    assert answer.warnings == [
        "the model als is being prepared (GET /health/ready says how far it is): these are the most popular items"
    ]
    with pytest.raises(NotReady, match="the model als is being prepared"):
        ask(ranking, Neighbors(kind="item", id="i1", model=model))
    with pytest.raises(UnknownModel, match="no model is live yet"):
        ask(ranking, Recommend(user="u1", model="sgd"))


def test_a_live_model_answers_while_others_are_prepared(make: Make) -> None:
    ranking = make("sgd")
    ranking.live.expected = frozenset({"als", "sgd"})
    assert ask(ranking, Recommend(user="u1")).model == "sgd"
    assert not ask(ranking, Recommend(user="u1", model="als")).personalized


def test_estimates_stay_within_the_scale(make: Make) -> None:
    ranking = make("culsh")
    assert ask(ranking, Estimate(user="u2", item="i4")).estimate > 4
    assert ask(ranking, Estimate(user="u2", item="i5")).estimate < 2
    for user, item, missing in (("nobody", "i4", "nobody"), ("u2", "nowhere", "nowhere")):
        answer = ask(ranking, Estimate(user=user, item=item))
        assert 1 <= answer.estimate <= 5
        assert missing in answer.warnings[0]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_neighbors(make: Make, history: History, name: str) -> None:
    ranking = make(name)
    users = ask(ranking, Neighbors(kind="user", id="u2", n=7)).neighbors
    assert len(users) == 7
    assert "u2" not in {one.user for one in users}
    items = ask(ranking, Neighbors(kind="item", id="i2", n=3)).neighbors
    assert len(items) == 3
    assert "i2" not in {one.item for one in items}
    for scores in ([one.score for one in users], [one.score for one in items]):
        assert scores == sorted(scores, reverse=True)
        assert -1 <= min(scores) <= max(scores) <= 1 + 1e-6
    if name == "sgd":
        assert sum(int(one.user[1:]) % 2 == 0 for one in users) == 7
    for kind, identifier, error in (("user", "nobody", UnknownUser), ("item", "nowhere", UnknownItem)):
        with pytest.raises(error):
            ask(ranking, Neighbors(kind=kind, id=identifier))  # type: ignore[arg-type]


def test_ratings_of_a_user_newest_first(make: Make) -> None:
    ranking = make()
    everything = ask(ranking, UserRatings(user="u2")).ratings
    assert len(everything) == 32
    assert ask(ranking, UserRatings(user="u2", n=3)).ratings == everything[:3]
    page = ask(ranking, UserRatings(user="u2", n=2, offset=1))
    assert (page.ratings, page.n_ratings) == (everything[1:3], len(everything))
    assert ask(ranking, UserRatings(user="u2", n=5, offset=len(everything) - 1)).ratings == everything[-1:]
    assert ask(ranking, UserRatings(user="u2", offset=10**9)).ratings == []
    assert everything[0].item == "i39"
    with pytest.raises(UnknownUser):
        ask(ranking, UserRatings(user="nobody"))


def test_a_bug_in_one_answer_leaves_the_others(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    ranking = make("culsh", "sgd")

    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ranking.models()[1], "recommend", broken)
    queries = [Recommend(user="u1", model="sgd"), Recommend(user="u1"), Recommend(users=["u1", "u2"], model="sgd")]
    answers = ranking.answer(queries, StreamId(1, 0))
    assert isinstance(answers[0], ZeroDivisionError)
    assert answers[1].personalized
    assert isinstance(answers[2], ZeroDivisionError)


def test_one_rating_makes_a_user_personal_and_none_unmakes_it() -> None:
    history = History()
    history.apply(entries())
    ranking = Ranking(history, [])
    ranking.recount()
    ranking.install(resident_of(history, "culsh"))

    def rate(ms: int, item: str, value: float | None) -> Recommendation:
        applied = history.apply([Entry(StreamId(ms, 0), "rating", [RatingEvent("new", item, value, 0.0)])])
        ranking.note(applied)
        for live_model in ranking.models():
            live_model.learn(applied)
            assert live_model.settle(None)
        return ask(ranking, Recommend(user="new"))

    assert rate(9001, "i2", 5.0).personalized
    assert not rate(9002, "i2", None).personalized
    nothing_known = rate(9003, "unheard-of", 5.0)
    assert not nothing_known.personalized
    assert "unheard-of" not in {item.item for item in nothing_known.items}
    assert len(nothing_known.warnings) == 1


@pytest.mark.parametrize("is_live", [False, True])
def test_a_user_who_has_deleted_every_rating_is_unknown(is_live: bool) -> None:
    history = History()
    history.apply(entries())
    for ms, value in enumerate((5.0, None), 9001):
        history.apply([Entry(StreamId(ms, 0), "rating", [RatingEvent("gone", "i2", value, 0.0)])])
    ranking = Ranking(history, [])
    ranking.recount()
    if is_live:
        ranking.install(resident_of(history, "culsh"))
    assert ask(ranking, Recommend(user="gone")).fallback == "popular"
    for user in ("gone", "nobody"):
        with pytest.raises(UnknownUser, match=f"'{user}' has no ratings"):
            ask(ranking, Recommend(user=user, fallback="none"))
    queries = [Recommend(user="gone", fallback="none"), Recommend(user="u1", fallback="none")]
    assert isinstance(ranking.answer(queries, StreamId(9002, 0))[0], UnknownUser)
    assert ranking.answer(queries, StreamId(9002, 0))[1].personalized == is_live


def test_the_index_is_updated_only_when_excluded_items_change(monkeypatch):
    history = History()
    history.apply(entries())
    live_model, updates, ms = resident_of(history, "sgd"), [], itertools.count(10_000)
    hide = live_model.online.index.hide

    def spy(hidden: np.ndarray) -> None:
        updates.append(hidden.copy())
        hide(hidden)

    monkeypatch.setattr(live_model.online.index, "hide", spy)

    def after(*ratings: tuple[str, str, float | None], subject: Subject | None = None) -> list[int]:
        """How often the index was updated, and the excluded items."""
        events = [RatingEvent(*rating, 0.0) for rating in ratings]
        kind, name = subject or ("rating", None)
        entry = Entry(StreamId(next(ms), 0), kind, events, name)
        live_model.learn(history.apply([entry]))
        live_model.settle(None)
        rows = topn.rows_of(history.table.rows, np.array([0]))
        live_model.recommend(topn.users_of(live_model.model, np.array([0])), rows, 3, Shelf(history).hidden(True))
        return [len(updates), *np.flatnonzero(updates[-1]).tolist()]

    user, item = history.users.id(0), history.items.id(0)
    assert after((user, item, 3.0)) == [1]
    assert after((user, item, 4.0)) == [1]
    assert after(subject=("hide", item)) == [2, 0]
    assert after((user, item, 5.0)) == [2, 0]
    assert after(subject=("show", item)) == [3]
    assert after((user, "new", 5.0))[1:] == []
    assert after((user, "new", None))[1:] == [history.items.row("new")]
    n_updates = len(updates)
    assert after((user, item, 1.0))[0] == n_updates


def test_unknown_ids_of_filters_give_warnings_with_a_model_too(make: Make) -> None:
    ranking = make("culsh")
    filters: dict[str, Any] = {"exclude": ["i0", "no"], "candidates": ["i2", "i4", "never"]}
    warnings = ["unknown items in exclude: 'no'", "unknown items in candidates: 'never'"]
    (one,) = ask(ranking, Recommend(users=["u0"], **filters))
    assert one.personalized
    assert one.warnings == ask(ranking, Recommend(user="u0", **filters)).warnings == warnings
    anonymous = ask(ranking, Recommend(ratings=[("i0", 5.0)], **filters))
    assert (anonymous.personalized, anonymous.warnings) == (True, warnings)
    assert ask(ranking, Recommend(user="u0", exclude=["i0"])).warnings == []
