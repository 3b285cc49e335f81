"""Lists that show again what was only shown, against a service that was never told of a showing."""

import itertools
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from gpu.online.events import N_SHOWINGS
from service.engine.queries import Recommend
from service.engine.queries.filter_tree import text_of
from service.engine.state.history import History
from service.storage.events import Entry, Merge, RatingEvent, StreamId, TypedEvent
from service.storage.log.rating_log import RatingLog
from tests.service.engine.lists.test_ranking import ask
from tests.service.engine.lists.test_selection import EVEN, THIRD, World
from tests.service.logs import commit

NOW_S = 1_000_000
HOUR_S = 3600.0
Showing = tuple[str, str, float]
USERS = ["u0", "u1", "u2", "stranger", "shown alone"]


def entry_of(showings: list[Showing]) -> Entry:
    at = StreamId(1000 * NOW_S, 0)
    return Entry(at, "event", events=[TypedEvent(user, item, "impression", 1.0, time) for user, item, time in showings])


def drawn(seed: int, users: list[str]) -> list[Showing]:
    rng = np.random.default_rng(seed)
    hours = rng.integers(-3, 20, 200).tolist()  # some of the future: they count as shown now
    return [(users[rng.integers(len(users))], f"i{rng.integers(40)}", NOW_S - hour * HOUR_S) for hour in hours]


def lowered(showings: list[Showing], user: str, half_life_s: float, by: float) -> dict[str, float]:
    sums: dict[str, float] = {}
    for item, time in [(item, time) for one, item, time in showings if one == user][-N_SHOWINGS:]:
        sums[item] = sums.get(item, 0.0) + by * 2.0 ** (-max(NOW_S - time, 0.0) / half_life_s)
    return sums


class Worlds:
    """The same world with showings and without."""

    def __init__(self, name: str) -> None:
        self.told, self.untold = World(name), World(name)
        self.showings = drawn(3, USERS[:3] + USERS[4:])
        self.told.apply(entry_of(self.showings))
        self.untold.apply(Entry(StreamId(1000 * NOW_S, 0), "noop"))


@pytest.fixture(scope="module", params=["als-implicit", "culsh", "ease"])
def worlds(request: pytest.FixtureRequest) -> Worlds:
    return Worlds(request.param)


CONDITIONS: list[dict[str, Any]] = [
    {},
    {"include_seen": True},
    {"filter": text_of(EVEN), "exclude": ["i2"]},
    {"candidates": [f"i{n}" for n in range(3, 38)], "min_ratings": 20},
    {"boosts": [(text_of(EVEN), 0.7), (text_of(THIRD), -0.4)]},
    {"ratings": [("i0", 5.0), ("i7", None)]},
]


@pytest.mark.parametrize("conditions", CONDITIONS, ids="-".join)
def test_each_showing_lowers_its_item(worlds: Worlds, conditions: dict[str, Any]) -> None:
    rotations = itertools.cycle([(6 * HOUR_S, 1.0), (HOUR_S, 0.05), (24 * HOUR_S, 40.0)])
    row = worlds.told.history.items.row
    for user, (half_life_s, by) in zip(USERS, rotations, strict=False):
        plain = ask(worlds.untold.ranking, Recommend(user=user, n=100, **conditions)).items
        sums = lowered(worlds.showings, user, half_life_s, by)
        wanted = sorted(
            ((one.score - sums.get(one.item, 0.0), one.score, row(one.item), one.item) for one in plain),
            key=lambda line: (-line[0], -line[1], line[2]),
        )
        query = Recommend(user=user, rotate=(half_life_s, by), **conditions)
        found = ask(worlds.told.ranking, msgspec.structs.replace(query, n=100)).items
        assert [one.item for one in found] == [line[3] for line in wanted]
        for one, line in zip(found, wanted, strict=True):
            assert one.score == pytest.approx(line[0], rel=1e-5, abs=1e-6)
            if "boosts" not in conditions:
                assert one.boost == pytest.approx(-sums.get(one.item, 0.0))
        page = ask(worlds.told.ranking, msgspec.structs.replace(query, n=4, offset=3)).items
        assert [one.item for one in page] == [line[3] for line in wanted[3:7]]


def test_some_showings_change_lists_and_others_have_rules_of_their_own(worlds: Worlds) -> None:
    """Else the test above would say little; and users of one request are lowered each by what they were shown."""
    queries = {user: Recommend(user=user, n=5, rotate=(6 * HOUR_S, 1.0)) for user in USERS}
    alone = {user: ask(worlds.told.ranking, query).items for user, query in queries.items()}
    plain = {user: ask(worlds.untold.ranking, Recommend(user=user, n=5)).items for user in USERS}
    assert [one.item for one in alone["u0"]] != [one.item for one in plain["u0"]]
    together = ask(worlds.told.ranking, Recommend(users=USERS, n=5, rotate=(6 * HOUR_S, 1.0)))
    assert [answer.items for answer in together] == list(alone.values())
    out = [one.item for one in ask(worlds.told.ranking, Recommend(user="u0", n=100)).items]
    assert not {item for user, item, _ in worlds.showings if user == "u0"} & set(out)


def test_pages_go_on_without_repeats(worlds: Worlds) -> None:
    worlds.told.ranking.signer.key = bytes(32)
    query = Recommend(user="u1", n=3, rotate=(6 * HOUR_S, 1.0))
    whole = [one.item for one in ask(worlds.told.ranking, msgspec.structs.replace(query, n=100)).items]
    found, cursor = list[str](), ""
    while cursor is not None:
        (answer,) = worlds.told.ranking.answer([msgspec.structs.replace(query, cursor=cursor)], StreamId(9, 0))
        found += [one.item for one in answer.items]
        cursor = answer.next
    assert found == whole


def state(history: History) -> dict[str, list[tuple[str, int]]]:
    rows = {user: history.users.row(user) for user in ("u", "v", "w")}
    found = {user: history.strengths.showings.of(row) for user, row in rows.items() if row is not None}
    return {
        user: list(zip(history.items.ids(items.tolist()), seconds.tolist(), strict=True))
        for user, (items, seconds) in found.items()
    }


def test_showings_are_a_function_of_the_stream(tmp_path: Path) -> None:
    """In any grouping, through the log, after a forgetting; repeats and later times than that of the entry aside."""
    rng = np.random.default_rng(5)
    entries: list[Entry] = []
    expected: dict[str, list[tuple[str, int]]] = {"u": [], "v": [], "w": []}
    have_sent: set[str] = set()
    for n in range(1, 60):
        if n == 30:
            entries.append(Entry(StreamId(n * 1000, 0), "forget", subject="v"))
            expected["v"] = []
            have_sent.discard("v")
            continue
        made = []
        for k in range(12):
            user, item, time = "uvw"[rng.integers(3)], f"i{rng.integers(9)}", float(rng.integers(0, 60))
            made.append(TypedEvent(user, item, "impression", 1.0, time, "same" if k == 5 else None))
            if k != 5 or user not in have_sent:
                expected[user].append((item, int(min(time, n))))
            have_sent |= {user} if k == 5 else set()
        made.append(TypedEvent("u", "viewed", "view", 1.0, 1.0))
        entries.append(Entry(StreamId(n * 1000, 0), "event", events=made))
    whole, single, read = History(), History(), History()
    whole.apply(entries)
    for entry in entries:
        single.apply([entry])
    log = RatingLog(tmp_path)
    commit(log, entries)
    read.load(log)
    assert state(whole) == state(single) == state(read)
    assert state(whole) == {user: showings[-N_SHOWINGS:] for user, showings in expected.items()}
    assert len(state(whole)["u"]) == N_SHOWINGS
    whole.apply([Entry(StreamId(10**5, 0), "merge", merge=Merge("w", "u"))])
    both = sorted([*expected["u"][-N_SHOWINGS:], *expected["w"][-N_SHOWINGS:]], key=lambda one: one[1])
    assert state(whole)["u"] == both[-N_SHOWINGS:]
    assert state(whole).keys() == {"u", "v"}
    again = Entry(StreamId(10**6, 1), "rating", [RatingEvent("u", "i1", 1.0, 1.0)])
    whole.apply([Entry(StreamId(10**6, 0), "forget", subject="u"), again])
    assert state(whole)["u"] == []
