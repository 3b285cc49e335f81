"""Lists with a trend, in a whole service: ratings of a hundred days, in which every fortnight has its fashion."""

import time
from pathlib import Path

import numpy as np
import pytest
from msgspec import UNSET

from service.engine.queries import Recommendation
from service.storage.events import RatingEvent
from tests.gpu.trend.test_learn import DAYS, PARAMS, drawn
from tests.service.whole import Whole

DAY_S = 86_400.0


def events(began_s: float, fashion: float = 0.5) -> list[RatingEvent]:
    columns = zip(*(column.tolist() for column in drawn(fashion)), strict=True)
    return [RatingEvent(f"u{user}", f"i{item}", 1.0, began_s + at) for user, item, at in columns]


def oracle(whole: Whole, user: str) -> dict[str, float]:
    """The score of each item: the product of factors plus the part of the trend, from all pairs, in float64."""
    (live_model,) = whole.engine.models()
    history, model, trend = whole.engine.history, live_model.model, live_model.trend
    assert trend is not None
    row, weights = history.users.row(user), np.zeros(len(history.items))
    items, values, times = (np.concatenate(column) for column in zip(*history.strengths.table.portions(), strict=True))
    np.add.at(weights, items[values >= 0], 0.5 ** ((times.max() - times[values >= 0]) / trend.half_life_days / DAY_S))
    products = model.item_factors.astype(np.float64) @ model.user_factors[row]
    shares = weights / weights.max()
    return {
        history.items.id(item): float(products[item] + trend.weight * shares[item])
        for item in range(len(history.items))
    }


def scores(answer: Recommendation) -> list[tuple[str, float | None]]:
    return [(item.item, item.score) for item in answer.items]


def ids(answer: Recommendation) -> list[str]:
    return [item.item for item in answer.items]


@pytest.mark.parametrize("ago", [0, 8000], ids=["now", "imported"])
def test_what_is_popular_now_is_in_each_list_and_follows_the_stream(redis_url: str, tmp_path: Path, ago: float) -> None:
    began_s = time.time() - (DAYS + ago) * DAY_S
    with Whole(redis_url, tmp_path) as first:
        first.send(events(began_s))
        first.train("als-implicit", **PARAMS)
        (live_model,) = first.engine.models()
        assert live_model.trend is not None
        assert live_model.trend.weight > 0
        weight = live_model.trend.weight

        answer, expected = first.recommend("u5", n=20, explain=True), oracle(first, "u5")
        for item in answer.items:  # the part of the trend is exact but for the steps of its unit, of an eighth of 2
            assert isinstance(item.trend, float)
            assert isinstance(item.score, float)
            low, high = expected[item.item], expected[item.item] + 0.1 * weight
            assert low - 1e-3 <= item.score <= high + 1e-3
            assert 0 <= item.trend <= 1.1 * weight
        assert scores(first.recommend("u5", n=20)) == scores(answer)
        assert first.recommend("u5").items[0].trend is UNSET

        # An item that nobody knew becomes popular: it comes up in lists, and its score says why.
        came_s = began_s + DAYS * DAY_S
        position = first.send([RatingEvent(f"late{n}", "sudden", 1.0, came_s) for n in range(400)])
        (live_model,) = first.engine.models()
        risen = next(item for item in first.recommend("u5", n=120, explain=True).items if item.item == "sudden")
        assert risen.trend == pytest.approx(weight, rel=0.1)
        assert risen.item in ids(first.recommend("u5", n=10))
        first.settle()
        shown = [scores(first.recommend(f"u{user}", n=30)) for user in range(8)]

        stranger = first.recommend("stranger")
        assert (stranger.fallback, ids(stranger)[0]) == ("trending", "sudden")
        assert first.recommend("stranger", fallback="popular").fallback == "popular"
    with Whole(redis_url, tmp_path) as second:
        assert second.engine.as_of == position
        second.settle()
        assert [scores(second.recommend(f"u{user}", n=30)) for user in range(8)] == shown
        for n in range(5):
            second.subject("forget", f"late{n}")
        second.rate(*[(f"late{n}", "sudden", None) for n in range(5, 400)])
        again = second.recommend("u5", n=20, explain=True)
        assert "sudden" not in ids(again)[:10]


def test_lists_of_data_without_times_stay_as_they_were(redis_url: str, tmp_path: Path) -> None:
    """Ratings that came within seconds have no trend, and unknown users get popular items."""
    with Whole(redis_url, tmp_path) as whole:
        whole.send([RatingEvent(one.user, one.item, one.rating, 1e9) for one in events(0.0)])
        whole.train("als-implicit", **PARAMS)
        (live_model,) = whole.engine.models()
        assert live_model.trend is not None
        assert (live_model.trend.weight, live_model.trend.n_pairs) == (0, 0)
        assert live_model.trend.remark == "not tested: times are spread over 0 days, expected 2 or more"
        answer = whole.recommend("u5", n=20, explain=True)
        assert answer.items[0].trend is UNSET
        products = live_model.model.item_factors @ live_model.model.user_factors[whole.engine.history.users.row("u5")]
        of_rows = {whole.engine.history.items.id(row): float(score) for row, score in enumerate(products)}
        assert dict(scores(answer)) == pytest.approx({item: of_rows[item] for item in ids(answer)}, rel=1e-4)
        assert whole.recommend("stranger").fallback == "popular"


def test_a_half_life_that_is_none_of_the_setting_is_counted_for_the_model(redis_url: str, tmp_path: Path) -> None:
    """A snapshot of a service with other half-lives keeps its trend."""
    began_s = time.time() - DAYS * DAY_S
    with Whole(redis_url, tmp_path) as whole:
        whole.send(events(began_s))
        whole.train("als-implicit", **PARAMS)
        (live_model,) = whole.engine.models()
        expected = scores(whole.recommend("u5", n=20))
        common = whole.engine._ranking._common
        common._trending = {seconds: one for seconds, one in common._trending.items() if seconds == 1.0}
        whole.engine._ranking.install(live_model)
        assert scores(whole.recommend("u5", n=20)) == expected
