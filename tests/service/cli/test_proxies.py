"""Proxies of the environment: never to this machine, and named where something fails."""

import asyncio
import importlib.util
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from nearfield_client import Nearfield, NearfieldError
from nearfield_client import proxies as of_the_client
from nearfield_client.generated.api.operation import get_live

from service.__main__ import run
from service.cli.client import Client, RequestFailed, is_this_machine, proxy_of
from service.settings.errors import InvalidSetting

NOWHERE = "http://127.0.0.1:9"  # nothing listens there
ELSEWHERE = "http://nearfield.invalid:8000"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
needs_no_socks = pytest.mark.skipif(importlib.util.find_spec("socksio") is not None, reason="socksio is installed")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Answer(BaseHTTPRequestHandler):
    """A service to those who ask it, and a proxy that reaches nothing to those who name another host."""

    def do_GET(self) -> None:
        is_proxied = "://" in self.path
        self.send_response(502 if is_proxied else 200)
        self.send_header("Content-Type", "text/html" if is_proxied else "application/json")
        self.end_headers()
        self.wfile.write(b"<h1>no route</h1>" if is_proxied else b'{"status": "live"}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(202)
        self.end_headers()
        self.wfile.write(b'{"accepted": 1, "rejected": [], "stream_id": "1-0", "took_ms": 1}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("proxy", [NOWHERE, "socks5://127.0.0.1:9", "nonsense://x", "127.0.0.1:9"])
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_this_machine_is_asked_directly(
    variable: str, proxy: str, port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, proxy)
    for host in ("127.0.0.1", "localhost"):
        with Client(f"http://{host}:{port}") as client:
            client.check_live()
        with Nearfield(f"http://{host}:{port}", patience_s=0) as nearfield:
            assert get_live.sync_detailed(client=nearfield).status_code == 200
            assert asyncio.run(get_live.asyncio_detailed(client=nearfield)).status_code == 200
    file = tmp_path / "ratings.csv"
    file.write_text("u,i,5\n")
    assert run(["import", str(file), "--url", f"http://127.0.0.1:{port}"]) == 0


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "127.1")),
        *((host, True) for host in ("localhost", "localhost.", "a.localhost")),
        *((host, False) for host in ("10.0.0.1", "example.com", "localhost.example.com", "notlocalhost", "fe80::1")),
        ("127.0.0.1.example.com", False),
    ],
)
def test_which_hosts_are_this_machine(host: str, expected: bool) -> None:
    assert is_this_machine(host) == expected
    assert of_the_client._is_this_machine(host) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"HTTP_PROXY": "http://p:1"}, "the proxy http://p:1 of HTTP_PROXY"),
        ({"HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://q:2"}, "the proxy http://p:1 of HTTP_PROXY"),
        ({"HTTPS_PROXY": "http://p:1", "ALL_PROXY": "http://me:hidden@q:2"}, "the proxy http://q:2 of ALL_PROXY"),
        ({"HTTPS_PROXY": "http://p:1"}, None),
        ({"http_proxy": "p:1"}, "the proxy http://p:1 of HTTP_PROXY"),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "other,.invalid"}, None),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
    ],
)
def test_the_proxy_of_the_environment(
    variables: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    proxy, _ = proxy_of(httpx.URL(ELSEWHERE)), None
    assert (proxy and str(proxy)) == expected
    _, other = of_the_client.routed({"base_url": ELSEWHERE})
    assert (other and str(other)) == expected


def test_a_proxy_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:hidden@127.0.0.1:9")
    file = tmp_path / "ratings.csv"
    file.write_text("u,i,5\n")
    named = "through the proxy http://127.0.0.1:9 of HTTP_PROXY"
    for command in (["import", str(file)], ["export", "--out", str(tmp_path / "out.ndjson")]):
        assert run([*command, "--url", ELSEWHERE]) == 1
        printed = capsys.readouterr().err
        assert named in printed
        assert "hidden" not in printed
    with Nearfield(ELSEWHERE, patience_s=0) as nearfield:
        with pytest.raises(NearfieldError, match=rf"No answer: .* \({named}\)"):
            get_live.sync_detailed(client=nearfield)
        with pytest.raises(NearfieldError, match=rf"No answer: .* \({named}\)"):
            asyncio.run(get_live.asyncio_detailed(client=nearfield))


def test_a_proxy_that_answers_itself_is_named(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{port}")
    named = f"through the proxy http://127.0.0.1:{port} of ALL_PROXY"
    with Client(ELSEWHERE) as client, pytest.raises(RequestFailed, match=f"502 <h1>no route</h1> {named}"):
        client.check_live()
    with (
        Nearfield(ELSEWHERE, patience_s=0) as nearfield,
        pytest.raises(NearfieldError, match=rf"502 Bad Gateway \({named}\)"),
    ):
        get_live.sync_detailed(client=nearfield)


@needs_no_socks
def test_a_socks_proxy_without_its_package_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    file = tmp_path / "ratings.csv"
    file.write_text("u,i,5\n")
    assert run(["import", str(file), "--url", ELSEWHERE]) == 2
    assert (
        "Invalid ALL_PROXY: expected a proxy that this installation can use, got the proxy socks5://127.0.0.1:9 of"
        in (printed := capsys.readouterr().err)
    )
    assert "the package socksio: pip install 'httpx[socks]', or name nearfield.invalid in NO_PROXY" in printed
    with pytest.raises(ValueError, match=r"Invalid ALL_PROXY: .* package socksio"):
        Nearfield(ELSEWHERE).get_httpx_client()


def test_what_is_no_proxy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "nonsense://127.0.0.1:9")
    with pytest.raises(
        InvalidSetting, match="Invalid HTTP_PROXY: expected the URL of a proxy, got the proxy nonsense:"
    ):
        Client(ELSEWHERE)
    with pytest.raises(ValueError, match="Invalid HTTP_PROXY: expected the URL of a proxy, got the proxy nonsense:"):
        Nearfield(ELSEWHERE).get_httpx_client()


def test_callers_of_the_client_may_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", NOWHERE)
    arguments = {"base_url": ELSEWHERE, "trust_env": False}
    assert of_the_client.routed(arguments) == (arguments, None)


@pytest.mark.parametrize("command", ["import", "export", "deploy"])
def test_the_address_comes_from_the_environment(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    monkeypatch.setenv("NEARFIELD_URL", "http://127.0.0.1:9")
    file = tmp_path / "ratings.csv"
    file.write_text("u,i,5\n")
    given = {"import": [str(file)], "export": ["--out", str(tmp_path / "x.ndjson")], "deploy": ["--help"]}[command]
    status = run([command, *given])
    out, err = capsys.readouterr()
    assert "ignored" not in err
    if command == "deploy":
        assert "NEARFIELD_URL" in out
        return
    assert status == 1
    assert "http://127.0.0.1:9" in err
    assert run([command, *given, "--url", "http://127.0.0.1:10"]) == 1
    assert "http://127.0.0.1:10" in capsys.readouterr().err
