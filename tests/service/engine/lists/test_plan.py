"""Lists of several users and of many queries are those of each alone; and what a query may not name."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.base.errors import InvalidRequest
from service.base.recommendation_ids import RecommendationIds
from service.engine.lists.plan import Group
from service.engine.queries import Recommend
from service.engine.queries.columns import Ids
from service.engine.queries.document_queries import StaleScenario
from service.engine.queries.filter_tree import text_of
from service.extras.experiments.experiments import Experiments
from service.storage.documents import Document
from service.storage.events import Entry, StreamId
from tests.service.engine.lists.test_ranking import ask
from tests.service.engine.lists.test_selection import EVEN, THIRD, World

NAMES = "culsh", "als-implicit", "ease"
ARMS = [{"model": name, "share": 100 / len(NAMES)} for name in NAMES]
USERS = [*(f"u{n}" for n in range(9)), "stranger", "tasteless", "shown"]


@pytest.fixture(scope="module")
def world() -> World:
    made = World(*NAMES)
    made.rate(("tasteless", "fresh", 5.0))
    made.ranking.signer.key = bytes(32)
    made.ranking.planner.arms = Experiments(made.history, made.ranking.live, RecommendationIds(made.ranking.signer))
    for kind, name, body in (("experiment", "home", {"arms": ARMS, "salt": ""}), ("scenario", "front", {"n": 3})):
        document = Document(kind, name, msgspec.Raw(msgspec.json.encode(body)))  # type: ignore[arg-type]
        made.apply(Entry(StreamId(9000 + len(name), 0), "document", document=document))
    return made


OPTIONS: dict[str, Any] = {
    "n": st.sampled_from([1, 3, 10]),
    "offset": st.sampled_from([1, 4]),
    "model": st.sampled_from(NAMES),
    "filter": st.sampled_from([text_of(EVEN), text_of(THIRD)]),
    "exclude": st.just(["i1", "i8"]),
    "candidates": st.just([f"i{n}" for n in range(30)]),
    "include_seen": st.just(True),
    "min_ratings": st.sampled_from([1, 20]),
    "explain": st.just(True),
    "fallback": st.sampled_from(["trending", "latest", "none"]),
    "explore": st.sampled_from([0.3, 1.0]),
    "boosts": st.just([(text_of(EVEN), 0.5)]),
    "pins": st.just([("i3", 2), ("i20", 9)]),
    "max_per": st.just(("a", 4)),
    "diversity": st.just(0.5),
    "rotate": st.just((3600.0, 1.0)),
}
queries = st.fixed_dictionaries({}, optional=OPTIONS)


@given(
    st.lists(queries, min_size=1, max_size=4), st.lists(st.sampled_from(USERS), min_size=1, max_size=6), st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_a_batch_gets_the_lists_of_each_alone(
    world: World, asked: list[dict[str, Any]], users: list[str], is_experiment: bool
) -> None:
    if is_experiment:
        asked = [{**one, "experiment": "home"} for one in asked]
        for one in asked:
            one.pop("model", None)
    imagined = Recommend(ratings=[("i2", 5.0), ("i7", 1.0)], model="culsh")
    batch = [Recommend(users=users, **one) for one in asked]
    together = world.ranking.answer([*batch, imagined], StreamId(7, 8))
    assert together[-1] == ask(world.ranking, imagined)
    for query, answer in zip(asked, together[:-1], strict=True):
        alone = world.ranking.answer([Recommend(user=user, **query) for user in users], StreamId(7, 8))
        refused = [one for one in alone if isinstance(one, Exception)]
        if refused:
            assert (type(answer), str(answer)) == (type(refused[0]), str(refused[0]))
        else:
            assert answer == alone
        singly = [world.ranking.answer([Recommend(user=user, **query)], StreamId(7, 8))[0] for user in users]
        assert [str(one) for one in singly] == [str(one) for one in alone]


@pytest.mark.parametrize("whose", [{"user": "u1"}, {"users": ["u1", "u2"]}, {"ratings": [("i1", 5.0)]}])
@pytest.mark.parametrize("more", [{}, {"experiment": "home"}])
def test_what_a_query_names_is_checked_for_each_kind_of_user(
    world: World, whose: dict[str, Any], more: dict[str, Any]
) -> None:
    if "ratings" in whose:
        whose = {**whose, "user": "u1"}
    with pytest.raises(StaleScenario, match="front"):
        ask(world.ranking, Recommend(**whose, **more, of_scenario=("front", "1-0")))
    with pytest.raises(InvalidRequest, match=r"max_per\.tag: expected a tag of the catalog"):
        ask(world.ranking, Recommend(**whose, **more, max_per=("n", 1)))


def test_users_of_one_model_with_like_options_are_ranked_together(world: World) -> None:
    planner = world.ranking.planner
    asked = [
        Recommend(users=USERS, model="culsh"),
        Recommend(user="u3", model="culsh", n=9),
        Recommend(user="u3", model="culsh", n=100),
        Recommend(user="u3", model="ease"),
        Recommend(user="u3", model="culsh", order_half_life=2.0),
    ]
    plans = [plan for query in asked for plan in planner.plans(query)]
    groups = planner.groups(plans)
    assert places_of(groups) == [(of, at) for of, plan in enumerate(plans) for at in range(len(plan.users))]
    assert [group.users for group in groups if group.rated is not None] == [[*USERS[:9], "u3"], ["u3"], ["u3"]]
    alone = [group.users for group in groups if group.rated is None]
    assert sorted(alone) == sorted([[user] for user in [*USERS[9:], "u3"]])


def places_of(groups: list[Group]) -> list[tuple[int, int]]:
    return sorted((run.of, at) for group in groups for run in group.runs for at in run.at)


def test_plain_lists_are_ranked_apart_and_strangers_share_one(world: World) -> None:
    """Each of both forms of an answer is made for a whole group."""
    names = [user.encode() for user in USERS]
    asked = [
        Recommend(users=Ids.of([*names, b"other"]), model="culsh"),
        Recommend(user="u3", model="culsh"),
        Recommend(users=Ids.of([b"u4", b"third"]), model="culsh", n=9),
    ]
    plans = [plan for query in asked for plan in world.ranking.planner.plans(query)]
    groups = world.ranking.planner.groups(plans)
    assert places_of(groups) == [(of, at) for of, plan in enumerate(plans) for at in range(len(plan.users))]
    assert [group.users for group in groups if group.rated is not None] == [[*USERS[:9], "u4"], ["u3"]]
    alone = sorted(group.users for group in groups if group.rated is None)
    assert alone == [["stranger", "shown", "other"], ["tasteless"], ["third"]]


@pytest.mark.parametrize("model", NAMES)
def test_a_user_who_is_asked_for_again_is_ranked_once(world: World, model: str) -> None:
    """And each of these plain lists has the bytes of the one that is asked for alone; other pages are other lists."""
    asked = [Ids.of([name.encode() for name in names]) for names in (["u7", "u2", "u7"], ["u1"], ["u2", "u1", "u0"])]
    for lengths, n_ranked in (((5, 5, 5), 4), ((5, 5, 6), 7)):
        batch = [Recommend(users=users, model=model, n=n) for users, n in zip(asked, lengths, strict=True)]
        plans = [plan for query in batch for plan in world.ranking.planner.plans(query)]
        assert [len(group.rows) for group in world.ranking.planner.groups(plans)] == [n_ranked]
        for query, answer in zip(batch, world.ranking.answer(batch, StreamId(7, 8)), strict=True):
            assert isinstance(query.users, Ids)
            alone = [msgspec.structs.replace(query, users=Ids.of([name])) for name in query.users.parts()]
            expected = [ask(world.ranking, one).columns().bodies(one.users)[0] for one in alone]
            assert answer.columns().bodies(query.users) == expected


def test_without_experiments_none_can_be_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.ranking.planner, "arms", None)
    with pytest.raises(InvalidRequest, match="Invalid experiment: expected none"):
        ask(world.ranking, Recommend(user="u1", experiment="home"))
