"""`ClusterAddress`: where the Dask scheduler of a cluster listens, and with which certificates.

The ports of Dask execute code: anyone who reaches one can run anything there. So an address that other machines can
reach needs TLS, with certificates of both sides that one authority has signed.
"""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import msgspec

from service.settings.addresses import is_loopback
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings


class ClusterAddress(msgspec.Struct, frozen=True):
    """The address of a scheduler, and files in PEM format.

    Attributes:
        address: tls://HOST:PORT, or tcp://HOST:PORT on loopback.
        tls_ca: certificate of the authority that has signed all others.
        tls_cert, tls_key: certificate and private key of this machine.

    Raises:
        InvalidSetting: the address is none, or other machines reach it without TLS.
    """

    address: str
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def __post_init__(self) -> None:
        """Check it."""
        scheme, host, _ = self.parts()
        if scheme == "tcp" and not is_loopback(host):
            raise InvalidSetting(
                f"Invalid cluster: expected tls:// for a host that other machines reach, got {self.address!r}; anyone"
                " who reaches the port can execute code, so it needs certificates (--tls-ca, --tls-cert, --tls-key)"
            )
        if scheme == "tls" and not (self.tls_ca and self.tls_cert and self.tls_key):
            raise InvalidSetting(
                f"Invalid cluster: expected three files for {self.address}, got fewer; set --tls-ca, --tls-cert and"
                " --tls-key, or NEARFIELD_CLUSTER_TLS_CA, NEARFIELD_CLUSTER_TLS_CERT and NEARFIELD_CLUSTER_TLS_KEY"
            )

    @property
    def scheme(self) -> str:
        """`tls` or `tcp`."""
        return self.parts()[0]

    @property
    def host(self) -> str:
        """Name or number of the machine."""
        return self.parts()[1]

    @property
    def port(self) -> int:
        """TCP port of the scheduler."""
        return self.parts()[2]

    def check_files(self) -> None:
        """Check that the three files can be used.

        Raises:
            InvalidSetting: they cannot; the message names the file.
        """
        if self.scheme == "tcp":
            return
        assert self.tls_ca is not None and self.tls_cert is not None  # noqa: S101 (tells the type checker)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.tls_ca)
        except OSError as error:
            raise InvalidSetting(
                f"Invalid cluster: expected the certificate of an authority, in PEM, in {self.tls_ca}, got {error}"
            ) from None
        try:
            context.load_cert_chain(self.tls_cert, self.tls_key, password="")  # else a terminal would be asked for it
        except OSError as error:
            raise InvalidSetting(
                f"Invalid cluster: expected a certificate in {self.tls_cert} and its private key, without a password,"
                f" in {self.tls_key}, both in PEM, got {error}"
            ) from None

    @classmethod
    def of(cls, settings: Settings) -> ClusterAddress | None:
        """The cluster in the settings; None if there is none."""
        if settings.cluster is None:
            return None
        paths = settings.cluster_tls_ca, settings.cluster_tls_cert, settings.cluster_tls_key
        tls_ca, tls_cert, tls_key = (None if path is None else str(path) for path in paths)
        return cls(settings.cluster, tls_ca, tls_cert, tls_key)

    def parts(self) -> tuple[str, str, int]:
        """Scheme, host and port; raises `InvalidSetting` if it is no address."""
        try:
            url = urlsplit(self.address)
            host, port = url.hostname, url.port
        except ValueError:  # the port is not a number, or too high
            host, port = None, None
        if host is None or port is None or url.scheme not in ("tcp", "tls") or url.path:
            raise InvalidSetting(f"Invalid cluster: expected tls://HOST:PORT, got {self.address!r}")
        return url.scheme, host, port
