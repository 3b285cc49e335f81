import contextlib
import os
import signal
import stat
from collections import Counter
from pathlib import Path

import pytest

from service.storage import files
from service.storage.errors import LockTimeout
from service.storage.files import FileLock
from service.storage.log.rating_log import RatingLog
from tests.service.logs import commit
from tests.service.planted import entries


def test_shared_locks_exclude_exclusive_ones_only(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock.take(path, shared=True), FileLock.take(path, shared=True):
        assert FileLock.try_take(path) is None
    with FileLock.take(path):
        assert FileLock.try_take(path, shared=True) is None
    assert FileLock.try_take(path) is not None


def test_a_lock_that_another_process_holds_leaves_no_file_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with FileLock.take(tmp_path / "lock"):
        before = n_open()
        for _ in range(20):
            assert FileLock.try_take(tmp_path / "lock") is None
            with pytest.raises(OSError, match="expected a regular file"):
                FileLock.try_take(tmp_path / "pipe")
        assert n_open() == before


def test_a_lock_is_taken_when_its_holder_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = FileLock.take(tmp_path / "lock")
    monkeypatch.setattr("time.sleep", lambda seconds: held.release())
    with FileLock.take(tmp_path / "lock", 60.0) as lock:
        assert lock.descriptor >= 0
        assert FileLock.try_take(tmp_path / "lock") is None


def test_waiting_for_a_lock_times_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock.take(path), pytest.raises(LockTimeout, match=f"{path}: another process has held it for 0.1 s"):
        FileLock.take(path, 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="expected a regular file"):
        FileLock.take(tmp_path / "pipe")


def test_replacing_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.replace(path, b"one")
    files.replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_is_given_to_what_is_on_the_disk_and_is_there_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test can cut the power: this one looks at the order. The same for segments of the rating log."""
    acts: list[str] = []
    n_bytes: list[int] = []  # of each file when it was synced
    really_fsync, really_rename = files.fsync, files.rename

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        acts.append("folder" if stat.S_ISDIR(status.st_mode) else "file")
        n_bytes.extend([status.st_size] if acts[-1] == "file" else [])
        really_fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        acts.append("rename")
        really_rename(source, target)

    monkeypatch.setattr(files, "fsync", fsync)
    monkeypatch.setattr(files, "rename", rename)
    files.replace(tmp_path / "file", b"one")
    assert acts == ["file", "rename", "folder"]
    acts.clear()
    with files.new_file(tmp_path / "file") as file:
        file.write(b"seven")
    assert acts == ["file", "rename", "folder"]
    acts.clear()
    segment = commit(RatingLog(tmp_path / "ratings"), entries())
    assert acts == ["file", "rename", "folder"] * 2  # the segment, and the list of them
    written = [segment.path, segment.path.parent / "manifest.json"]
    assert n_bytes == [3, 5, *(path.stat().st_size for path in written)]


def test_a_new_file_that_fails_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="broken"), files.new_file(path) as file:
        file.write(b"half")
        raise OSError("the disk is broken")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def n_open() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_what_is_opened_is_closed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = n_open()
    files.replace(tmp_path / "file", b"one")
    files.sync(tmp_path)
    lock = FileLock.take(tmp_path / "lock")
    lock.release()
    with (tmp_path / "file").open("rb") as file:
        lock.release()  # does not close the file that has got its number since
        assert file.read() == b"one"
    with pytest.raises(OSError, match="expected a regular file"):
        files.read_regular(tmp_path / "pipe")
    assert n_open() == before


def test_no_more_bytes_are_read_than_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"four")
    assert files.read_regular(tmp_path / "file", 4) == b"four"
    with pytest.raises(OSError, match="expected at most 3 bytes, got 4"):
        files.read_regular(tmp_path / "file", 3)


def test_a_fault_point_ends_or_fails_the_call_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *call: killed.append(call))
    for place, error in (("fsync:3:ENOSPC", "No space"), ("fsync:3", None), ("rename:2", None)):
        monkeypatch.setattr(files, "_FAULT_AT", place)
        monkeypatch.setattr(files, "_reached", Counter())
        files.replace(tmp_path / "file", b"one")  # two of fsync, and one of rename
        assert killed == []
        with pytest.raises(OSError, match=error) if error else contextlib.nullcontext():
            files.replace(tmp_path / "file", b"two")
        assert killed == ([] if error else [(os.getpid(), signal.SIGKILL)])
        killed.clear()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_of_ours_is_closed_to_others(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    for _ in range(2):
        files.close_to_others(data, frozenset())
        assert mode(data) == 0o700
    data.chmod(0o711)
    (data / "redis").mkdir(mode=0o755)
    (data / "live.json").touch(0o644)
    files.close_to_others(data, frozenset({"redis", "live.json", "ratings"}))
    assert [mode(path) for path in (data, data / "redis", data / "live.json")] == [0o700, 0o700, 0o600]


def test_secrets_that_others_can_read_are_named(tmp_path: Path) -> None:
    for name, bits in (("signing.key", 0o644), ("keys.json", 0o600), ("webhooks.json", 0o640)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(bits)
    found = files.open_to_others(tmp_path, ("keys.json", "signing.key", "webhooks.json", "missing"))
    assert [path.name for path in found] == ["signing.key", "webhooks.json"]


def test_a_folder_that_others_use_too_stays_open_but_for_our_part(tmp_path: Path) -> None:
    data = tmp_path / "home"
    data.mkdir(mode=0o755)
    (data / "redis").mkdir(mode=0o755)
    (data / "letters.txt").touch(0o644)
    data.chmod(0o755)  # whatever the umask is
    (data / "letters.txt").chmod(0o644)
    (data / "live.json").symlink_to(data / "letters.txt")
    files.close_to_others(data, frozenset({"redis", "live.json"}))
    assert [mode(path) for path in (data, data / "redis", data / "letters.txt")] == [0o755, 0o700, 0o644]
