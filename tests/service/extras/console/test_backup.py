"""A backup is no way into the console: nothing in it begins, continues or forges a session."""

import base64
import hashlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.__main__ import run
from service.base.signing import SIGNATURE_BYTES
from service.extras.console.session import COOKIE, VISITOR_COOKIE
from service.extras.webhooks import webhook_file
from service.storage.signing_key import KEY_FILE
from tests.service.extras.console.visitor import ADMIN_KEY, Visitor
from tests.service.process import Service

READ_KEY = "key-of-those-who-read"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with keys of both kinds, a webhook, and a session of each admin key."""
    data = tmp_path_factory.mktemp("console") / "data"
    service = Service(data, fronts=1, admin_key=ADMIN_KEY, read_key=READ_KEY, backend="host")
    service.client.headers["X-API-Key"] = ADMIN_KEY
    service.rate(("ann", "film", 5.0))
    made = service.client.post("/admin/keys", json={"name": "console", "scope": "admin"}).json()
    webhook_file.add(data, "https://example.com/jobs", ["train.failed"])
    for key in (ADMIN_KEY, made["key"]):
        with Visitor(str(service.client.base_url)) as visitor:
            assert visitor.sign_in(key).status_code == 303
    yield service
    service.kill()


def test_no_session_can_be_forged_from_a_backup(service: Service, tmp_path: Path) -> None:
    assert run(["backup", "--data", str(service.data), "--out", str(tmp_path / "backup")]) == 0
    assert run(["restore", str(tmp_path / "backup"), "--data", str(tmp_path / "restored")]) == 0
    for folder in (tmp_path / "backup", tmp_path / "restored"):
        names = {path.name for path in folder.iterdir()}
        assert KEY_FILE in names, "the test would prove nothing without the key that is in a backup"
        assert "sessions" not in names
    contents = [path.read_bytes() for path in (tmp_path / "backup").rglob("*") if path.is_file()]
    cookies = {cookie for content in contents for cookie in forged(content, (tmp_path / "backup" / KEY_FILE))}
    assert len(cookies) > 20
    with Visitor(str(service.client.base_url)) as thief:
        for name in (COOKIE, VISITOR_COOKIE):
            for cookie in cookies:
                answer = thief.get("/console/overview", headers={"cookie": f"{name}={cookie}"})
                assert (answer.status_code, answer.headers["location"]) == (303, "login")
        for content in contents:
            for secret in set(re.findall(rb"[\w+/=-]{20,}", content)):
                status = thief.get("/admin/jobs", headers={"X-API-Key": secret}).status_code
                assert status in (401, 429), "429: too many wrong keys from here, whichever they are"


def forged(content: bytes, signing: Path) -> Iterator[str]:
    """Cookies that somebody could make of a file: its parts themselves, and sessions that the signing key signs."""
    key = signing.read_bytes()
    digests = [bytes.fromhex(text.decode()) for text in re.findall(rb"[0-9a-f]{64}", content)]
    for secret in (*digests, content[:32], key):
        yield base64.urlsafe_b64encode(secret).decode()
    for digest in digests:
        mark = signed(key, b"console-key", digest)
        session = struct.pack(f">Q12s{SIGNATURE_BYTES}s", 2_776_000_000, b"k" * 12, mark)
        yield base64.urlsafe_b64encode(session + signed(key, b"console-session", b"\0" + session)).decode()


def signed(key: bytes, purpose: bytes, content: bytes) -> bytes:
    """As `service.base.signing` does it."""
    return hashlib.blake2b(content, key=key, person=purpose, digest_size=SIGNATURE_BYTES).digest()
