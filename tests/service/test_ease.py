"""`ease` served: lists follow the history itself, and everything else answers as for other implicit models."""

import pytest

from service.engine.queries import Neighbors, Recommend, Recommendation
from tests.service.planted import events
from tests.service.whole import Whole


def scores(answer: Recommendation) -> dict[str, float]:
    return {one.item: one.score for one in answer.items if one.score is not None}


@pytest.fixture
def ease(whole: Whole) -> Whole:
    """Live, with nothing learned since."""
    whole.send(events())
    whole.train("ease")
    return whole


def test_a_rating_counts_in_the_next_list(ease: Whole) -> None:
    ease.rate(("fresh", "i4", 5.0))
    liked = ease.recommend("fresh", n=39)
    assert (liked.personalized, liked.model, len(liked.items)) == (True, "ease", 39)
    assert all(int(one.item[1:]) % 2 == 0 for one in liked.items[:10])
    best = liked.items[0].item
    ease.rate(("fresh", "i6", 1.0))  # of the same taste: similar items rank lower
    assert scores(ease.recommend("fresh", n=39))[best] < scores(liked)[best]
    ease.rate(("fresh", "i6", None))
    assert scores(ease.recommend("fresh", n=39)) == scores(liked)
    anonymous = ease.ask(Recommend(ratings=[("i4", 5.0)], n=39))
    assert scores(anonymous) == scores(liked)


def test_who_likes_nothing_gets_popular_items_without_what_is_disliked(ease: Whole) -> None:
    ease.rate(("grump", "i4", 1.0))
    once = ease.recommend("grump", n=40)
    assert once.personalized
    assert len({one.item for one in once.items if (one.score or 0) > 0}) == 39
    ease.rate(("grump", "i8", 1.0))
    shifts = {item: score - scores(once)[item] for item, score in scores(ease.recommend("grump", n=40)).items()}
    even, odd = ([shift for item, shift in shifts.items() if int(item[1:]) % 2 == n] for n in (0, 1))
    assert max(even) < min(0, *odd)


def test_neighbors_are_alike_in_both_directions(ease: Whole) -> None:
    whole = {f"i{item}": ease.ask(Neighbors(kind="item", id=f"i{item}", n=39)).neighbors for item in (2, 8)}
    to = {name: {one.item: one.score for one in found} for name, found in whole.items()}
    assert to["i2"]["i8"] == pytest.approx(to["i8"]["i2"], abs=1e-6)
    assert all(int(one.item[1:]) % 2 == 0 for one in whole["i2"][:10])
    users = ease.ask(Neighbors(kind="user", id="u2", n=10)).neighbors
    assert all(int(one.user[1:]) % 2 == 0 for one in users)


def test_a_new_item_is_listed_from_the_next_training_on(ease: Whole) -> None:
    ease.rate(*((f"u{user}", "new", 5.0) for user in range(0, 40, 2)))
    assert scores(ease.recommend("u50", n=40))["new"] == 0
    assert ease.ask(Neighbors(kind="item", id="new", n=3)).neighbors == []
    only_new = ease.rate(("late", "new", 5.0))
    assert not ease.recommend("late").personalized
    ease.train("ease")
    assert ease.engine.as_of >= only_new
    assert ease.recommend("late").personalized
    assert scores(ease.recommend("u50", n=40))["new"] > 0.1
