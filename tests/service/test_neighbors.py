"""`neighbors` served: lists follow the history, of items that are newer than the training too."""

import pytest

import gpu
from service.engine.queries import Neighbors, Recommend, Recommendation
from tests.service.planted import events
from tests.service.whole import Whole

ARRAYS = "listed", "listed_weights", "item_factors", "user_factors"


def scores(answer: Recommendation) -> dict[str, float]:
    return {one.item: one.score for one in answer.items if one.score is not None}


@pytest.fixture
def served(whole: Whole) -> Whole:
    """Live, and all lists have followed."""
    whole.send(events())
    whole.train("neighbors")
    whole.settle()
    return whole


def test_a_rating_counts_in_the_next_list(served: Whole) -> None:
    served.rate(("fresh", "i4", 5.0))
    liked = served.recommend("fresh", n=39)
    assert (liked.personalized, liked.model, len(liked.items)) == (True, "neighbors", 39)
    assert all(int(one.item[1:]) % 2 == 0 for one in liked.items[:10])
    anonymous = served.ask(Recommend(ratings=[("i4", 5.0)], n=39))
    assert scores(anonymous).keys() == scores(liked).keys()
    best = liked.items[0].item
    served.rate(("fresh", "i6", 1.0))  # of the same taste: similar items rank lower
    assert scores(served.recommend("fresh", n=39))[best] < scores(liked)[best]


def test_reasons_are_parts_of_the_score(served: Whole) -> None:
    served.rate(("fresh", "i4", 5.0), ("fresh", "i6", 5.0))
    served.settle()
    scored = scores(served.recommend("fresh", n=5))
    for one in served.recommend("fresh", n=5, explain=True).items:
        assert isinstance(one.reasons, list)
        assert {reason.item for reason in one.reasons} == {"i4", "i6"}
        assert sum(reason.contribution for reason in one.reasons) == pytest.approx(scored[one.item], abs=1e-5)


def test_neighbors_are_what_is_liked_together(served: Whole) -> None:
    found = served.ask(Neighbors(kind="item", id="i2", n=10)).neighbors
    assert all(int(one.item[1:]) % 2 == 0 for one in found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    users = served.ask(Neighbors(kind="user", id="u2", n=10)).neighbors
    assert all(int(one.user[1:]) % 2 == 0 for one in users)


def test_a_new_item_has_neighbors_and_is_listed_without_a_training(served: Whole) -> None:
    served.rate(*((f"u{user}", "new", 5.0) for user in range(0, 40, 2)))
    served.settle()
    assert scores(served.recommend("u50", n=40))["new"] > 0
    assert len(served.ask(Neighbors(kind="item", id="new", n=3)).neighbors) == 3
    served.rate(("late", "new", 5.0))
    assert served.recommend("late").personalized


def test_after_a_forgetting_lists_are_those_of_a_training_without_the_user(served: Whole) -> None:
    served.rate(("fresh", "i4", 5.0), ("fresh", "i9", 5.0), ("u4", "i3", None))
    assert served.ended(served.jobs.submit_forgetting("u8", served.subject("forget", "u8"))).state == "succeeded"
    served.settle()
    (live,), history = served.engine.live.all(), served.engine.history
    ratings = live.table.ratings(history.users.keys, history.items.keys)
    expected = gpu.run_here(ratings, live.model.params, gpu.HOST, None, None, live.model.calibration)
    for name in ARRAYS:
        assert getattr(live.model, name).tobytes() == getattr(expected, name).tobytes(), name
