"""When keys were used last: noted once an hour over all processes, whatever clocks and disks do."""

import os
from pathlib import Path

import pytest

from service.storage.key_uses import EVERY_S, FOLDER, KeyUses

NOW_S = 1_800_000_000.0


def test_a_use_is_noted_once_an_hour_also_after_a_clock_went_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, writes, really_write = [NOW_S], list[float](), os.utime

    def write(path: Path) -> None:
        writes.append(at[0])
        really_write(path, (at[0], at[0]))

    monkeypatch.setattr("time.time", lambda: at[0])
    monkeypatch.setattr("os.utime", write)
    one, other = KeyUses(tmp_path / "new"), KeyUses(tmp_path / "new")
    assert one.last("key") is None
    expected = list[float]()
    for later_s, is_written in ((0, True), (1, False), (EVERY_S - 1, False), (EVERY_S, True), (-5, True), (-4, False)):
        at[0] = NOW_S + later_s
        for uses in (one, other):
            uses.note("key")
        expected += [at[0]] if is_written else []
        assert writes == expected
        assert one.last("key") == other.last("key") == expected[-1]
    assert (tmp_path / "new" / FOLDER).stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / FOLDER / "key").stat().st_mode & 0o777 == 0o600
    one.forget("key")
    assert other.last("key") is None
    one.forget("key")


def test_a_use_that_cannot_be_noted_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("no folder")
    uses = KeyUses(tmp_path)
    uses.note("key")
    assert uses.last("key") is None
