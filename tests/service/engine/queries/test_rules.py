"""Lists with rules against a slow oracle that knows all items and their plain scores."""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from service.base.errors import InvalidRequest
from service.engine.queries import Popular, Recommend, ScoredItem
from service.engine.queries.filter_tree import HasTag, InRange, Node, Not, text_of
from service.engine.queries.rules import MAX_LENGTH
from service.storage.item_changes import ItemChange
from tests.service.engine.lists.test_ranking import ask
from tests.service.engine.lists.test_selection import EVEN, EVERY, NONE, THIRD, World

NODES: tuple[Node, ...] = (EVEN, THIRD, NONE, EVERY, Not(THIRD), Not(InRange("n", 7.0, 20.0)))
FALLBACK, BELOW = "stranger", 5


@pytest.fixture(scope="module", params=["culsh", "als-implicit", "ease", "neighbors"])
def world(request: pytest.FixtureRequest) -> World:
    made = World(request.param)
    made.put(*(ItemChange(f"i{n}", op="patch", tags={"genre": [f"g{n % 3}", f"h{n % 5}"][: n % 4]}) for n in range(40)))
    made.put(ItemChange("new", tags={"genre": ["g0"]}))
    few = [(f"few{n}", n) for n in range(15)]
    made.put(*(ItemChange(item, tags={"a": [("even", "third")[n % 2]], "genre": [f"g{n % 2}"]}) for item, n in few))
    made.rate(*((f"u{7 * user % 60}", item, 5.0 - user % 3) for item, n in few for user in range(1 + n % 5)))
    made.hide("i5")
    return made


def passes(world: World, item: str, node: Node) -> bool:
    row = world.history.items.row(item)
    assert row is not None
    found = world.history.catalog.attributes(row)
    if isinstance(node, Not):
        return not passes(world, item, node.part)
    if found is None:
        return False
    if isinstance(node, HasTag):
        return not set(node.values).isdisjoint(found.tags.get(node.name, []))
    assert isinstance(node, InRange)
    number = found.numbers.get(node.name)
    return number is not None and (node.least or 0) <= number <= (node.most or 1e9)


class Rules(NamedTuple):
    """The rules of a query, with filters as trees."""

    boosts: list[tuple[Node, float]]
    pins: list[tuple[str, int]]
    max_per: tuple[str, int] | None
    diversity: float
    explore: float = 0.0

    def fields(self) -> dict[str, Any]:
        boosts = [(text_of(node), add) for node, add in self.boosts]
        return {"boosts": boosts, "pins": self.pins, "max_per": self.max_per, "diversity": self.diversity} | (
            {"explore": self.explore, "explore_below": BELOW} if self.explore else {}
        )


def values_of(world: World, item: str) -> list[str]:
    row = world.history.items.row(item)
    found = None if row is None else world.history.catalog.attributes(row)
    return [] if found is None else found.tags.get("genre", [])


def similarity(world: World, one: str, other: str) -> float:
    model, rows = world.ranking.models()[0].model, [world.history.items.row(item) for item in (one, other)]
    if model.params.has_item_lists:
        shares = [
            float(model.listed_weights[first][model.listed[first] == second].sum())
            / float(model.listed_weights[first].max())
            for first, second in (rows, rows[::-1])
        ]
        return round(max(shares), 6)
    if model.params.has_item_weights:
        first, second = (model.item_slots[row] for row in rows)
        if min(first, second) < 0:
            return 0.0
        weight = float(model.item_weights[first, second])
        product = weight * float(model.item_weights[second, first])
        return round(float(np.sign(weight) * np.sqrt(max(product, 0.0))), 6)
    a, b = (model.item_factors[row].astype(float) for row in rows)
    lengths = np.sqrt(a @ a) * np.sqrt(b @ b)
    return round(float(a @ b / lengths), 6) if lengths else 0.0


def to_explore(world: World, lines: list[Any]) -> list[Any]:
    """Those of (item, score, boost) that places for exploration may take, in order."""
    history, model = world.history, world.ranking.models()[0].model
    row, few = history.items.row, []
    for line in lines:
        item = row(line[0])
        assert item is not None
        is_scored = not model.params.has_item_weights or (item < model.n_items and model.item_trained[item])
        if is_scored and history.table.item_counts[item] < BELOW:
            few.append((int(history.table.item_counts[item]), item, line))
    bests = {count: max(line[1] for one, _, line in few if one == count) for count, _, _ in few}
    widths = {count: 1 / math.sqrt(1 + count) for count in bests}
    span = max(widths.values(), default=0) - min(widths.values(), default=0)
    c = (max(bests.values()) - min(bests.values())) / span if span else 0
    few.sort(key=lambda one: (-(one[2][1] + c * widths[one[0]]), one[1]))
    return [line for _, _, line in few]


def boost(world: World, item: str, rules: Rules) -> float:
    """The sum of what the item gets; like the engine's it depends on no order, since levels of exploration tie."""
    return math.fsum(add for node, add in rules.boosts if passes(world, item, node))


def expected(
    world: World, plain: list[Any], rules: Rules, shown: set[str], n: int, offset: int, are_free: list[bool]
) -> list[Any]:
    """The page as (item, score, boost, source), from the plain list of all items."""
    pins = [(item, place) for item, place in sorted(rules.pins, key=lambda pin: pin[1]) if item in shown]
    boost_of = {one.item: boost(world, one.item, rules) for one in plain}
    row = world.history.items.row
    order = sorted(plain, key=lambda one: (-(one.score + boost_of[one.item]), -one.score, row(one.item)))
    counts = dict.fromkeys((value for item, _ in pins for value in values_of(world, item)), 0)
    for value in itertools.chain.from_iterable(values_of(world, item) for item, _ in pins):
        counts[value] += 1
    _, most = rules.max_per or ("", 0)

    def allowed(lines: list[Any]) -> list[Any]:
        values = [values_of(world, line[0]) if rules.max_per else [] for line in lines]
        return [line for line, own in zip(lines, values, strict=True) if all(counts.get(one, 0) < most for one in own)]

    boosted = [(one.item, one.score + boost_of[one.item], boost_of[one.item]) for one in order]
    left = [line for line in boosted if line[0] not in dict(pins)]
    few, taken = to_explore(world, allowed(left)) if any(are_free) else [], list[Any]()
    while left := allowed(left):
        few = [line for line in allowed(few) if line in left]
        source = "explore" if few and are_free[len(taken)] else None
        line = few[0] if source else left[0]
        left.remove(line)
        for value in values_of(world, line[0]):
            counts[value] = counts.get(value, 0) + 1
        taken.append((*line, source))
    size = min(MAX_LENGTH, 8 * n) if rules.diversity else 0
    others = iter(mmr(world, [line for line in taken[:size] if not line[3]], rules.diversity))
    lines = [line if line[3] else next(others) for line in taken[:size]] + taken[size:]
    for item, place in pins:
        lines.insert(place - 1, (item, None, 0.0, "pin"))
    return lines[offset : offset + n]


def mmr(world: World, pool: list[Any], d: float) -> list[Any]:
    if not pool:
        return []
    best, last = pool[0][1], pool[-1][1]
    chosen: list[Any] = []
    left = list(pool)
    while left:

        def gain(line: Any) -> float:
            relevance = (line[1] - last) / (best - last) if best > last else 1.0
            nearest = max(similarity(world, line[0], other[0]) for other in chosen)
            return (1 - d) * relevance - d * nearest

        chosen.append(max(left, key=gain) if chosen else left[0])
        left.remove(chosen[-1])
    return chosen


ITEMS = [f"i{n}" for n in range(0, 40, 3)]
rules_of = st.builds(
    Rules,
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from([-2.0, 0.1, 0.25, 1.0])), max_size=3),
    st.lists(st.sampled_from([*ITEMS, "i5", "nowhere", "new"]), unique=True, max_size=3).flatmap(
        lambda items: st.permutations([1, 2, 5, 30, 60]).map(lambda places: list(zip(items, places, strict=False)))
    ),
    st.none() | st.tuples(st.just("genre"), st.integers(1, 4)),
    st.sampled_from([0.0, 0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.2, 0.5, 1.0]),
)
conditions = st.fixed_dictionaries(
    {},
    optional={
        "filter": st.sampled_from([text_of(EVEN), text_of(Not(THIRD)), text_of(NONE)]),
        "exclude": st.just(["i1", "i3"]),
        "candidates": st.just([f"i{n}" for n in range(2, 30)]),
        "min_ratings": st.sampled_from([1, 20]),
        "include_seen": st.booleans(),
    },
)
ANONYMOUS: dict[str, Any] = {"ratings": [("i0", 5.0), ("i9", 1.0)]}
whose = st.sampled_from([{"user": "u0"}, {"user": FALLBACK}, ANONYMOUS])


@example(Rules([(EVEN, 0.1), (EVEN, 1.0), (EVEN, 0.1)], [], None, 0.0, 0.5), {}, ANONYMOUS, 3, 0)
@given(rules=rules_of, given=conditions, whose=whose, n=st.integers(1, 12), offset=st.sampled_from([0, 0, 3, 15, 45]))
@settings(max_examples=100, deadline=None)
def test_lists_are_those_of_the_rules_over_all_items(
    world: World, rules: Rules, given: dict[str, Any], whose: dict[str, Any], n: int, offset: int
) -> None:
    plain = ask(world.ranking, Recommend(**whose, **given, n=100)).items
    seen = {one.item for one in plain}
    new = Recommend(**whose, **given, n=1, pins=[("new", 1)])
    if [one.source for one in ask(world.ranking, new).items] == ["pin"]:
        seen.add("new")
    query = Recommend(**whose, **given, **rules.fields(), n=n, offset=offset)
    answer, user = ask(world.ranking, query), whose.get("user")
    (are_free,) = world.ranking._exploration.places([query], [user], 100)
    are_free = are_free if user != FALLBACK else [False] * 100
    wanted = expected(world, plain, rules, seen, n, offset, are_free)
    assert [one.item for one in answer.items] == [line[0] for line in wanted]
    for one, (_, score, boost, source) in zip(answer.items, wanted, strict=True):
        assert one.score == (None if source == "pin" else pytest.approx(score))
        assert one.source == (source or UNSET)
        if rules.boosts and source != "pin":
            assert one.boost == pytest.approx(boost)
        assert hasattr(one, "estimate")


def test_a_group_of_users_gets_the_lists_of_each(world: World) -> None:
    users = [f"u{n}" for n in range(8)] + [FALLBACK]
    rules = Rules([(EVEN, 0.5), (THIRD, -0.2)], [("new", 2)], ("genre", 2), 0.2).fields()
    several = ask(world.ranking, Recommend(users=users, n=7, explain=True, **rules))
    for user, answer in zip(users, several, strict=True):
        alone = ask(world.ranking, Recommend(user=user, n=7, explain=True, **rules))
        assert alone.items == answer.items
        assert answer.items[1] == ScoredItem("new", None, source="pin")


def test_pages_are_slices_of_one_list(world: World) -> None:
    rules = Rules([(EVEN, 0.5)], [("i0", 4), ("new", 9)], ("genre", 6), 0.3).fields()
    pages = [ask(world.ranking, Recommend(user="u1", n=5, offset=offset, **rules)).items for offset in range(0, 45, 5)]
    items = [one.item for page in pages for one in page]
    assert len(set(items)) == len(items)
    assert items[8] == "new"
    assert not pages[-1]


def test_max_per_looks_further_than_the_head() -> None:
    world = World("als-implicit")
    world.put(*(ItemChange(f"i{n}", op="patch", tags={"genre": ["a"]}) for n in range(38)))
    plain = ask(world.ranking, Recommend(user="u0", n=100, include_seen=True)).items
    tagged = [one.item for one in plain if one.item not in ("i38", "i39")]
    free = [one.item for one in plain if one.item in ("i38", "i39")]
    answer = ask(world.ranking, Recommend(user="u0", n=3, include_seen=True, max_per=("genre", 1)))
    assert {one.item for one in answer.items} == {tagged[0], *free}


def test_unknown_names_are_refused_before_anything_is_ranked(world: World) -> None:
    for rules, place in (
        ({"boosts": [(text_of(HasTag("gener", ("x",))), 1.0)]}, "filter: expected a tag of the catalog"),
        ({"max_per": ("gener", 1)}, "max_per.tag: expected a tag of the catalog"),
        ({"max_per": ("n", 1)}, "max_per.tag: expected a tag of the catalog"),
    ):
        with pytest.raises(InvalidRequest, match=place):
            ask(world.ranking, Recommend(user="u0", **rules))


def test_a_pin_that_may_not_be_shown_leaves_its_place(world: World) -> None:
    pins = [("i5", 1), ("nowhere", 2), ("i0", 3)]
    answer = ask(world.ranking, Recommend(user=FALLBACK, n=4, exclude=["i0"], pins=pins))
    assert answer.items == ask(world.ranking, Popular(n=5)).items[: len(answer.items)] or "i0" not in str(answer.items)
    assert answer.warnings[-2:] == [
        "unknown items in pins: 'nowhere'",
        "pins that the list may not show: 'i5', 'i0'",
    ]


def test_without_a_model_diversity_is_named_in_a_warning() -> None:
    world = World()
    plain = ask(world.ranking, Recommend(user="u0", n=5))
    answer = ask(world.ranking, Recommend(user="u0", n=5, diversity=0.5))
    assert answer.items == plain.items
    assert answer.warnings[-1].startswith("diversity has no effect")
