import numpy as np
import pytest

from service.base.errors import InvalidRequest
from service.engine.errors import UnknownItem
from service.engine.lists import rating_lists
from service.engine.lists.rating_lists import RatingLists
from service.engine.queries.rating_queries import AllRatings, ItemRatings
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId

N_USERS, N_ITEMS = 40, 12


def entries(seed: int) -> list[Entry]:
    random = np.random.default_rng(seed)
    made = []
    for ms in range(1, 60):
        pairs = random.integers(0, [N_USERS, N_ITEMS], (20, 2)).tolist()
        values = [None if value > 4.5 else round(value, 1) for value in random.uniform(-5, 5, 20).tolist()]
        ratings = [RatingEvent(f"u{u}", f"i{i}", value, ms / 10) for (u, i), value in zip(pairs, values, strict=True)]
        made.append(Entry(StreamId(ms, 0), "rating", ratings))
        if ms % 20 == 0:
            made.append(Entry(StreamId(ms, 1), "forget", subject=f"u{ms}"))
    return made


def last_of_all(all_entries: list[Entry]) -> dict[tuple[str, str], tuple[float, float]]:
    """Plain: pair → (rating, timestamp), in the order of the last rating."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for entry in all_entries:
        if entry.kind == "forget":
            found = {pair: known for pair, known in found.items() if pair[0] != entry.subject}
        for one in entry.ratings:
            found.pop((one.user, one.item), None)
            if one.rating is not None:
                found[one.user, one.item] = one.rating, one.timestamp
    return found


@pytest.fixture
def known() -> tuple[RatingLists, dict[tuple[str, str], tuple[float, float]]]:
    made, history = entries(3), History()
    history.apply(made)
    return RatingLists(history), last_of_all(made)


@pytest.mark.parametrize("looked_at", [1, 3, 4096])
def test_ratings_of_an_item_are_those_of_all_users_newest_first(known, looked_at: int, monkeypatch) -> None:
    lists, plain = known
    monkeypatch.setattr(rating_lists, "LEAST_LOOKED_AT", looked_at)
    for item in range(N_ITEMS):
        expected = [(user, *rated) for (user, of), rated in reversed(plain.items()) if of == f"i{item}"]
        answer = lists.of_item(ItemRatings(item=f"i{item}", n=5, offset=2), "9-0")
        assert [(one.user, one.rating, one.timestamp) for one in answer.ratings] == expected[2:7]
        assert answer.n_ratings == len(expected) > 7
        for offset, n in ((0, 1), (0, 2), (len(expected) - 1, 5), (len(expected) + 1, 5)):
            answer = lists.of_item(ItemRatings(item=f"i{item}", n=n, offset=offset), "9-0")
            assert [one.user for one in answer.ratings] == [one[0] for one in expected[offset : offset + n]]
    with pytest.raises(UnknownItem):
        lists.of_item(ItemRatings(item="x"), "9-0")


@pytest.mark.parametrize(("n", "looked_at", "users"), [(7, 10, 1), (1000, 10**6, 5), (3, 25, 4096)])
@pytest.mark.parametrize(("below", "above"), [(None, None), (0.0, None), (None, 4.1), (2.0, -1.5)])
def test_pages_have_every_rating_between_the_values_once(known, monkeypatch, n, looked_at, users, below, above):
    monkeypatch.setattr(rating_lists, "MOST_LOOKED_AT", looked_at)
    monkeypatch.setattr(rating_lists, "USERS_PER_LOOK", users)
    lists, plain = known
    found, cursor, n_pages = [], None, 0
    while n_pages == 0 or cursor is not None:
        page = lists.all(AllRatings(n=n, cursor=cursor, below=below, above=above), "9-0")
        assert len(page.ratings) <= n
        found += [(one.user, one.item, one.rating, one.timestamp) for one in page.ratings]
        cursor, n_pages = page.next, n_pages + 1
        assert n_pages < 1000
    wanted = [
        (*pair, *rated)
        for pair, rated in plain.items()
        if (below is None or rated[0] < below) and (above is None or rated[0] > above)
    ]
    assert sorted(found) == sorted(wanted)
    assert len(wanted) > 5


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "0123456789abcde", "0123456789abcdef.", "0123456789abcdeg.1", "1.1", "0123456789abcdef.-1"),
        *("0123456789abcdef.01", "0123456789abcdef.2147483647", "0123456789abcdef.9999999999", "0123456789abcdef.٣"),
    ],
)
def test_other_cursors_are_refused(known, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid cursor: expected `next` of an earlier page"):
        known[0].all(AllRatings(cursor=cursor), "9-0")
