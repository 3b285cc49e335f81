"""`Signer`: marks text that clients carry and bring back, so that the service recognizes its own."""

from __future__ import annotations

import hashlib
import hmac

KEY_BYTES = 32
SIGNATURE_BYTES = 12  # to guess one of 2^96 takes longer than any cursor is of use


class Signer:
    """Signs bytes with the key of the service, which all replicas of a stream have: `Stream.signer`."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def signature(self, purpose: str, content: bytes) -> bytes:
        """`SIGNATURE_BYTES` that only a holder of the key can compute.

        Args:
            purpose: what the content is for, so that a signature of one kind is none of another; at most 16 bytes.
        """
        made = hashlib.blake2b(content, key=self._key, person=purpose.encode(), digest_size=SIGNATURE_BYTES)
        return made.digest()

    def has_signed(self, purpose: str, content: bytes, signature: bytes) -> bool:
        """Whether `signature` is that of `content`; takes as long for any wrong one."""
        return hmac.compare_digest(self.signature(purpose, content), signature)
