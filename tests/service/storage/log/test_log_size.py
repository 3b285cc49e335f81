"""Sizes of a log while it is merged: each row counts once, whatever files there are."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from service.storage.events import ZERO, Entry, StreamId
from service.storage.log.log_size import LogSize
from service.storage.log.rating_log import RatingLog
from tests.service.logs import commit

N_SEGMENTS = 8  # as many as are merged


@pytest.fixture
def filled(log: RatingLog, rating_entry: Callable[..., Entry]) -> RatingLog:
    for ms in range(1, N_SEGMENTS + 1):
        commit(log, [rating_entry(ms, ("u", "i", 1.0), ("u", "j", 2.0))])
    return log


def test_rows_count_once_at_every_moment_of_a_merge(filled: RatingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, size, unlink = [], LogSize(filled), Path.unlink

    def measuring(path: Path, **options: bool) -> None:
        sizes.append(size.measure())
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", measuring)
    assert filled.compact() == N_SEGMENTS - 1
    assert len(sizes) == N_SEGMENTS
    assert {(one.n_segments, one.n_rows) for one in sizes} == {(1, 2 * N_SEGMENTS)}
    assert (size.measure().n_segments, size.measure().n_rows) == (1, 2 * N_SEGMENTS)


def test_a_merge_between_the_list_and_the_look_loses_no_row(filled: RatingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    segments, n_calls = filled.files.segments, 0

    def listed_before_a_merge() -> list:
        nonlocal n_calls
        n_calls, listed = n_calls + 1, segments()
        if n_calls == 1:
            monkeypatch.setattr(filled.files, "segments", segments)
            filled.compact()
        return listed

    monkeypatch.setattr(filled.files, "segments", listed_before_a_merge)
    assert LogSize(filled).measure()[:2] == (1, 2 * N_SEGMENTS)


def test_leftovers_of_a_killed_merge_count_once(filled: RatingLog, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(filled.folder, kept)
    filled.compact()
    for path in kept.glob("*.parquet"):
        if not (filled.folder / path.name).exists():
            shutil.copy(path, filled.folder)
    assert LogSize(filled).measure()[:2] == (1, 2 * N_SEGMENTS)


def test_newer_rows_are_counted_each_once_while_the_log_grows(
    log: RatingLog, rating_entry: Callable[..., Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    size, rows, begins = LogSize(log), list[StreamId](), list[StreamId]()  # position of each row; where reading began
    read = log.read

    def noted(after: StreamId, columns: list[str]) -> Iterator[pa.RecordBatch]:
        begins.append(after)
        return read(after, columns)

    monkeypatch.setattr(log, "read", noted)
    assert size.newer({ZERO}) == {ZERO: 0}
    watermarks = {ZERO, StreamId(2, 0), StreamId(4, 7), StreamId(99, 0)}
    for ms in range(1, N_SEGMENTS + 1):
        commit(log, [rating_entry(ms, *(("u", f"i{n}", 1.0) for n in range(ms)))])
        rows += [StreamId(ms, 0)] * ms
        begins.clear()
        assert size.newer(watermarks) == {after: sum(row > after for row in rows) for after in watermarks}
        assert min(begins) == StreamId(ms - 1, 0)
    log.compact()
    assert size.newer({StreamId(4, 7)}) == {StreamId(4, 7): 26}
