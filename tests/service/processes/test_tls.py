"""A service that speaks TLS by itself."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from service.__main__ import run
from service.processes.acceptor import MOST_OPENING
from service.processes.certificate import Certificate
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings
from tests.service import certificates
from tests.service.process import Service
from tests.service.waiting import eventually

KEY = "a-key-of-a-test-with-tls"


class Place:
    """A service with TLS, and the files of its certificate."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = certificates.make(folder, "first")
        self.service = Service(
            folder / "data", fronts=2, tls_certificate=self.certificate, tls_key=self.key, api_key=KEY
        )
        self.service.client.headers["X-API-Key"] = KEY
        self.address = self.service.client.base_url.host, self.service.client.base_url.port or 0

    def shown(self) -> str:
        """The certificate that a new connection gets."""
        return ssl.get_server_certificate(self.address)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tls")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(folder / "first.pem"))  # as who asks by our client does
        place = Place(folder)
        yield place
        place.service.kill()


def test_ratings_and_lists_go_over_tls(place: Place) -> None:
    service = place.service
    assert service.client.base_url.scheme == "https"
    ratings = [(f"u{u}", f"i{i}", 4.0) for u in range(40) for i in range(25)]
    service.api.wait_for(service.rate(*ratings))
    assert len(service.api.get("/popular", n=20)["items"]) == 20
    answer = service.client.get("/health/ready")
    assert (answer.http_version, "Strict-Transport-Security" in answer.headers) == ("HTTP/1.1", False)
    out = place.certificate.parent / "ratings.ndjson"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARFIELD_API_KEY", KEY)
        assert run(["export", "--url", str(service.client.base_url), "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == len(ratings)


def test_who_does_not_know_the_certificate_or_speaks_no_tls_gets_nothing(place: Place, tmp_path: Path) -> None:
    host, port = place.address
    other, _ = certificates.make(tmp_path, "other")
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"https://{host}:{port}/health/live", verify=trusting(other))
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{host}:{port}/health/live")
    assert place.service.client.get("/health/live").status_code == 200


def test_the_console_marks_its_cookie_as_secure(place: Place) -> None:
    answer = place.service.client.get("/console/login")
    assert answer.status_code == 200
    assert "; Secure" in answer.headers["Set-Cookie"]


def has_ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        return connection.recv(1) == b""
    return False


def test_clients_that_begin_no_handshake_keep_nobody_out(place: Place) -> None:
    n_silent = 2 * MOST_OPENING + 50  # of two fronts
    with contextlib.ExitStack() as opened:
        silent = [opened.enter_context(socket.create_connection(place.address)) for _ in range(n_silent)]
        live = httpx.get(f"https://{place.address[0]}:{place.address[1]}/health/live", timeout=60)
        assert live.status_code == 200
        # Sooner than a handshake may take. One front may have taken more of them than the other.
        eventually(lambda: any(map(has_ended, silent)), 5)


def test_a_new_certificate_is_for_new_connections_and_a_wrong_one_is_not_taken(place: Place) -> None:
    before, port = place.shown(), place.address[1]
    with httpx.Client(base_url=f"https://127.0.0.1:{port}", timeout=60) as client:
        assert client.get("/health/live").status_code == 200
        place.key.write_text("no key")
        eventually(lambda: place.service.errors.read_text().count("the one before stays") >= 2, 30)
        assert place.shown() == before
        certificate, key = certificates.make(place.certificate.parent, "second")
        certificate.replace(place.certificate)
        key.replace(place.key)
        eventually(lambda: all(place.shown() == place.certificate.read_text() for _ in range(8)), 30)
        assert client.get("/health/live").status_code == 200  # by the connection of before
    trusted = trusting(place.certificate)
    assert httpx.get(f"https://127.0.0.1:{port}/health/live", verify=trusted, timeout=60).status_code == 200


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


def test_what_cannot_be_used_is_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = certificates.make(tmp_path, "one")
    _, other = certificates.make(tmp_path, "other")
    _, locked = certificates.make(tmp_path, "locked", "-passout", "pass:secret")
    for chosen, message in (
        (tmp_path / "none.key", "Invalid tls_key: expected a file that can be read"),
        (other, "Invalid tls_certificate: .*KEY_VALUES_MISMATCH"),
        (locked, "Invalid tls_key: expected a key without a password"),
    ):
        with pytest.raises(InvalidSetting, match=message):
            Certificate.of(Settings(tls_certificate=certificate, tls_key=chosen))
    with pytest.raises(ValidationError, match="Invalid tls_key: expected a file, as tls_certificate is set, got none"):
        Settings(tls_certificate=certificate)
    with pytest.raises(ValidationError, match="Invalid tls_certificate: expected a file, as tls_key is set, got none"):
        Settings(tls_key=key)
    assert Certificate.of(Settings()) is None
    monkeypatch.setenv("NEARFIELD_TLS_CERTIFICATE", str(certificate))
    monkeypatch.setenv("NEARFIELD_TLS_KEY", str(other))
    assert run(["serve", "--data", str(tmp_path / "data")]) == 2
