import os
import stat
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
        n_open = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        for _ in range(20):
            assert FileLock.try_take(tmp_path / "lock") is None
            with pytest.raises(OSError, match="expected a regular file"):
                FileLock.try_take(tmp_path / "pipe")
        assert len(os.listdir("/proc/self/fd")) == n_open  # noqa: PTH208


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
    really_fsync, really_rename = files.fsync, files.rename

    def fsync(descriptor: int) -> None:
        acts.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
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
        file.write(b"two")
    assert acts == ["file", "rename", "folder"]
    acts.clear()
    commit(RatingLog(tmp_path / "ratings"), entries())
    assert acts == ["file", "rename", "folder"] * 2  # the segment, and the list of them


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_of_ours_is_closed_to_others(tmp_path: Path) -> None:
    data = tmp_path / "data"
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
    files.close_to_others(data, frozenset({"redis"}))
    assert [mode(path) for path in (data, data / "redis", data / "letters.txt")] == [0o755, 0o700, 0o644]
