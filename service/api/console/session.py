"""`Sessions`: who has signed in, by a signed cookie that holds no key. Nothing is stored on the service's side."""

from __future__ import annotations

import base64
import binascii
import functools
import hmac
import secrets
import struct
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from service.api.auth import CONSOLE_PREFIX, Keys
from service.settings import Settings
from service.signing import SIGNATURE_BYTES, Signer
from service.storage import signing_key
from service.storage.key_file import digest_of

SESSION_S = 8 * 3600  # seconds; a working day, then one signs in again
VISITOR = b"\0" * SIGNATURE_BYTES  # the mark of who has not signed in
COOKIE, VISITOR_COOKIE = "nearfield_console", "nearfield_visitor"
_LAYOUT = struct.Struct(f">Q12s{SIGNATURE_BYTES}s")


class Session(NamedTuple):
    """A session, as its cookie has it.

    Attributes:
        expires_s: Unix seconds.
        number: random, so that no two sessions have the same tokens.
        mark: by which the service recognizes the key of who has signed in, while that key opens /admin/*.
    """

    expires_s: int
    number: bytes
    mark: bytes

    @property
    def is_visitor(self) -> bool:
        """Whether nobody has signed in: the session only has the tokens of forms."""
        return self.mark == VISITOR

    @property
    def content(self) -> bytes:
        """What is signed."""
        return _LAYOUT.pack(*self)


class Sessions:
    """Makes sessions and checks them, for one data set: a session of another one is none of this.

    All replicas have the same signing key, so that each takes the sessions of all others, also after a restart. A
    session names its admin key by a keyed hash, which is of no use without the signing key.

    Every method may raise `NotReady`: the signing key is not known yet.

    Args:
        settings: of the data set.
        keys: of the data set; asked at each request, so that a revoked key ends its sessions.
    """

    def __init__(self, settings: Settings, keys: Callable[[], Keys]) -> None:
        self._settings, self._keys = settings, keys

    def begin(self, key: bytes | None = None) -> Session:
        """A session of who has signed in with `key`, which opens /admin/*; without a key that of a visitor."""
        mark = VISITOR if key is None else self._signer.signature("console-key", digest_of(key))
        return Session(int(time.time()) + SESSION_S, secrets.token_bytes(12), mark)

    def of_cookies(self, cookies: Mapping[str, str]) -> Session | None:
        """The session of a request: valid, but perhaps of a visitor; None if there is none."""
        found = (self._parsed(cookies.get(name, "")) for name in (COOKIE, VISITOR_COOKIE))
        return next((session for session in found if session is not None), None)

    def may_enter(self, session: Session | None) -> bool:
        """Whether the pages are open: a key of the session still opens /admin/*, or /admin/* needs none.

        Raises:
            CorruptFile: the keys cannot be known now.
        """
        keys = self._keys()
        if keys.is_open(CONSOLE_PREFIX):
            return session is not None
        if session is None or session.is_visitor:
            return False
        signer = self._signer
        marks = (signer.signature("console-key", digest) for digest in keys.admin_digests())
        return any(hmac.compare_digest(mark, session.mark) for mark in marks)

    def text(self, session: Session) -> str:
        """The value of the cookie."""
        signature = self._signer.signature("console-session", self._own(session))
        return base64.urlsafe_b64encode(session.content + signature).decode()

    def token(self, session: Session) -> str:
        """What each form of the session carries: pages of other sites cannot know it."""
        return base64.urlsafe_b64encode(self._signer.signature("console-form", self._own(session))).decode()

    def _parsed(self, text: str) -> Session | None:
        try:
            content = base64.b64decode(text.encode(), b"-_", validate=True)
            session = Session(*_LAYOUT.unpack(content[: _LAYOUT.size]))
        except (binascii.Error, struct.error, ValueError):
            return None
        is_ours = self._signer.has_signed("console-session", self._own(session), content[_LAYOUT.size :])
        return session if is_ours and time.time() < session.expires_s else None

    def _own(self, session: Session) -> bytes:
        return self._settings.data_set.encode() + b"\0" + session.content

    @property
    def _signer(self) -> Signer:
        return Signer(functools.partial(signing_key.read, self._settings.data))  # now: a new Redis may bring another
