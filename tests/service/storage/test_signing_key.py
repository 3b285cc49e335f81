"""One key: Redis decides, the folder has a copy, and either can be lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from service.errors import NotReady
from service.keyspace import Keyspace
from service.storage import signing_key
from service.storage.signing_key import KEY_FILE
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


def test_the_key_of_redis_counts_and_a_new_redis_takes_the_copy(stream: Stream, folders: tuple[Path, Path]) -> None:
    key = signing_key.agree(folders[0], stream)
    for strange in (b"k" * 32, b"torn"):
        (folders[1] / KEY_FILE).write_bytes(strange)
        assert signing_key.agree(folders[1], stream) == signing_key.read(folders[1]) == key
    redis.Redis.from_url(stream.url).delete(Keyspace().signing)
    assert signing_key.agree(folders[0], stream) == signing_key.agree(folders[1], stream) == key


def test_a_key_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    for torn in (False, True):
        if torn:
            (tmp_path / KEY_FILE).write_bytes(b"torn")
        with pytest.raises(NotReady, match=r"signing\.key is missing or torn"):
            signing_key.read(tmp_path)
