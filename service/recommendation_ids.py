"""Recommendation ids: what a list of an experiment was, signed, so that an event can bring it back.

Nothing is stored: the id has the content. Its signature also covers the user, so that no other user can use it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

import msgspec

MAX_LENGTH = 1024  # characters
SIGNATURE_BYTES = 16
_INVALID = "expected one that this service has given in an answer for this user, got another text"


class Shown(NamedTuple):
    """What was shown.

    Attributes:
        experiment, put: id of the experiment, and the position at which it was put.
        arm: name of the model.
        model_version: version of the model.
        as_of: last entry that the list includes.
    """

    experiment: str
    put: str
    arm: str
    model_version: str
    as_of: str


_decoder = msgspec.json.Decoder(Shown)


class RecommendationIds:
    """Makes and verifies ids with the key of the data folder."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, shown: Shown, user: str) -> str:
        """The id of a list that was shown to `user`."""
        content = msgspec.json.encode(shown)
        return f"{_text(content)}.{_text(self._signature(content, user))}"

    def verified(self, text: str, user: str) -> Shown:
        """The content of an id.

        Raises:
            ValueError: it is not ours, or that of another user.
        """
        content, _, signature = text.partition(".")
        try:
            is_ours = hmac.compare_digest(_bytes(signature), self._signature(_bytes(content), user))
        except (ValueError, binascii.Error):
            is_ours = False
        if not is_ours:
            raise ValueError(f"Invalid recommendation_id: {_INVALID}")
        return content_of(text)

    def _signature(self, content: bytes, user: str) -> bytes:
        message = len(content).to_bytes(4, "big") + content + user.encode()
        return hmac.digest(self._key, message, hashlib.sha256)[:SIGNATURE_BYTES]


def content_of(text: str) -> Shown:
    """The content of an id that was verified before."""
    return _decoder.decode(_bytes(text.partition(".")[0]))


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
