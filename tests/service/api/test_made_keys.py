"""What keys that were made open, before and after they are revoked, without a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.api import made_keys
from service.api.auth import Keys
from service.api.grants import Grant, Scope
from service.errors import ServiceError
from service.settings import Settings
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
    monkeypatch.setattr("service.api.auth.monotonic", lambda: now[0])
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
