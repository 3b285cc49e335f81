import asyncio
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from service.base.errors import InvalidRequest
from service.extras.webhooks import targets
from service.extras.webhooks.sender import Sender


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/jobs",
        "/jobs",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "https:///jobs",
        "https://exa mple.com/",
        "https://a..b/",
        "https://-a.example/",
        f"https://{'a' * 64}.example/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://example.com:port/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://exam\x00ple.com/",
    ],
)
def test_what_is_no_url_of_http_is_refused(url):
    with pytest.raises(InvalidRequest, match=r"Invalid body\.url: expected a URL such as"):
        targets.check_now(url, ["0.0.0.0/0", "::/0"])


@pytest.mark.parametrize("url", ["https://user@8.8.8.8/", "https://user:word@8.8.8.8/", "https://:word@8.8.8.8/"])
def test_a_url_with_a_user_is_refused_and_not_repeated(url):
    with pytest.raises(InvalidRequest, match="without a user or a password") as caught:
        targets.check_now(url, [])
    assert "word" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "192.0.2.1", "198.18.0.1"),
        *("[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]"),
        # addresses of IPv4 within those of IPv6
        *("[::ffff:10.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::a00:1]", "[64:ff9b:1::808:808]", "[2002:a00:1::]"),
        *("[::127.0.0.1]", "[2001:0:a00:1::f5ff:fffe]"),
        # addresses of special purposes, and those where clouds have metadata
        *("192.0.0.192", "192.0.0.9", "168.63.129.16", "100.100.100.200", "192.88.99.1", "[2001:2::1]", "[3fff::1]"),
        *("[100::1]", "[5f00::1]", "[4000::1]", "[2001:20::1]", "[2001:1::1]"),
        *("[::ffff:0:a9fe:a9fe]", "[::ffff:0:808:808]", "[::ffff:a83f:8110]", "[64:ff9b::a83f:8110]", "[::8.8.8.8]"),
        *("[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[2002:c000:c0::]", "[2002:a83f:8110::]"),
        *("[2606:4700::5efe:a00:1]", "[2606:4700::200:5efe:a9fe:a9fe]"),
        # numbers that resolvers take for addresses, and a name
        *("2130706433", "127.1", "0x7f.0.0.1", "localhost", "LOCALHOST.", "127.0.0.1."),
    ],
)
def test_what_is_inside_is_refused_unless_it_is_named(host):
    with pytest.raises(InvalidRequest, match=r"which is inside|has no address"):
        targets.check_now(f"http://{host}/jobs", [])


@pytest.mark.parametrize("port", [1, 22, 25, 81, 445, 1023])
def test_ports_that_are_not_of_the_web_are_refused(port):
    with pytest.raises(InvalidRequest, match=f"expected port 80, 443, or one from 1024 on, got {port}$"):
        targets.check_now(f"http://8.8.8.8:{port}/", ["0.0.0.0/0"])
    assert "expected port" in str(asyncio.run(Sender(["0.0.0.0/0"]).post(f"http://8.8.8.8:{port}/", {}, b"{}")))


@pytest.mark.parametrize(
    "host", ["8.8.8.8", "[2606:4700::1111]", "[::ffff:8.8.8.8]", "[64:ff9b::808:808]", "[2002:808:808::1]"]
)
def test_what_is_outside_is_taken(host):
    targets.check_now(f"https://{host}:8443/jobs?of=shop", [])


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.1.2.3", "10.0.0.0/8"),
        ("[fd00::1]", "fd00::/8"),
        ("localhost", "127.0.0.0/8"),
        ("[::ffff:10.0.0.1]", "10.0.0.0/8"),
    ],
)
def test_networks_of_the_setting_may_be_reached(host, network):
    with pytest.raises(InvalidRequest, match="inside"):
        targets.check_now(f"http://{host}/", ["192.168.0.0/16"])
    targets.check_now(f"http://{host}/", ["192.168.0.0/16", network, "::1/128"])


def test_a_name_with_one_inside_address_is_refused():
    target = targets.parse("https://example.com/")
    targets.check(target, ["8.8.8.8", "2606:4700::1111"], [])
    with pytest.raises(InvalidRequest, match=r"example\.com \(10\.0\.0\.1\), which is inside"):
        targets.check(target, ["8.8.8.8", "10.0.0.1"], [])


@pytest.mark.parametrize(
    ("addresses", "inside"),
    [
        (["2606:4700::1111"], None),
        (["8.8.8.8", "2606:4700::1111"], None),
        (["::ffff:8.8.8.8"], None),
        (["::1"], "::1"),
        (["8.8.8.8", "fd12::9"], "fd12::9"),
        (["2606:4700::1111", "fe80::1%eth0"], "fe80::1%eth0"),
        (["::ffff:127.0.0.1"], "::ffff:127.0.0.1"),
        (["2606:4700::1111", "64:ff9b::a9fe:a9fe"], "64:ff9b::a9fe:a9fe"),
    ],
)
def test_what_a_name_resolves_to_decides(monkeypatch, addresses, inside):
    def resolved(host, port, **_):
        assert (host, port) == ("hooks.example", 443)
        families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [(family, 1, 6, "", (one, port)) for family, one in zip(families, addresses, strict=True)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    if inside is None:
        targets.check_now("https://hooks.example/jobs", [])
        return
    with pytest.raises(InvalidRequest) as caught:
        targets.check_now("https://hooks.example/jobs", [])
    assert f"got hooks.example ({inside}), which is inside" in str(caught.value)
    assert inside in str(asyncio.run(Sender([]).post("https://hooks.example/jobs", {}, b"{}")))  # and at each attempt


def test_a_target_of_ipv6_is_told():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204 if self.headers["host"] == f"[::1]:{server.server_port}" else 421)
            self.end_headers()

    class Server(HTTPServer):
        address_family = socket.AF_INET6

    try:
        server = Server(("::1", 0), Handler)
    except OSError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
    with server:
        Thread(target=server.handle_request, daemon=True).start()
        url = f"http://[::1]:{server.server_port}/jobs"
        assert asyncio.run(Sender(["::1/128"]).post(url, {}, b"{}")) is None


def test_a_name_that_nobody_knows_is_told():
    with pytest.raises(InvalidRequest, match=r"nowhere\.invalid has no address now"):
        targets.check_now("https://nowhere.invalid/", [])
