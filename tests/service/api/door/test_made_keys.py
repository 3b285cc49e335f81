"""What keys that were made open, before and after they are revoked, without a restart."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from service.api.door import made_keys
from service.api.door.auth import Keys
from service.api.door.grants import Grant, Scope
from service.api.errors import NotAuthorized
from service.base.errors import ServiceError
from service.settings.settings import Settings
from service.storage import key_file
from service.storage.key_file import KeyScope

ADMIN_KEY = "key-of-the-admins"
READ, WRITE, JOBS, KEYS = (
    ("GET", b"/recommend/u"),
    ("POST", b"/ratings"),
    ("GET", b"/admin/jobs"),
    ("GET", b"/admin/keys"),
)
REQUESTS = READ, WRITE, JOBS, KEYS


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_keys, "MAX_AGE_S", 0.0)


def keys_of(data: Path, **settings: Any) -> Keys:
    return Keys(Settings(data=data, **settings))


def outcomes(keys: Keys, key: str | None) -> list[int]:
    """The statuses of all kinds of requests; as in the gateway, a look at the file comes first."""
    found = []
    for request in REQUESTS:
        keys.need_none(request[1])
        try:
            keys.check(*request, None if key is None else key.encode())
        except ServiceError as error:
            found.append(error.status)
        else:
            found.append(200)
    return found


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("read", [200, 403, 403, 403]),
        ("write", [403, 200, 403, 403]),
        ("read-write", [200, 200, 403, 403]),
        ("admin", [200, 200, 200, 200]),
    ],
)
def test_a_made_key_opens_what_it_is_for_until_it_is_revoked(
    tmp_path: Path, scope: KeyScope, expected: list[int]
) -> None:
    keys = keys_of(tmp_path, admin_key=ADMIN_KEY)
    listed, key = key_file.make(tmp_path, "any", scope, None)
    assert outcomes(keys, key) == expected
    assert outcomes(keys, key[:-1]) == outcomes(keys, None) == outcomes(keys, "") == [401] * 4
    key_file.revoke(tmp_path, listed.id, others_are_admins=True)
    assert outcomes(keys, key) == [401] * 4
    assert outcomes(keys, ADMIN_KEY) == [200] * 4


@pytest.mark.parametrize("scope", ["read", "write", "read-write", "admin"])
def test_a_key_ends_when_it_expires_and_the_refusal_says_so(
    tmp_path: Path, scope: KeyScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    keys = keys_of(tmp_path, admin_key=ADMIN_KEY)
    _, key = key_file.make(tmp_path, "any", scope, None, now + 60)
    before = outcomes(keys, key)
    assert 200 in before
    monkeypatch.setattr("time.time", lambda: now + 59)
    assert outcomes(keys, key) == before
    monkeypatch.setattr("time.time", lambda: now + 60)
    assert outcomes(keys, key) == [401] * 4
    with pytest.raises(NotAuthorized, match=r"got one that expired at 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$"):
        keys.check(*READ, key.encode())
    assert outcomes(keys, ADMIN_KEY) == [200] * 4
    assert outcomes(keys_of(tmp_path, admin_key=ADMIN_KEY), key) == [401] * 4, "after a restart"


def test_keys_that_expire_are_no_reason_to_revoke_the_last_admin_key(tmp_path: Path) -> None:
    lasting, _ = key_file.make(tmp_path, "any", "admin", None)
    expiring, _ = key_file.make(tmp_path, "any", "admin", None, time.time() + 60)
    with pytest.raises(key_file.LastAdminKey, match="one that does not expire"):
        key_file.revoke(tmp_path, lasting.id, others_are_admins=False)
    key_file.revoke(tmp_path, expiring.id, others_are_admins=False)
    key_file.revoke(tmp_path, lasting.id, others_are_admins=True)


def test_the_last_use_is_kept_to_the_hour_over_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, writes, utime = time.time(), list[Path](), os.utime

    def write(path: Path) -> None:
        writes.append(path)
        utime(path, (time.time(), time.time()))

    monkeypatch.setattr("os.utime", write)
    one, other = keys_of(tmp_path, admin_key=ADMIN_KEY), keys_of(tmp_path, admin_key=ADMIN_KEY)
    listed, key = key_file.make(tmp_path, "any", "read", None)
    expired, old_key = key_file.make(tmp_path, "old", "read", None, now - 1)
    assert one.made.uses.last(listed.id) is None
    for minutes, n_writes in ((0, 1), (1, 1), (59, 1), (60, 2), (119, 2), (600, 3)):
        monkeypatch.setattr("time.time", lambda minutes=minutes: now + 60 * minutes)
        for keys in (one, other, one):
            assert outcomes(keys, key)[0] == 200
            assert outcomes(keys, old_key)[0] == outcomes(keys, "nf_wrong")[0] == 401
        assert len(writes) == n_writes
        assert now + 60 * minutes - 3600 < (one.made.uses.last(listed.id) or 0) <= now + 60 * minutes
    assert one.made.uses.last(expired.id) is None
    assert [path.name for path in (tmp_path / "key-uses").iterdir()] == [listed.id]


def test_a_file_of_an_older_version_is_read_and_one_without_expiry_is_the_same(tmp_path: Path) -> None:
    _, key = key_file.make(tmp_path, "any", "read", ["default"])
    text = (tmp_path / key_file.KEYS_FILE).read_text()
    assert "expires" not in text
    names = ("id", "name", "scope", "data_sets", "created_ms", "ends_with", "sha256")
    (stored,) = json.loads(text)["content"]
    assert tuple(stored) == names, "what older versions read, in their order"
    assert outcomes(keys_of(tmp_path), key)[0] == 200


def test_the_first_key_closes_all_paths_for_good(tmp_path: Path) -> None:
    keys = keys_of(tmp_path, admin_key=ADMIN_KEY)
    assert outcomes(keys, None) == [200, 200, 401, 401]
    listed, _ = key_file.make(tmp_path, "any", "read", None)
    assert outcomes(keys, None) == [401] * 4
    key_file.revoke(tmp_path, listed.id, others_are_admins=True)
    for still in (keys, keys_of(tmp_path, admin_key=ADMIN_KEY), keys_of(tmp_path)):
        assert outcomes(still, None) == [401] * 4
        assert not still.need_none(READ[1])


def test_a_key_for_some_data_sets_opens_these_and_no_keys(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, admin_key=ADMIN_KEY, data_sets="books,films,music")
    default, *_, films, music = map(Keys, settings.each())
    key = key_file.make(tmp_path, "any", "admin", ["books", "films"])[1]
    assert outcomes(films, key) == [200, 200, 200, 403]
    assert outcomes(music, key) == outcomes(default, key) == [403] * 4
    assert outcomes(films, ADMIN_KEY) == [200] * 4
    assert Grant(Scope.READ, frozenset(("films",))).may_use("films")
    assert not Grant(Scope.READ, frozenset(("films",))).may_use("film")
    assert Grant(Scope.READ).may_use("films")


@pytest.mark.parametrize("damage", ["altered", "gone", "no file"])
def test_a_damaged_file_opens_nothing_and_leaves_the_keys_of_the_settings(tmp_path: Path, damage: str) -> None:
    keys = keys_of(tmp_path, admin_key=ADMIN_KEY)
    key = key_file.make(tmp_path, "any", "read", None)[1]
    assert outcomes(keys, key)[0] == 200
    path = tmp_path / key_file.KEYS_FILE
    intact = path.read_bytes()
    if damage == "altered":
        path.write_bytes(intact.replace(b'"read"', b'"admin"'))
    else:
        path.unlink()
    if damage == "no file":
        path.mkdir()
    assert outcomes(keys, key) == [503] * 4
    assert outcomes(keys, None) == [401] * 4
    assert outcomes(keys, ADMIN_KEY) == [200] * 4
    if damage == "no file":
        path.rmdir()
    path.write_bytes(intact)
    assert outcomes(keys, key)[0] == 200


def test_the_file_is_looked_at_again_after_a_while_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made_keys, "MAX_AGE_S", 0.25)
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("service.api.door.auth.monotonic", lambda: now[0])
    keys = keys_of(tmp_path, admin_key=ADMIN_KEY)
    key = key_file.make(tmp_path, "any", "read-write", None)[1]
    now[0] += 0.24
    assert outcomes(keys, key)[:2] == [200, 200]  # still open
    assert outcomes(keys, None)[:2] == [200, 200]
    now[0] += 0.01
    assert outcomes(keys, None)[:2] == [401, 401]
    assert outcomes(keys, key)[:2] == [200, 200]


def test_an_old_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_file.make(tmp_path, "any", "read", None)[1]
    other = key_file.make(tmp_path, "other", "read", None)[0]
    reads, read = list[Path](), key_file.read

    def counted(data: Path) -> list[key_file.StoredKey] | None:
        reads.append(data)
        return read(data)

    monkeypatch.setattr(key_file, "read", counted)
    monkeypatch.setattr(made_keys, "YOUNG_S", -1.0)
    keys = keys_of(tmp_path, admin_key=ADMIN_KEY)
    for _ in range(3):
        assert outcomes(keys, key)[0] == 200
    assert len(reads) == 1
    key_file.revoke(tmp_path, other.id, others_are_admins=True)
    reads.clear()
    for _ in range(3):
        assert outcomes(keys, key)[0] == 200
    assert len(reads) == 1
