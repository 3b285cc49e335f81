"""Cursors of ranked lists: each page names what its reader has seen, and the next one leaves that out.

A cursor is text that the reader carries, so that any replica can go on, also after a restart. It names the model by its
version and holds the rows of all items shown so far. Rows of items are a function of the stream: every replica gives
the same item the same row, for ever. Rows of users are not, because a restart after a forgetting moves them, so a list
of users holds 40 bits of their keys. Their order says nothing, so they are sorted, and the gaps between them are
compressed: then a URL, of at most 16 KiB, has room for most lists. Once opened, what was shown goes the way of
`exclude`: the page is the exact list of the others by the present state. So nothing is repeated, and nothing is passed
over that ranks higher by now.

The signature covers the user and the parameters, which the cursor does not hold. 4 bytes of a checksum of them tell a
cursor of another list from one that was altered.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.base.errors import InvalidRequest, NotReady
from service.base.signing import SIGNATURE_BYTES, Signer
from service.engine.errors import Gone
from service.engine.models.live_models import LiveModels
from service.engine.queries import Items, Neighbors, Recommend, Recommendation
from service.engine.state.history import History
from service.engine.state.id_table import RETIRED

MAX_SHOWN = 10_000  # items or users that a cursor holds; a list ends there
FORMAT = 3  # first byte of a cursor
FORMATS = range(1, 16)  # of all versions, which may sign other bytes
PURPOSE = "cursor"
ITEM_BYTES, USER_BYTES = 4, 5
USER_SHIFT = np.uint64(64 - 8 * USER_BYTES)
CHECKSUM_BYTES = 4
_NEITHER = "Invalid cursor: expected `next` of an earlier page, unaltered, from a service with the same Redis, got {!r}"
_encode = msgspec.msgpack.Encoder(order="sorted").encode


class Shown(NamedTuple):
    """What a cursor says.

    Attributes:
        model, version: of the model that ranked the page; empty if none did.
        numbers: uint64 (S,), rows of the items that were shown, or the first 40 bits of the keys of users.
    """

    model: str
    version: str
    numbers: NDArray[np.uint64]


class Cursors:
    """Opens the cursors of queries, and gives answers the next ones. Belongs to the engine thread."""

    def __init__(self, history: History, live: LiveModels, signer: Signer) -> None:
        self._history, self._live, self._signer = history, live, signer

    def opened(self, query: Items) -> tuple[Items, Shown]:
        """The query for the page, without what was shown and by the model that ranked it; and what its cursor says.

        Raises:
            InvalidRequest: it is altered, or belongs to another list.
            NotReady: there is no key yet, or the model is being prepared.
            Gone: its model is not live any more, or another version of the service made it.
        """
        if getattr(query, "offset", 0):
            raise InvalidRequest("Invalid offset: expected 0 with a cursor, which begins where the page before ended")
        self._signer.check()
        shown = self._read(query) if query.cursor else Shown("", "", np.zeros(0, dtype=np.uint64))
        if shown.version:
            models = {live_model.name: live_model.shown_version for live_model in self._live.all()}
            if shown.model not in models and self._live.is_prepared(shown.model):
                raise NotReady(f"{self._live.described(shown.model)} is being prepared")
            if models.get(shown.model) != shown.version:
                raise Gone(f"the cursor's model {shown.version} is not live any more: begin again with `cursor=`")
        history, numbers = self._history, shown.numbers  # of which this replica may know some alone
        if _size(query) == USER_BYTES:
            rows = np.flatnonzero(np.isin(history.users.keys >> USER_SHIFT, numbers))
            ids = [user for user in history.users.ids(rows.tolist()) if user != RETIRED]
        else:
            ids = history.items.ids(numbers[numbers < len(history.items)].tolist())
        changes: dict[str, Any] = {"cursor": None, "exclude": [*query.exclude, *ids]}
        if isinstance(query, Recommend) and query.pins:  # their places are those of the whole list
            pins = {item: max(place - len(numbers), 1) for item, place in query.pins}
            changes["pins"] = [(item, place) for item, place in pins.items() if item not in set(ids)]
        if shown.model:
            changes["model"] = shown.model
        return msgspec.structs.replace(query, **changes), shown

    def _read(self, query: Items) -> Shown:
        """What the cursor of `query` says, if it is one of ours and of this list; raises what `opened` raises."""
        text, context, begin = query.cursor or "", _context(query), 1 + CHECKSUM_BYTES
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        is_text = base64.urlsafe_b64encode(raw).rstrip(b"=") == text.encode()  # else several texts would be one cursor
        if not is_text or len(raw) < begin + SIGNATURE_BYTES:
            raise InvalidRequest(_NEITHER.format(text[:64]))
        content, signature = raw[:-SIGNATURE_BYTES], raw[-SIGNATURE_BYTES:]
        if content[0] != FORMAT and content[0] in FORMATS:
            raise Gone("the cursor is of another version of the service: begin again with `cursor=`")
        is_ours = self._signer.has_signed(PURPOSE, context + content, signature)
        if not is_ours and content[1:begin] != _checksum(context) and content[0] == FORMAT:
            raise InvalidRequest(
                "Invalid cursor: expected `next` of an earlier page of this list, got one of another user or with other"
                " parameters; only n and explain may change"
            )
        if not is_ours:
            raise InvalidRequest(_NEITHER.format(text[:64]))
        middle = begin + 1 + content[begin]
        end = middle + 1 + content[middle]
        model, version = content[begin + 1 : middle].decode(), content[middle + 1 : end].decode()
        return Shown(model, version, unpacked(content[end:], _size(query)))

    def next(self, query: Items, shown: Shown, answer: Any) -> str | None:
        """The cursor of the page after `answer`; None if there is none."""
        lines = answer.neighbors if hasattr(answer, "neighbors") else answer.items
        if len(lines) < query.n or len(lines) + len(shown.numbers) > MAX_SHOWN:
            return None
        if _size(query) == USER_BYTES:
            rows = np.array(self._history.users.rows([one.user for one in lines]), dtype=np.int64)
            numbers = self._history.users.keys[rows] >> USER_SHIFT
        else:
            numbers = np.array(self._history.items.rows([one.item for one in lines]), dtype=np.uint64)
        is_ranked = not isinstance(answer, Recommendation) or answer.personalized
        model = getattr(answer, "model", None) if is_ranked else None
        names = [(name or "").encode() for name in (model, getattr(answer, "model_version", "") if model else "")]
        context = _context(query)
        content = bytes([FORMAT]) + _checksum(context) + b"".join(bytes([len(name)]) + name for name in names)
        content += packed(np.concatenate([shown.numbers, numbers]), _size(query))
        signature = self._signer.signature(PURPOSE, context + content)
        return base64.urlsafe_b64encode(content + signature).rstrip(b"=").decode()


def _size(query: Items) -> int:
    """Bytes of one item or user that was shown."""
    return USER_BYTES if isinstance(query, Neighbors) and query.kind == "user" else ITEM_BYTES


def _context(query: Items) -> bytes:
    """The list that `query` asks for: everything but the length of a page and what is said of its lines."""
    changes: dict[str, Any] = {"cursor": None, "n": 1}
    if isinstance(query, Recommend):
        changes["explain"] = False
    return _encode(msgspec.structs.replace(query, **changes))


def packed(numbers: NDArray[np.uint64], size: int) -> bytes:
    """The sorted `numbers` of `size` bytes as compressed gaps, byte by byte: the upper ones are nearly all 0."""
    gaps = np.diff(np.sort(numbers), prepend=np.uint64(0)).astype("<u8")
    return zlib.compress(gaps.view(np.uint8).reshape(-1, 8)[:, :size].T.tobytes())


def unpacked(content: bytes, size: int) -> NDArray[np.uint64]:
    """The numbers of `packed`, sorted."""
    gaps = np.frombuffer(zlib.decompress(content), dtype=np.uint8).reshape(size, -1)
    padded = np.zeros((gaps.shape[1], 8), dtype=np.uint8)
    padded[:, :size] = gaps.T
    return np.cumsum(padded.reshape(-1).view("<u8"), dtype=np.uint64)


def _checksum(context: bytes) -> bytes:
    return zlib.crc32(context).to_bytes(CHECKSUM_BYTES, "little")
