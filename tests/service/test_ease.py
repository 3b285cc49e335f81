"""`ease` served: lists follow the history itself, and everything else answers as for other implicit models."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from service.engine.queries import Estimate, Neighbors, Recommend, Recommendation
from service.storage.events import RatingEvent
from service.storage.snapshots import live_versions, snapshot
from tests.service.planted import events
from tests.service.waiting import eventually
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


def test_reasons_add_up_to_the_score(ease: Whole) -> None:
    ease.rate(("fresh", "i4", 5.0), ("fresh", "i6", 5.0))
    for one in ease.recommend("fresh", n=5, explain=True).items:
        assert isinstance(one.reasons, list)
        assert {reason.item for reason in one.reasons} == {"i4", "i6"}
        assert sum(reason.contribution for reason in one.reasons) == pytest.approx(one.score, rel=1e-4)


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


def test_estimates_lie_between_0_and_1(ease: Whole) -> None:
    assert 0 <= ease.ask(Estimate(user="u2", item="i9", model="ease")).estimate < 0.5
    assert 0.5 < ease.ask(Estimate(user="u2", item="i4", model="ease")).estimate <= 1
    assert ease.ask(Estimate(user="nobody", item="i4", model="ease")).estimate == 0


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


def test_old_likes_count_less_with_a_half_life(ease: Whole) -> None:
    """Likes of even items, then of odd ones; the list, its reasons, and what a request imagines agree."""
    now = time.time()
    ease.send([structs.replace(one, timestamp=now) for one in events()])
    ease.send([RatingEvent("mover", f"i{item}", 5.0, now - (item % 2 == 0) * 90 * 86_400) for item in (2, 4, 6, 3, 5)])
    assert sum(int(item[1:]) % 2 for item in scores(ease.recommend("mover", n=10))) <= 5
    ease.train("ease", half_life_days=10)
    answer = ease.recommend("mover", n=10, explain=True)
    assert all(int(one.item[1:]) % 2 for one in answer.items)
    for one in answer.items:
        assert isinstance(one.reasons, list)
        assert {reason.item for reason in one.reasons} <= {"i3", "i5"}
        assert sum(reason.contribution for reason in one.reasons) == pytest.approx(one.score, rel=1e-2)
    imagined = ease.ask(Recommend(user="mover", ratings=[("i7", None)], n=10))
    assert scores(imagined) == pytest.approx(scores(answer))
    estimate = ease.ask(Estimate(user="mover", item=answer.items[0].item)).estimate
    assert estimate == pytest.approx(min(1, scores(answer)[answer.items[0].item]), rel=1e-4)


def test_a_forgotten_user_leaves_the_served_state_and_the_snapshots(ease: Whole) -> None:
    position = ease.subject("forget", "u3")
    assert ease.recommend("u3").fallback == "popular"
    assert "u3" not in {one.user for one in ease.ask(Neighbors(kind="user", id="u5", n=60)).neighbors}
    job = ease.ended(ease.jobs.submit_forgetting("u3", position))
    assert (job.state, job.error) == ("succeeded", None)
    (version,) = snapshot.versions(ease.data / "snapshots")
    assert not snapshot.holds_user(ease.data / "snapshots", version, "u3")
    eventually(lambda: ease.hotswap.served() == {"ease": version})
    assert ease.recommend("u5").model_version == version.partition(".")[0]


def test_a_snapshot_has_the_weights_once(ease: Whole) -> None:
    folder = ease.data / "snapshots"
    (version,) = snapshot.versions(folder)
    loaded = snapshot.load(folder, version)
    assert loaded.model.item_weights.shape == (40, 40)
    assert loaded.manifest.calibration.regularization > 0
    size = (folder / version / "arrays.safetensors").stat().st_size
    assert size < 4 * 40**2 + 10_000
    assert np.shares_memory(loaded.model.item_weights, loaded.model.mapped(*_same(loaded)).item_weights)


def _same(loaded: snapshot.Snapshot) -> tuple[np.ndarray, np.ndarray, int, int]:
    n_users, n_items = loaded.model.n_users, loaded.model.n_items
    return np.arange(n_users), np.arange(n_items), n_users, n_items


def test_a_restart_answers_as_before(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path) as first:
        first.send(events())
        version = first.train("ease")
        first.rate(("fresh", "i4", 5.0), ("fresh", "new", 1.0))
        before = first.recommend("fresh", n=39)
    with Whole(redis_url, tmp_path) as second:
        assert live_versions.read(tmp_path) == second.hotswap.served() == {"ease": version}
        assert second.recommend("fresh", n=39) == before
