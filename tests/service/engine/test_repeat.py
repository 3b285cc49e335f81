"""Lists of a whole service in which items come back: baskets of a year, bought again and again."""

from pathlib import Path

import numpy as np
import pytest
from msgspec import UNSET

from gpu.data.evidence import amounts
from service.engine.queries import Recommendation
from service.storage.events import StreamId, TypedEvent, encode_events
from tests.gpu.repeat.test_learn import baskets
from tests.service.whole import Whole

PARAMS = {"n_factors": 8, "n_epochs": 4}


def bought(whole: Whole, returns: float, n_weeks: int = 40) -> StreamId:
    came = baskets(returns, n_weeks=n_weeks)
    order = np.argsort(came.seconds, kind="stable")
    columns = zip(*(column[order].tolist() for column in came[:3]), strict=True)
    events = [TypedEvent(f"u{user}", f"i{item}", "purchase", timestamp=seconds) for user, item, seconds in columns]
    parts = [events[first : first + 500] for first in range(0, len(events), 500)]
    return [whole.append(encode_events(part)) for part in parts][-1]


def ids(answer: Recommendation) -> list[str]:
    return [item.item for item in answer.items]


def scores(answer: Recommendation) -> list[tuple[str, float | None]]:
    return [(item.item, item.score) for item in answer.items]


def test_what_users_come_back_to_is_in_their_lists(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path) as first:
        bought(first, 0.65)
        first.train("als-implicit", **PARAMS)
        (live_model,) = first.engine.models()
        repeat = live_model.repeat
        assert repeat.weight > 0
        row = first.engine.history.users.row("u5")
        assert row is not None
        had, packed, _ = live_model.dated(row)
        strengths = amounts(packed)
        most = first.engine.history.items.id(int(had[np.argmax(strengths)]))

        answer = first.recommend("u5", n=20, explain=True)
        assert ids(answer)[0] == most
        top = answer.items[0]
        assert isinstance(top.again, float)
        assert top.again == pytest.approx(repeat.weight * np.log1p(strengths.max()))
        names = {first.engine.history.items.id(int(item)) for item in had}
        assert {item.item for item in answer.items if item.again is not UNSET} == names & set(ids(answer))
        whole = first.recommend("u5", n=200)
        numbers = [item.score for item in whole.items if item.score is not None]
        assert numbers == sorted(numbers, reverse=True)
        assert names < set(ids(whole))
        assert scores(first.recommend("u5", repeat="allow", n=200)) == scores(whole)
        assert scores(first.recommend("u5", include_seen=True, n=200)) == scores(whole)
        pages = [first.recommend("u5", n=7, offset=offset) for offset in range(0, 21, 7)]
        assert [line for page in pages for line in scores(page)] == scores(whole)[:21]
        assert top.item not in ids(first.recommend("u5", exclude=[top.item]))
        assert ids(first.recommend("u5", candidates=[top.item, "i1"]))[0] == top.item

        never = first.recommend("u5", repeat="never", n=200, explain=True)
        assert not names & set(ids(never))
        assert {item.again for item in never.items} == {UNSET}
        assert ids(never) == [item for item in ids(whole) if item not in names]

        # Purchases count at once, dislikes never come back, and what was only shown stays out.
        position = first.append(encode_events([TypedEvent("u5", "brand-new", "purchase", 40.0, 1.8e9)]))
        assert "brand-new" in ids(first.recommend("u5"))
        shown = TypedEvent("u5", ids(never)[0], "impression"), TypedEvent("u5", most, "dislike", 1000.0)
        position = first.append(encode_events(list(shown)))
        assert not {most, ids(never)[0]} & set(ids(first.recommend("u5", n=200)))
        first.settle()
        expected = [scores(first.recommend(f"u{user}", n=30)) for user in range(8)]
    with Whole(redis_url, tmp_path) as second:
        assert second.engine.as_of == position
        second.settle()
        assert [scores(second.recommend(f"u{user}", n=30)) for user in range(8)] == expected


def test_who_never_comes_back_gets_lists_without_what_they_had(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path) as whole:
        bought(whole, 0.0, n_weeks=60)
        whole.train("als-implicit", **PARAMS)
        (live_model,) = whole.engine.models()
        assert live_model.repeat.weight == 0
        assert live_model.repeat.remark == "users hardly choose again what they had"
        row = whole.engine.history.users.row("u5")
        assert row is not None
        names = {whole.engine.history.items.id(int(item)) for item in live_model.dated(row)[0]}
        answer = whole.recommend("u5", n=200)
        assert not names & set(ids(answer))
        assert scores(whole.recommend("u5", n=200, repeat="never")) == scores(answer)
        allowed = whole.recommend("u5", n=200, repeat="allow")
        assert scores(allowed) == scores(whole.recommend("u5", n=200, include_seen=True))
        assert names < set(ids(allowed))
