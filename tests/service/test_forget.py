from __future__ import annotations

import pytest

from service import snapshot
from service.errors import UnknownUser
from service.events import StreamId
from service.queries import UserRatings
from service.segment import holds
from tests.service.planted import SMALL, events
from tests.service.waiting import eventually
from tests.service.whole import Whole


def test_a_forgotten_user_leaves_every_place(whole: Whole) -> None:
    whole.send(events())
    before = {name: whole.train(name, **SMALL) for name in ("culsh", "culsh-implicit")}
    whole.train("culsh", **SMALL)  # the first culsh is kept as the one before
    whole.stream.reject(StreamId(1, 1), {b"v": b"1", b"ratings": b'[{"user": "u3"}]'}, "bad")
    position = whole.subject("forget", "u3")
    with pytest.raises(UnknownUser):
        whole.ask(UserRatings(user="u3"))
    whole.rate(("u3", "i1", 5.0))  # a new user of the same name
    job = whole.ended(whole.jobs.submit_forgetting("u3", position))
    assert (job.state, job.error, job.progress) == ("succeeded", None, 1.0)
    assert "next training" in str(job.reason)
    assert [one.item for one in whole.ask(UserRatings(user="u3")).ratings] == ["i1"]

    folder = whole.data / "snapshots"
    versions = snapshot.versions(folder)
    assert len(versions) == 3
    assert before["culsh"] not in versions
    assert not any(snapshot.holds_user(folder, version, "u3") for version in versions)
    eventually(lambda: set(whole.hotswap.served().values()) <= set(versions))
    assert whole.recommend("u5").personalized
    for segment in whole.log.segments():
        assert segment.last > position or not holds(segment.path, "u3")
    assert whole.stream.rejected() == []
    assert whole.stream.trimmed_id() == position


def test_forgetting_can_be_repeated(whole: Whole) -> None:
    whole.send(events()[:300])
    position = whole.subject("forget", "u1")
    for _ in range(2):
        assert whole.ended(whole.jobs.submit_forgetting("u1", position)).state == "succeeded"
    whole.rate(("u2", "i0", 1.0))
    assert whole.recommend("u1").fallback == "popular"
