"""Sessions of the console: what a cookie proves, and what ends it."""

import base64
import time
from collections import Counter
from pathlib import Path

import pytest

from service.api.door.auth import Keys
from service.extras.console.session import COOKIE, SECRET_BYTES, VISITOR_COOKIE, Sessions, of_visitor
from service.settings.settings import Settings
from service.storage import files, key_file, session_folder
from service.storage.session_folder import SESSION_S

ADMIN_KEY = "key-of-the-admins"


def made(data, **options):
    settings = Settings(data=data, **options)
    keys = Keys(settings)
    return Sessions(settings, lambda: keys)


def entered(sessions, text):
    """The session of a cookie, if it opens the pages."""
    session = sessions.of_cookies({COOKIE: text})
    return session if sessions.may_enter(session) else None


@pytest.fixture
def pair(tmp_path):
    """Two processes over one folder."""
    return made(tmp_path, admin_key=ADMIN_KEY), made(tmp_path, admin_key=ADMIN_KEY)


def test_every_process_takes_a_session_of_another(pair):
    one, other = pair
    session = one.begin(ADMIN_KEY.encode())
    assert entered(other, session.text) == session
    assert entered(other, session.text).token == session.token
    assert session.key == "admin_key"


def test_a_session_that_was_signed_out_is_none_in_every_process_and_after_a_restart(pair, tmp_path):
    one, other = pair
    session, second = one.begin(ADMIN_KEY.encode()), one.begin(ADMIN_KEY.encode())
    other.end(session)
    for process in (one, other, made(tmp_path, admin_key=ADMIN_KEY)):
        assert entered(process, session.text) is None
        assert entered(process, second.text) == second, "of the same key, but another browser"
    other.end(session)


def test_a_session_whose_end_was_not_synced_is_synced_by_the_next_end(tmp_path, monkeypatch):
    """A disk that failed once may bring back the session at a power cut."""
    session_folder.begin(tmp_path, b"secret", "key", b"mark")
    with monkeypatch.context() as broken:
        broken.setattr(files, "_FAULT_AT", "fsync:1:ENOSPC")
        broken.setattr(files, "_reached", Counter())
        with pytest.raises(OSError, match="No space"):
            session_folder.end(tmp_path, b"secret")
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync", synced.append)
    session_folder.end(tmp_path, b"secret")
    assert synced == [tmp_path / session_folder.FOLDER]


def test_a_visitor_has_a_token_but_may_not_enter(pair):
    visitor = of_visitor()
    found = pair[1].of_cookies({VISITOR_COOKIE: visitor.text})
    assert found == visitor
    assert found.token == visitor.token != of_visitor().token
    assert not pair[1].may_enter(found)
    assert not pair[1].may_enter(None)
    assert pair[0].of_cookies({COOKIE: visitor.text}) is None


def test_a_changed_cookie_is_none(pair):
    text = pair[0].begin(ADMIN_KEY.encode()).text
    raw = base64.urlsafe_b64decode(text)
    for place in range(len(raw)):
        forged = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        assert pair[0].of_cookies({COOKIE: base64.urlsafe_b64encode(forged).decode()}) is None
    wrong = base64.urlsafe_b64encode(raw[:-1]).decode()
    for other in ("", "!", "é", text[:-4], text + "AAAA", wrong, "..", "../keys.json"):
        for name in (COOKIE, VISITOR_COOKIE):
            assert pair[0].of_cookies({name: other}) is None
    assert entered(pair[0], text)


def test_a_session_of_another_folder_or_data_set_is_none(pair, tmp_path):
    text = pair[0].begin(ADMIN_KEY.encode()).text
    assert made(tmp_path / "elsewhere", admin_key=ADMIN_KEY).of_cookies({COOKIE: text}) is None
    _, films = Settings(data=tmp_path, data_sets="films", admin_key=ADMIN_KEY).each()
    assert Sessions(films, lambda: Keys(films)).of_cookies({COOKIE: text}) is None


def test_a_session_ends_after_eight_hours_however_often_it_is_used(pair, monkeypatch):
    session, now = pair[0].begin(ADMIN_KEY.encode()), time.time()
    for later, enters in ((SESSION_S / 2, True), (SESSION_S - 5, True), (SESSION_S + 1, False), (-60, False)):
        monkeypatch.setattr("time.time", lambda later=later: now + later)
        assert (entered(pair[1], session.text) is not None) == enters


def test_sessions_that_have_ended_leave_no_files_and_live_ones_are_bounded(pair, tmp_path, monkeypatch):
    folder = tmp_path / session_folder.FOLDER
    monkeypatch.setattr(session_folder, "MAX_SESSIONS", 3)
    made_ = [pair[0].begin(ADMIN_KEY.encode()) for _ in range(5)]
    assert len(list(folder.iterdir())) == 3
    assert entered(pair[0], made_[-1].text)
    (folder / "0123").write_bytes(b"torn")
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + SESSION_S + 1)
    last = pair[0].begin(ADMIN_KEY.encode())
    assert len(list(folder.iterdir())) == 1
    assert entered(pair[0], last.text)
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}


def test_a_session_ends_with_its_key(tmp_path):
    one = made(tmp_path, admin_key=ADMIN_KEY)
    text = one.begin(ADMIN_KEY.encode()).text
    assert entered(one, text)
    assert not entered(made(tmp_path, admin_key="another-key-of-admins"), text)
    assert entered(made(tmp_path, admin_key=f"another-key-of-admins,{ADMIN_KEY}"), text)


@pytest.mark.parametrize(
    ("scope", "data_sets", "enters"),
    [("admin", None, True), ("admin", ["default"], True), ("admin", ["films"], False), ("read-write", None, False)],
)
def test_of_made_keys_those_of_admins_of_the_data_set_enter(tmp_path, scope, data_sets, enters):
    listed, key = key_file.make(tmp_path, "console", scope, data_sets)
    one = made(tmp_path, admin_key=ADMIN_KEY)
    session = one.begin(key.encode())
    assert session.key == listed.id
    assert one.may_enter(session) == enters
    key_file.revoke(tmp_path, listed.id, others_are_admins=True)
    assert not made(tmp_path, admin_key=ADMIN_KEY).may_enter(session)


def test_a_session_ends_when_its_key_expires(tmp_path, monkeypatch):
    now = time.time()
    _, key = key_file.make(tmp_path, "console", "admin", None, now + 60)
    one = made(tmp_path, admin_key=ADMIN_KEY)
    session = one.begin(key.encode())
    assert one.may_enter(session)
    monkeypatch.setattr("time.time", lambda: now + 61)
    assert not one.may_enter(session)


def test_without_a_key_for_admins_everybody_enters(tmp_path):
    assert made(tmp_path).may_enter(of_visitor())
    assert not made(tmp_path, api_key="key-of-all-clients").may_enter(of_visitor()), "then it opens /admin/* too"


def test_neither_cookie_nor_file_holds_a_key_or_its_hash_and_no_file_is_a_cookie(pair, tmp_path):
    session = pair[0].begin(ADMIN_KEY.encode())
    (path,) = (tmp_path / session_folder.FOLDER).iterdir()
    digest = key_file.digest_of(ADMIN_KEY.encode())
    stored = session_folder.find(tmp_path, session.secret)
    assert stored is not None
    for content in (
        session.secret,
        path.read_bytes(),
        bytes.fromhex(stored.mark),
    ):
        assert ADMIN_KEY.encode() not in content
        assert digest.hex().encode() not in content
        assert not any(digest[place : place + 4] in content for place in range(28))
    on_disk = path.name.encode() + path.read_bytes()
    assert session.secret not in on_disk
    assert session.secret.hex().encode() not in on_disk
    assert session.text.encode() not in on_disk
    for part in (path.name, stored.mark):
        assert len(bytes.fromhex(part)) == SECRET_BYTES
        assert pair[0].of_cookies({COOKIE: base64.urlsafe_b64encode(bytes.fromhex(part)).decode()}) is None
