"""One key: Redis decides, the folder has a copy, and either can be lost."""

from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from service.base.errors import NotReady
from service.settings.keyspace import Keyspace
from service.storage import files, signing_key
from service.storage.signing_key import KEY_FILE, ROTATE_FILE, DamagedSigningKey
from service.storage.streams.stream import Stream


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The folders of two replicas."""
    folders = tmp_path / "one", tmp_path / "other"
    for folder in folders:
        folder.mkdir()
    return folders


def test_replicas_agree_although_they_share_no_folder(stream: Stream, folders: tuple[Path, Path]) -> None:
    keys = [signing_key.agree(folder, stream) for folder in folders]
    assert keys[0] == keys[1]
    assert len(keys[0]) == 32
    assert [signing_key.read(folder) for folder in folders] == keys
    assert (folders[0] / KEY_FILE).stat().st_mode & 0o077 == 0
    assert [path.name for path in folders[0].iterdir()] == [KEY_FILE]


def test_the_copy_is_on_the_disk_before_it_has_its_name(
    stream: Stream, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    acts, rename = list[tuple[str, bytes | Path]](), files.rename

    def synced(path: Path) -> None:
        acts.append(("synced", path if path.is_dir() else path.read_bytes()))

    def renamed(source: Path, target: Path) -> None:
        acts.append(("renamed", target))
        rename(source, target)

    monkeypatch.setattr(files, "sync", synced)
    monkeypatch.setattr(files, "rename", renamed)
    key = signing_key.agree(folders[0], stream)
    assert acts == [("synced", key), ("renamed", folders[0] / KEY_FILE), ("synced", folders[0])]
    signing_key.agree(folders[0], stream)
    assert acts[3:] == [("synced", folders[0])], "an earlier start may have failed there"

    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(OSError, match="No space"):
        signing_key.agree(folders[1], stream)
    assert list(folders[1].iterdir()) == []


def test_the_key_of_redis_counts_and_a_new_redis_takes_the_copy(stream: Stream, folders: tuple[Path, Path]) -> None:
    key = signing_key.agree(folders[0], stream)
    for strange in (b"k" * 32, b"torn"):
        (folders[1] / KEY_FILE).write_bytes(strange)
        assert signing_key.agree(folders[1], stream) == signing_key.read(folders[1]) == key
    redis.Redis.from_url(stream.url).delete(Keyspace().signing)
    assert signing_key.agree(folders[0], stream) == signing_key.agree(folders[1], stream) == key


@pytest.mark.parametrize("damage", [b"", b"torn", b"k" * 31, b"k" * 33, b"k" * 1000])
def test_a_damaged_copy_is_never_replaced_by_a_new_key(
    stream: Stream, folders: tuple[Path, Path], damage: bytes
) -> None:
    path = folders[0] / KEY_FILE
    path.write_bytes(damage)
    with pytest.raises(DamagedSigningKey, match=f"{path}: expected 32 bytes, got {len(damage)}, .*backup"):
        signing_key.agree(folders[0], stream)
    assert path.read_bytes() == damage
    assert stream.signing_key() is None
    key = signing_key.agree(folders[1], stream)
    with capture_logs() as lines:
        assert signing_key.agree(folders[0], stream) == key
    assert "was damaged and is written again from Redis; cursors" in lines[0]["event"]
    assert (lines[0]["log_level"], lines[0]["file"], lines[0]["bytes"]) == ("error", str(path), len(damage))


def test_each_change_of_the_key_is_said_by_name(stream: Stream, folders: tuple[Path, Path]) -> None:
    with capture_logs() as lines:
        key = signing_key.agree(folders[0], stream)
        signing_key.agree(folders[0], stream)
        signing_key.agree(folders[1], stream)
    assert lines == [], "a first start and a further replica change nothing"
    (folders[1] / KEY_FILE).write_bytes(bytes([key[0] ^ 1]) + key[1:])
    with capture_logs() as lines:
        assert signing_key.agree(folders[1], stream) == key
    assert "is not that of Redis" in lines[0]["event"]
    assert lines[0]["file"] == str(folders[1] / KEY_FILE)
    redis.Redis.from_url(stream.url).delete(Keyspace().signing)
    (folders[1] / KEY_FILE).unlink()
    (folders[1] / "ratings").mkdir()
    (folders[1] / "ratings" / "1-0_2-0.parquet").touch()
    with capture_logs() as lines:
        assert signing_key.agree(folders[1], stream) != key
    assert (
        "there is a new one; cursors and recommendation ids that clients have from before are refused"
        in (lines[0]["event"])
    )


def test_a_key_is_rotated_once_when_the_operator_asks(stream: Stream, folders: tuple[Path, Path]) -> None:
    old = signing_key.agree(folders[0], stream)
    (folders[0] / ROTATE_FILE).touch()
    with capture_logs() as lines:
        new = signing_key.agree(folders[0], stream)
    assert new != old
    assert [line["event"] for line in lines] == [
        "the signing key is replaced, as signing.key.rotate asks; cursors and recommendation ids that clients have from"
        " before are refused"
    ]
    assert signing_key.agree(folders[0], stream) == signing_key.agree(folders[1], stream) == new
    assert [path.name for path in folders[0].iterdir()] == [KEY_FILE]


def test_a_key_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    for torn in (False, True):
        if torn:
            (tmp_path / KEY_FILE).write_bytes(b"torn")
        with pytest.raises(NotReady, match=r"signing\.key is missing or torn"):
            signing_key.read(tmp_path)
