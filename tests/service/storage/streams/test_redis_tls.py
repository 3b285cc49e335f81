"""Redis over TLS, by the options of its URL: a relay that ends TLS stands before the server."""

import asyncio
import contextlib
import select
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.storage.errors import StreamUnavailable
from service.storage.events import StreamId, encode_subject
from service.storage.log.rating_log import RatingLog
from service.storage.streams.stream import Stream
from tests.service import certificates


@contextlib.contextmanager
def relay(path: str, context: ssl.SSLContext) -> Iterator[int]:
    """The port at which the server of a Unix socket answers by TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as executor:

        def accept() -> None:
            with contextlib.suppress(OSError):  # the listener is shut down
                while True:
                    executor.submit(pass_on, listener.accept()[0], path, context)

        executor.submit(accept)
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def pass_on(accepted: socket.socket, path: str, context: ssl.SSLContext) -> None:
    """Pass all bytes of one client on, and the answers back, until either side ends."""
    server = socket.socket(socket.AF_UNIX)
    with accepted, server, contextlib.suppress(OSError), context.wrap_socket(accepted, server_side=True) as client:
        server.connect(path)
        other = {client: server, server: client}
        while True:
            for one in [client] if client.pending() else select.select([client, server], [], [])[0]:
                if not (data := one.recv(1 << 16)):
                    return
                other[one].sendall(data)


@pytest.mark.parametrize(
    ("options", "works"),
    [
        ("ssl_ca_certs={0}/server.pem&ssl_certfile={0}/client.pem&ssl_keyfile={0}/client.key", True),
        ("ssl_ca_certs={0}/server.pem&ssl_certfile={0}/server.pem&ssl_keyfile={0}/server.key", False),
        ("ssl_ca_certs={0}/server.pem", False),
        ("ssl_ca_certs={0}/client.pem&ssl_certfile={0}/client.pem&ssl_keyfile={0}/client.key", False),
    ],
    ids=["both", "a client's certificate that the server does not know", "no client's", "another authority"],
)
def test_the_url_names_the_authority_and_the_certificate_of_the_client(
    redis_url: str, tmp_path: Path, log: RatingLog, options: str, works: bool
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificates.make(tmp_path, "server"))
    context.load_verify_locations(certificates.make(tmp_path, "client")[0])
    context.verify_mode = ssl.CERT_REQUIRED
    with (
        relay(redis_url.removeprefix("unix://"), context) as port,
        contextlib.closing(
            Stream(f"rediss://127.0.0.1:{port}?{options.format(tmp_path)}", floor=log.last_id)
        ) as stream,
    ):

        async def append() -> StreamId:
            try:
                return await stream.writer.append(encode_subject("hide", "i1"))
            finally:
                await stream.aclose()

        if works:
            assert asyncio.run(append()) == stream.newest()
            return
        with pytest.raises(StreamUnavailable):
            asyncio.run(append())
        with pytest.raises(StreamUnavailable):
            stream.newest()
