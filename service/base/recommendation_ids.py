"""Recommendation ids: what a list of an experiment was, signed, so that an event can bring it back.

Nothing is stored: the id has the content. Its signature also covers the user, so that no other user can use it.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import msgspec

from service.base.signing import Signer

MAX_LENGTH = 1024  # characters
PURPOSE = "recommendation"
_INVALID = "expected one that this service has given in an answer for this user, got another text"


class ShownList(NamedTuple):
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


_decoder = msgspec.json.Decoder(ShownList)


class RecommendationIds:
    """Makes and verifies ids with the key of the service; methods raise what reading the key raises."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def check(self) -> None:
        """Check that ids can be made; raises `NotReady`."""
        self._signer.check()

    def of(self, shown: ShownList, user: str) -> str:
        """The id of a list that was shown to `user`."""
        content = msgspec.json.encode(shown)
        return f"{_text(content)}.{_text(self._signer.signature(PURPOSE, _signed(content, user)))}"

    def verified(self, text: str, user: str) -> ShownList:
        """The content of an id.

        Raises:
            ValueError: it is not ours, or that of another user.
        """
        content, _, signature = text.partition(".")
        try:
            is_ours = self._signer.has_signed(PURPOSE, _signed(_bytes(content), user), _bytes(signature))
        except (ValueError, binascii.Error):
            is_ours = False
        if not is_ours:
            raise ValueError(f"Invalid recommendation_id: {_INVALID}")
        return content_of(text)


def content_of(text: str) -> ShownList:
    """The content of an id, whose signature is not checked.

    Raises:
        ValueError: it has none.
    """
    try:
        return _decoder.decode(_bytes(text.partition(".")[0]))
    except (ValueError, msgspec.MsgspecError) as error:
        raise ValueError(f"Invalid recommendation_id: {_INVALID}") from error


def _signed(content: bytes, user: str) -> bytes:
    return len(content).to_bytes(4, "big") + content + user.encode()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    content = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if _text(content) != text:  # else several texts would be one id
        raise ValueError("not as this service encodes")
    return content
