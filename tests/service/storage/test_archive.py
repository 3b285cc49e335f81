"""The state of an archiver in another process: what it last said, until it has been silent for too long."""

import time

import pytest

from service.storage.archive import SILENT_S, ReportedArchive


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    return moment


def test_it_is_as_it_was_reported(now: list[float]) -> None:
    archiver = ReportedArchive()
    assert (archiver.obstacle, archiver.damage, archiver.lag_s, archiver.n_pending) == (None, None, 0.0, 0)
    archiver.take("disk full", "segment 3 is torn", 7.5, 12)
    now[0] += SILENT_S / 2
    assert (archiver.obstacle, archiver.damage) == ("disk full", "segment 3 is torn")
    assert (archiver.lag_s, archiver.n_pending) == (7.5, 12)


def test_silence_is_an_obstacle_and_a_lag(now: list[float]) -> None:
    archiver = ReportedArchive()
    archiver.take(None, None, 1.0, 0)
    now[0] += 3 * SILENT_S
    assert "silent" in str(archiver.obstacle)
    assert archiver.lag_s == 3 * SILENT_S
    archiver.take(None, None, 1.0, 0)
    assert (archiver.obstacle, archiver.lag_s) == (None, 1.0)
