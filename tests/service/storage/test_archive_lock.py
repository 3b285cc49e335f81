"""An entry that an older version would drop is refused while such a version archives."""

import time
from pathlib import Path

import pytest

from service.storage.archive_lock import LOCK, LOOK_EVERY_S, MARK, ArchivableFormat, ArchiveLock, format_of_holder
from service.storage.data_format import FORMAT
from service.storage.errors import LogUnavailable
from service.storage.events import ZERO, Fields
from service.storage.files import FileLock
from service.storage.log.rating_log import RatingLog
from tests.service.process import Service
from tests.service.waiting import eventually

RATINGS: Fields = {b"v": b"1", b"ratings": b"[]"}
EVENTS: Fields = {b"v": b"1", b"events": b"[]"}
VIEW = {"user": "ann", "item": "x", "type": "view"}


def test_the_holder_says_what_it_reads(tmp_path: Path) -> None:
    assert format_of_holder(tmp_path / "missing") == FORMAT
    assert format_of_holder(tmp_path) == FORMAT
    (tmp_path / MARK).write_text("of a longer one")
    lock = ArchiveLock.try_take(tmp_path)
    assert lock is not None
    assert ArchiveLock.try_take(tmp_path) is None
    assert format_of_holder(tmp_path) == FORMAT
    assert (tmp_path / MARK).read_text() == str(FORMAT)
    lock.release()
    with FileLock.take(tmp_path / LOCK):  # an older version, whose predecessor has left its mark
        assert format_of_holder(tmp_path) == 1
        assert ArchiveLock.try_take(tmp_path) is None
    again = ArchiveLock.try_take(tmp_path)
    assert again is not None
    with again:
        assert format_of_holder(tmp_path) == FORMAT
        assert ArchiveLock.try_take(tmp_path) is None
    after = ArchiveLock.try_take(tmp_path)
    assert after is not None
    after.release()


def test_what_the_holder_does_not_know_is_refused_by_name(tmp_path: Path) -> None:
    archivable = ArchivableFormat(tmp_path)
    archivable.check(EVENTS)
    with FileLock.take(tmp_path / LOCK):
        fresh = ArchivableFormat(tmp_path)
        for _ in range(2):
            fresh.check(RATINGS)
            with pytest.raises(LogUnavailable, match="does not know events: it reads entries up to format 1"):
                fresh.check(EVENTS)
    fresh.check(EVENTS)


def test_a_look_holds_for_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archivable, at = ArchivableFormat(tmp_path), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    newest: Fields = {b"v": b"1", b"a field of the newest format": b""}
    archivable.check(newest)
    at[0] += LOOK_EVERY_S - 0.1
    with FileLock.take(tmp_path / LOCK):
        archivable.check(newest)
        at[0] += 0.2
        with pytest.raises(LogUnavailable):
            archivable.check(EVENTS)


def test_a_service_beside_an_older_one_refuses_events_alone(tmp_path: Path) -> None:
    """The lock without a mark stands for a version that rejects events as bad entries."""
    data = tmp_path / "data"
    (data / "ratings").mkdir(parents=True)
    with FileLock.take(data / "ratings" / LOCK):
        service = Service(data, worker=False, backend="host")
        try:
            refused = service.client.post("/events", json=VIEW)
            assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (503, "log-unavailable")
            assert "older version, which does not know events" in refused.json()["detail"]
            assert int(refused.headers["retry-after"]) >= 1
            assert service.client.post("/ratings", json={"user": "a", "item": "x", "rating": 3}).status_code == 202
            assert service.client.put("/admin/items/x/hidden").status_code == 202
        except BaseException:
            service.kill()
            raise
    try:
        taken = eventually(lambda: service.client.post("/events", json=VIEW).json().get("stream_id"), 60)
        eventually(lambda: (data / "ratings" / MARK).exists() and format_of_holder(data / "ratings") == FORMAT, 60)
        assert service.stop() == 0
        kinds = {kind for batch in RatingLog(data / "ratings").read(ZERO) for kind in batch.column("kind").to_pylist()}
        assert {"rating", "event", "hide"} <= kinds, taken
    finally:
        service.kill()
