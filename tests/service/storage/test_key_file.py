"""The file of keys: hashed, closed to others, whole or refused, and never changed by two at once."""

import hashlib
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.storage import key_file, sealed_file
from service.storage.key_file import LastAdminKey, TooManyKeys, UnknownKey
from service.storage.sealed_file import CorruptFile


def make(data: Path, name: str = "shop", scope: key_file.KeyScope = "read") -> tuple[key_file.ListedKey, str]:
    return key_file.make(data, name, scope, None)


def test_the_file_has_the_hash_and_the_end_of_a_key_and_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "a new" / "folder"
    listed, key = make(data)
    path = data / key_file.KEYS_FILE
    text = path.read_text()
    assert key not in text
    assert hashlib.sha256(key.encode()).hexdigest() in text
    assert key.endswith(listed.ends_with)
    assert len(key) - len(listed.ends_with) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(sealed_file.lock_of(path).stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_writers_do_not_overwrite_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: make(tmp_path, f"key {n}"), range(12)))
    stored = {key.id: key.sha256 for key in key_file.read(tmp_path) or ()}
    assert stored == {listed.id: hashlib.sha256(key.encode()).hexdigest() for listed, key in made}


def test_revoking_leaves_the_others_and_the_file(tmp_path: Path) -> None:
    assert key_file.read(tmp_path) is None
    (first, _), (second, _) = make(tmp_path, "first"), make(tmp_path, "second")
    assert key_file.revoke(tmp_path, first.id, others_are_admins=True) == first
    assert [key.name for key in key_file.read(tmp_path) or ()] == ["second"]
    with pytest.raises(UnknownKey):
        key_file.revoke(tmp_path, first.id, others_are_admins=True)
    key_file.revoke(tmp_path, second.id, others_are_admins=True)
    assert key_file.read(tmp_path) == []


def test_the_last_key_that_manages_keys_stays_unless_the_settings_have_one(tmp_path: Path) -> None:
    (first, _), (second, _) = make(tmp_path, scope="admin"), make(tmp_path, scope="admin")
    of_one = key_file.make(tmp_path, "of one data set", "admin", ["films"])[0]
    key_file.revoke(tmp_path, first.id, others_are_admins=False)
    with pytest.raises(LastAdminKey):
        key_file.revoke(tmp_path, second.id, others_are_admins=False)
    key_file.revoke(tmp_path, of_one.id, others_are_admins=False)
    key_file.revoke(tmp_path, second.id, others_are_admins=True)


def test_there_are_not_too_many_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_file, "MAX_KEYS", 2)
    make(tmp_path)
    make(tmp_path)
    with pytest.raises(TooManyKeys):
        make(tmp_path)


def test_every_altered_byte_is_noticed(tmp_path: Path) -> None:
    make(tmp_path)
    path = tmp_path / key_file.KEYS_FILE
    intact = path.read_bytes()
    for position in range(len(intact)):
        if intact[position] in b" \n":
            continue
        altered = bytearray(intact)
        altered[position] ^= 4
        path.write_bytes(altered)
        with pytest.raises(CorruptFile, match=str(path)):
            key_file.read(tmp_path)
        with pytest.raises(CorruptFile):
            make(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"content":[],"sha256":""}', b'{"content":{},"sha256":"x"}'])
def test_other_content_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / key_file.KEYS_FILE).write_bytes(content)
    with pytest.raises(CorruptFile, match="torn or altered"):
        key_file.read(tmp_path)
