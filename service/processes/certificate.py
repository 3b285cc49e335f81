"""`Certificate`: what the service shows to clients that connect by TLS, and its key; read again after a change."""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

from service.settings.errors import InvalidSetting
from service.settings.settings import Settings

_log = structlog.get_logger(__name__)
_Marks = tuple[tuple[int, int, int], ...]


class Certificate:
    """The files of `tls_certificate` and `tls_key`.

    Attributes:
        context: for new connections. Those that are open keep theirs.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the files.

        Raises:
            InvalidSetting: a file cannot be read, or is no certificate, or not the key of it without a password.
        """
        self._certificate, self._key = certificate, key
        self._read = self._marks()
        self.context = self._loaded()

    @classmethod
    def of(cls, settings: Settings) -> Certificate | None:
        """That of the settings; None without one. Raises `InvalidSetting`, see the class."""
        if settings.tls_certificate is None or settings.tls_key is None:
            return None
        return cls(settings.tls_certificate, settings.tls_key)

    def renew(self) -> None:
        """Read the files again if they have changed. What cannot be used is logged once, and the one before stays."""
        try:
            marks = self._marks()
            if marks == self._read:
                return
            self._read = marks
            self.context = self._loaded()
            _log.info("the certificate was renewed", certificate=str(self._certificate))
        except InvalidSetting as error:
            _log.error("the new certificate cannot be used: the one before stays", error=str(error))

    def _marks(self) -> _Marks:
        """By which a change of the files is seen; also one of links to them. Zeros for a file that is not there."""
        marks = []
        for path in (self._certificate, self._key):
            try:
                status = path.stat()
                marks.append((status.st_ino, status.st_mtime_ns, status.st_size))
            except OSError:
                marks.append((0, 0, 0))
        return tuple(marks)

    def _loaded(self) -> ssl.SSLContext:
        def password() -> str:
            raise InvalidSetting(f"Invalid tls_key: expected a key without a password, got {self._key}, which has one")

        for name, path in (("tls_certificate", self._certificate), ("tls_key", self._key)):
            try:
                path.read_bytes()
            except OSError as error:
                raise InvalidSetting(f"Invalid {name}: expected a file that can be read, got {path}: {error}") from None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password)
        except ssl.SSLError as error:
            raise InvalidSetting(
                f"Invalid tls_certificate: expected a certificate in PEM, with those between it and its authority, and"
                f" the key of it in tls_key, got {self._certificate} and {self._key}: {error.reason or error}"
            ) from None
        return context
