"""`Signer`: marks text that clients carry and bring back, so that the service recognizes its own."""

from __future__ import annotations

import functools
import hashlib
import hmac
from collections.abc import Callable

from service.base.errors import NotReady

KEY_BYTES = 32
SIGNATURE_BYTES = 12  # to guess one of 2^96 takes longer than what is signed is of use


class Signer:
    """Signs bytes with the key of the service, which all replicas of a stream have: `service.storage.signing_key`."""

    def __init__(self, read_key: Callable[[], bytes] | None = None) -> None:
        """`read_key` is called for the key, `KEY_BYTES` long, when it is needed; None: `key` is to be set."""
        self._read_key = read_key or _unknown

    @functools.cached_property
    def key(self) -> bytes:
        """The key; may be set. Raises what `read_key` raises; `NotReady` without one."""
        return self._read_key()

    def check(self) -> None:
        """Check that there is a key; raises what `key` raises."""
        self.signature("", b"")

    def signature(self, purpose: str, content: bytes) -> bytes:
        """`SIGNATURE_BYTES` that only a holder of the key can compute.

        Args:
            purpose: what the content is for, so that a signature of one kind is none of another; at most 16 bytes.
        """
        return hashlib.blake2b(content, key=self.key, person=purpose.encode(), digest_size=SIGNATURE_BYTES).digest()

    def has_signed(self, purpose: str, content: bytes, signature: bytes) -> bool:
        """Whether `signature` is that of `content`; takes as long for any wrong one."""
        return hmac.compare_digest(self.signature(purpose, content), signature)


def _unknown() -> bytes:
    raise NotReady("the signing key is not known yet: Redis is starting")
