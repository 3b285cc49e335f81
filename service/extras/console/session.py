"""`Sessions`: who has signed in, by a cookie that holds no key, and by a file on the service's side."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import NamedTuple

from service.api.door.auth import CONSOLE_PREFIX, Keys
from service.settings.settings import Settings
from service.storage import session_folder
from service.storage.key_file import digest_of

SECRET_BYTES = 32
COOKIE, VISITOR_COOKIE = "nearfield_console", "nearfield_visitor"


class Session(NamedTuple):
    """A session.

    Attributes:
        secret: random bytes, which the cookie has and the service has not.
        key: id of the key that has signed in; empty for a visitor.
        mark: by which the service recognizes this key while it opens /admin/*.
    """

    secret: bytes
    key: str = ""
    mark: bytes = b""

    @property
    def is_visitor(self) -> bool:
        """Whether nobody has signed in: the session only has the tokens of forms."""
        return not self.mark

    @property
    def text(self) -> str:
        """The value of the cookie."""
        return base64.urlsafe_b64encode(self.secret).decode()

    @property
    def token(self) -> str:
        """What each form of the session carries: pages of other sites cannot know it."""
        return base64.urlsafe_b64encode(derived(self.secret, "console-form")).decode()


class Sessions:
    """Makes sessions, checks and ends them, for one data set: a session of another one is none of this.

    All processes that share DATA share the sessions. A session exists while its file does (`session_folder`), so no key
    can forge one, and who signs out ends it everywhere.

    Args:
        settings: of the data set.
        keys: of the data set; asked at each request, so that a revoked key ends its sessions.
    """

    def __init__(self, settings: Settings, keys: Callable[[], Keys]) -> None:
        self._data, self._keys = settings.data, keys

    def begin(self, key: bytes) -> Session:
        """A session of who has signed in with `key`, which opens /admin/*; waits for the disk.

        Raises:
            OSError: the disk is full or broken.
        """
        secret = secrets.token_bytes(SECRET_BYTES)
        session = Session(secret, self._keys().id_of(key) or "", derived(secret, "console-key", digest_of(key)))
        session_folder.begin(self._data, secret, session.key, session.mark)
        return session

    def end(self, session: Session) -> None:
        """End a session in all processes; waits for the disk."""
        session_folder.end(self._data, session.secret)

    def of_cookies(self, cookies: Mapping[str, str]) -> Session | None:
        """The session of a request, perhaps of a visitor; None if there is none."""
        secret = secret_in(cookies.get(COOKIE, ""))
        stored = None if secret is None else session_folder.find(self._data, secret)
        if secret is not None and stored is not None:
            return Session(secret, stored.key, bytes.fromhex(stored.mark))
        secret = secret_in(cookies.get(VISITOR_COOKIE, ""))
        return None if secret is None else Session(secret)

    def may_enter(self, session: Session | None) -> bool:
        """Whether the pages are open: the key of the session still opens /admin/*, or /admin/* needs none.

        Raises:
            CorruptFile: the keys cannot be known now.
        """
        keys = self._keys()
        if keys.is_open(CONSOLE_PREFIX):
            return session is not None
        if session is None or session.is_visitor:
            return False
        marks = (derived(session.secret, "console-key", digest) for digest in keys.admin_digests())
        return any(hmac.compare_digest(mark, session.mark) for mark in marks)


def of_visitor() -> Session:
    """A session of who has not signed in."""
    return Session(secrets.token_bytes(SECRET_BYTES))


def secret_in(text: str) -> bytes | None:
    """The secret in the value of a cookie; None if it has none."""
    try:
        secret = base64.b64decode(text.encode(), b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return secret if len(secret) == SECRET_BYTES else None


def derived(secret: bytes, purpose: str, content: bytes = b"") -> bytes:
    """A digest of `content` for one purpose, which only who has the secret can make."""
    return hashlib.blake2b(content, key=secret, person=purpose.encode(), digest_size=32).digest()
