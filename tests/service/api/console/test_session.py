"""Sessions of the console: what a cookie proves, and what ends it."""

import base64
import secrets

import pytest

from service.api.auth import Keys
from service.api.console import session as sessions
from service.api.console.session import COOKIE, VISITOR_COOKIE, Sessions
from service.errors import NotReady
from service.settings import Settings
from service.signing import KEY_BYTES
from service.storage import key_file, signing_key

ADMIN_KEY = "key-of-the-admins"


def made(data, **options):
    signing = data / signing_key.KEY_FILE
    if not signing.exists():
        signing.write_bytes(secrets.token_bytes(KEY_BYTES))
    settings = Settings(data=data, **options)
    keys = Keys(settings)
    return Sessions(settings, lambda: keys)


@pytest.fixture
def pair(tmp_path):
    """Two processes over one folder."""
    return made(tmp_path, admin_key=ADMIN_KEY), made(tmp_path, admin_key=ADMIN_KEY)


def test_every_process_takes_a_session_of_another(pair):
    one, other = pair
    session = one.begin(ADMIN_KEY.encode())
    found = other.of_cookies({COOKIE: one.text(session)})
    assert found == session
    assert other.may_enter(found)
    assert other.token(found) == one.token(session)


def test_a_visitor_has_a_token_but_may_not_enter(pair):
    visitor = pair[0].begin()
    found = pair[1].of_cookies({VISITOR_COOKIE: pair[0].text(visitor)})
    assert found == visitor
    assert not pair[1].may_enter(found)
    assert not pair[1].may_enter(None)
    assert pair[0].token(visitor) != pair[0].token(pair[0].begin())


def test_a_changed_cookie_is_none(pair):
    text = pair[0].text(pair[0].begin(ADMIN_KEY.encode()))
    raw = base64.urlsafe_b64decode(text)
    for place in range(len(raw)):
        forged = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        assert pair[0].of_cookies({COOKIE: base64.urlsafe_b64encode(forged).decode()}) is None
    for wrong in ("", "!", "é", text[:-4], text + "AAAA", base64.urlsafe_b64encode(raw[:-1]).decode()):
        assert pair[0].of_cookies({COOKIE: wrong}) is None


def test_a_session_of_another_folder_or_data_set_is_none(pair, tmp_path):
    text = pair[0].text(pair[0].begin(ADMIN_KEY.encode()))
    (tmp_path / "elsewhere").mkdir()
    assert made(tmp_path / "elsewhere", admin_key=ADMIN_KEY).of_cookies({COOKIE: text}) is None
    _, films = Settings(data=tmp_path, data_sets="films", admin_key=ADMIN_KEY).each()
    films.data.mkdir(parents=True)
    (films.data / "signing.key").write_bytes((tmp_path / "signing.key").read_bytes())
    assert Sessions(films, lambda: Keys(films)).of_cookies({COOKIE: text}) is None


def test_before_redis_has_started_there_are_no_sessions(tmp_path):
    one = made(tmp_path)
    (tmp_path / signing_key.KEY_FILE).unlink()
    with pytest.raises(NotReady):
        one.text(one.begin())


def test_a_session_ends_with_its_time(pair, monkeypatch):
    monkeypatch.setattr(sessions, "SESSION_S", 0)
    assert pair[0].of_cookies({COOKIE: pair[0].text(pair[0].begin(ADMIN_KEY.encode()))}) is None


def test_a_session_ends_with_its_key(tmp_path):
    one = made(tmp_path, admin_key=ADMIN_KEY)
    session = one.begin(ADMIN_KEY.encode())
    assert one.may_enter(session)
    assert not made(tmp_path, admin_key="another-key-of-admins").may_enter(session)
    assert made(tmp_path, admin_key=f"another-key-of-admins,{ADMIN_KEY}").may_enter(session)


@pytest.mark.parametrize(
    ("scope", "data_sets", "enters"),
    [("admin", None, True), ("admin", ["default"], True), ("admin", ["films"], False), ("read-write", None, False)],
)
def test_of_made_keys_those_of_admins_of_the_data_set_enter(tmp_path, scope, data_sets, enters):
    listed, key = key_file.make(tmp_path, "console", scope, data_sets)
    one = made(tmp_path, admin_key=ADMIN_KEY)
    session = one.begin(key.encode())
    assert one.may_enter(session) == enters
    key_file.revoke(tmp_path, listed.id, others_are_admins=True)
    assert not made(tmp_path, admin_key=ADMIN_KEY).may_enter(session)


def test_without_a_key_for_admins_everybody_enters(tmp_path):
    one = made(tmp_path)
    assert one.may_enter(one.begin())
    assert not made(tmp_path, api_key="key-of-all-clients").may_enter(one.begin()), "then it opens /admin/* too"


def test_a_cookie_holds_neither_a_key_nor_its_plain_hash(pair):
    content = base64.urlsafe_b64decode(pair[0].text(pair[0].begin(ADMIN_KEY.encode())))
    assert ADMIN_KEY.encode() not in content
    digest = key_file.digest_of(ADMIN_KEY.encode())
    assert not any(digest[place : place + 4] in content for place in range(28))
