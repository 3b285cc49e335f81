"""A log that was altered is refused, and the message names the file."""

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from service.engine.state.history import History
from service.storage import files
from service.storage.errors import CorruptLog, LockTimeout
from service.storage.events import Entry, StreamId
from service.storage.log import rating_log, segment_folder
from service.storage.log.log_manifest import Sum
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment_folder import Identity, Segment, SegmentFolder
from tests.service.logs import commit, contents

Make = Callable[..., Entry]
OLD = Path(__file__).parents[2] / "data-57eaa35" / "data" / "ratings"


@pytest.fixture
def filled(log: RatingLog, rating_entry: Make) -> RatingLog:
    """Three segments of three entries."""
    for first in (1, 4, 7):
        commit(log, [rating_entry(ms, (f"u{ms}", "i", float(ms))) for ms in range(first, first + 3)])
    return log


def test_every_altered_byte_is_noticed(filled: RatingLog) -> None:
    """The footer too, and headers of pages, which the checksums of Parquet leave out."""
    path = filled.files.segments()[1].path
    intact = path.read_bytes()
    draw = random.Random(1)
    for position in {*range(len(intact) - 600, len(intact)), *draw.sample(range(len(intact)), 200)}:
        altered = bytearray(intact)
        altered[position] ^= 1 << draw.randrange(8)
        path.write_bytes(altered)
        with pytest.raises(CorruptLog, match=path.name):
            contents(RatingLog(filled.folder))
    path.write_bytes(intact)
    assert len(contents(RatingLog(filled.folder))) == 9


def test_a_missing_segment_is_noticed_wherever_it_was(filled: RatingLog, tmp_path: Path) -> None:
    for segment in filled.files.segments():
        aside = segment.path.rename(tmp_path / "aside")
        for call in (filled.files.check, filled.clean, lambda: contents(filled), lambda: History().load(filled)):
            with pytest.raises(CorruptLog, match=segment.path.name):
                call()
        aside.rename(segment.path)
    filled.files.check()


def test_a_torn_end_is_noticed_without_reading(filled: RatingLog) -> None:
    path = filled.files.segments()[0].path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptLog, match=path.name):
        filled.files.check()


def test_every_altered_byte_of_the_manifest_is_noticed(filled: RatingLog) -> None:
    path = filled.folder / "manifest.json"
    intact, unnoticed = path.read_bytes(), []
    for position in range(len(intact)):
        altered = bytearray(intact)
        altered[position] ^= 4
        path.write_bytes(altered)
        try:
            filled.files.check()
            contents(RatingLog(filled.folder))
        except CorruptLog as error:
            assert str(filled.folder) in str(error)
        else:
            unnoticed.append(position)
    assert [intact[position : position + 1] for position in unnoticed if intact[position] not in b" \n"] == []


def test_merging_compares_and_names(log: RatingLog, rating_entry: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rating_log, "MERGE_AT", 3)
    for ms in range(1, 4):
        commit(log, [rating_entry(ms, ("u", f"i{ms}", 1.0))])
    path = log.files.segments()[1].path
    intact = path.read_bytes()
    path.write_bytes(intact[:-10] + bytes([intact[-10] ^ 1]) + intact[-9:])
    with pytest.raises(CorruptLog, match=path.name):
        RatingLog(log.folder).compact()
    path.write_bytes(intact)
    assert log.compact() == 2
    log.files.check()
    assert [entry.id.ms for entry in contents(RatingLog(log.folder))] == [1, 2, 3]


def test_rewriting_changes_what_the_manifest_says(filled: RatingLog) -> None:
    reader = RatingLog(filled.folder)
    assert len(contents(reader)) == 9  # another process, which has compared the old files
    assert filled.rewrite_without("u5", StreamId(9, 0)) == 1
    assert [entry.id.ms for entry in contents(reader)] == [1, 2, 3, 4, 6, 7, 8, 9]


def test_a_kill_between_rewriting_and_listing_is_no_damage(filled: RatingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either content counts until the next archiver has looked which it is."""
    manifest = filled.files._manifest
    store = manifest.store
    for n_allowed, user in ((0, "u1"), (1, "u2")):
        left = [None] * n_allowed

        def killed(sums: dict, left: list = left) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop()
            store(sums)

        with monkeypatch.context() as patch:
            patch.setattr(manifest, "store", killed)
            with pytest.raises(KeyboardInterrupt):
                filled.rewrite_without(user, StreamId(9, 0))
        assert len(contents(RatingLog(filled.folder))) in (8, 9)
    RatingLog(filled.folder).clean()
    assert {len(sums) for sums in manifest.read().values()} == {1}
    assert len(contents(RatingLog(filled.folder))) == 8


def test_a_log_without_a_manifest_is_read_and_gets_one(tmp_path: Path) -> None:
    log = RatingLog(Path(shutil.copytree(OLD, tmp_path / "ratings")))
    before = contents(log)
    assert len(before) > 5
    assert not (log.folder / "manifest.json").exists()
    log.clean()
    assert SegmentFolder(log.folder)._manifest.read().keys() == {segment.path.name for segment in log.files.segments()}
    assert contents(log) == before
    path = log.files.segments()[0].path
    path.unlink()
    with pytest.raises(CorruptLog, match=path.name):
        contents(log)


def test_listing_counts_what_it_lists_and_an_empty_log_has_a_list_too(filled: RatingLog, tmp_path: Path) -> None:
    listed = filled.files.listed()
    assert filled.files.seal() == 0
    (filled.folder / "manifest.json").unlink()
    assert filled.files.seal() == 3
    assert filled.files.listed() == listed
    empty = SegmentFolder(tmp_path / "empty")
    assert empty.seal() == 0
    assert (empty.path / "manifest.json").exists()


@pytest.mark.parametrize("change", ["rewrite", "merge"])
def test_listing_keeps_what_others_have_changed_meanwhile(
    filled: RatingLog, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(rating_log, "MERGE_AT", 3)
    (filled.folder / "manifest.json").unlink()
    other, sum_of, summed = RatingLog(filled.folder), filled.files._sum_of_intact, list[Path]()

    def summed_before_a_change(segment: Segment) -> tuple[Sum, Identity] | None:
        total = sum_of(segment)
        if not summed:
            other.rewrite_without("u1", StreamId(9, 0)) if change == "rewrite" else other.compact()
        summed.append(segment.path)
        return total

    monkeypatch.setattr(filled.files, "_sum_of_intact", summed_before_a_change)
    filled.files.seal()
    assert len(summed) == 3
    users = [rating.user for entry in contents(RatingLog(filled.folder)) for rating in entry.ratings]
    assert users == ["" if change == "rewrite" else "u1", *(f"u{n}" for n in range(2, 10))]
    assert filled.files.listed().keys() == {segment.path.name for segment in filled.files.segments()}


def broken_disk(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_listing_waits_for_what_a_failed_rewrite_has_renamed_meanwhile(
    filled: RatingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    (filled.folder / "manifest.json").unlink()
    other, sum_of = RatingLog(filled.folder), filled.files._sum_of_intact

    def summed_before_a_failure(segment: Segment) -> tuple[Sum, Identity] | None:
        summed = sum_of(segment)
        if segment.first == StreamId(1, 0):
            with pytest.raises(OSError, match="Input/output"):
                other.rewrite_without("u1", StreamId(9, 0))
        return summed

    monkeypatch.setattr(other.files._manifest, "store", broken_disk)
    with monkeypatch.context() as patch:
        patch.setattr(filled.files, "_sum_of_intact", summed_before_a_failure)
        assert filled.files.seal() == 2
    assert filled.files.seal() == 1
    assert [entry.ratings[0].user for entry in contents(filled)] == ["", *(f"u{n}" for n in range(2, 10))]


def test_a_rewrite_that_fails_takes_no_unlisted_segment_away(
    filled: RatingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer may have been told that the log has it."""
    (filled.folder / "manifest.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(files, "sync", broken_disk)
        with pytest.raises(OSError, match="Input/output"):
            filled.rewrite_without("u9", StreamId(10, 0))
    assert filled.last_id() == StreamId(9, 0)
    assert filled.files.seal() == 3


def test_a_segment_of_another_place_is_not_listed(filled: RatingLog) -> None:
    """Such as one whose name was altered: what it holds is not what it says."""
    (filled.folder / "manifest.json").unlink()
    segment = filled.files.segments()[2]
    segment.path.rename(filled.folder / segment.path.name.replace("_9.0", "_8.0"))
    with pytest.raises(CorruptLog, match="expected rows from 7-0 to 8-0"):
        filled.clean()


def test_what_can_be_read_for_ever_is_refused(filled: RatingLog) -> None:
    path = filled.files.segments()[2].path
    path.unlink()
    path.symlink_to("/dev/zero")
    for call in (filled.files.check, lambda: contents(RatingLog(filled.folder))):
        with pytest.raises(CorruptLog, match=path.name):
            call()


def test_what_a_killed_writer_left_is_removed_and_nothing_else(filled: RatingLog) -> None:
    names = {path.name for path in filled.folder.iterdir()}
    (filled.folder / ".tmp-77-half.parquet").write_bytes(b"half")
    filled.files.remove_temporaries()
    assert {path.name for path in filled.folder.iterdir()} - {".writing.lock"} == names - {".writing.lock"}


def test_a_merge_between_the_list_and_the_look_is_no_damage(filled: RatingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    before = filled.files.listed()
    monkeypatch.setattr(rating_log, "MERGE_AT", 3)
    assert filled.compact() == 2
    monkeypatch.setattr(filled.files._manifest, "read", lambda: before)
    filled.files.check()
    before["strange"] = [Sum(1, "")]
    with pytest.raises(CorruptLog, match=r"expected the segment .*/strange"):
        filled.files.check()


def test_listing_a_merged_segment_takes_those_that_it_covers_off_the_list(
    filled: RatingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = filled.files.listed()
    monkeypatch.setattr(rating_log, "MERGE_AT", 3)
    assert filled.compact() == 2
    merged = filled.files.listed()
    filled.files._manifest.store(before)  # as of a version that did not list what it merged
    assert filled.files.seal() == 1
    assert filled.files.listed() == merged


def writing(content: bytes) -> Callable[[IO[bytes]], object]:
    return lambda file: file.write(content)


def test_writers_share_a_lock_and_cleaning_waits_for_them(
    filled: RatingLog, rating_entry: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_folder, "_LOCK_TIMEOUT_S", 0.01)
    with filled.files._written("1.parquet", writing(b"half")):
        commit(filled, [rating_entry(10, ("u", "i", 1.0))])
        with pytest.raises(LockTimeout):
            filled.files.remove_temporaries()
        assert [path.read_bytes() for path in filled.folder.glob(".tmp-*")] == [b"half"]
    filled.files.remove_temporaries()
    assert not list(filled.folder.glob(".tmp-*"))


def test_a_folder_that_cannot_be_synced_keeps_what_it_has_and_gets_nothing_new(
    filled: RatingLog, rating_entry: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed, rename, sync = [Path()], files.rename, files.sync

    def noted(source: Path, target: Path) -> None:
        renamed.append(target)
        rename(source, target)

    def broken(path: Path) -> None:
        if renamed[-1].suffix == ".parquet":
            raise OSError(f"{path} is broken")
        sync(path)

    names = [segment.path.name for segment in filled.files.segments()]
    with monkeypatch.context() as patch:
        patch.setattr(files, "rename", noted)
        patch.setattr(files, "sync", broken)
        with pytest.raises(OSError, match="is broken"):
            commit(filled, [rating_entry(10, ("u", "i", 1.0))])
        renamed.append(Path())
        with pytest.raises(OSError, match="is broken"):
            filled.rewrite_without("u5", StreamId(9, 0))
    assert [segment.path.name for segment in filled.files.segments()] == names
    assert len(contents(RatingLog(filled.folder))) == 8
    filled.clean()
    assert {len(sums) for sums in filled.files.listed().values()} == {1}


def test_a_segment_of_another_copy_is_taken_whole_or_not_at_all(filled: RatingLog, tmp_path: Path) -> None:
    copy, listed = SegmentFolder(tmp_path / "copy"), filled.files.listed()
    for name, (expected,) in listed.items():
        content = (filled.folder / name).read_bytes()
        for wrong in (content[:-1], content[:-1] + bytes([content[-1] ^ 1])):
            with pytest.raises(CorruptLog, match=name):
                copy.take(name, expected, writing(wrong))
            assert not copy.holds(name, expected, reads=True)
        copy.take(name, expected, writing(content))
        assert copy.holds(name, expected, reads=True)
    assert copy.listed() == listed
    assert contents(RatingLog(copy.path)) == contents(filled)
    first, *_, last = listed
    copy.keep_only([first, last])
    assert [*copy.listed()] == [segment.path.name for segment in copy.segments()] == [first, last]


def test_a_segment_is_held_by_its_size_and_when_it_is_read_by_its_content(filled: RatingLog) -> None:
    path = filled.files.segments()[0].path
    (expected,) = filled.files.listed()[path.name]
    intact = path.read_bytes()
    for content, held in ((intact, (True, True)), (bytes(len(intact)), (True, False)), (intact[1:], (False, False))):
        path.write_bytes(content)
        assert tuple(filled.files.holds(path.name, expected, reads=reads) for reads in (False, True)) == held
    path.unlink()
    assert not filled.files.holds(path.name, expected, reads=False)


def test_the_log_knows_what_it_has_and_whose_users_were_forgotten(filled: RatingLog, rating_entry: Make) -> None:
    entries = [rating_entry(ms, (f"u{ms}", "i", 1.0)) for ms in (2, 3, 30)]
    entries.append(Entry(StreamId(31, 0), "hide", subject="i"))  # names no user
    assert filled.known(entries) >= {StreamId(2, 0), StreamId(3, 0)}
    assert not filled.known(entries) & {StreamId(30, 0), StreamId(31, 0)}
    commit(filled, [Entry(StreamId(10, 0), "forget", subject="u2")])
    filled.rewrite_without("u2", StreamId(10, 0))
    assert StreamId(2, 0) in filled.known(entries)
    assert StreamId(30, 0) not in filled.known(entries)
