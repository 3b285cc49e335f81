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
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.base.errors import InvalidRequest, NotReady
from service.base.signing import SIGNATURE_BYTES
from service.engine.errors import Gone
from service.engine.lists.ranking import Ranking
from service.engine.queries import Items, Neighbors, Query, Recommend, Recommendation
from service.engine.state.history import History
from service.engine.state.id_table import RETIRED
from service.storage.events import StreamId

BEGIN = ""  # the cursor that asks for a first page
MAX_SHOWN = 10_000  # items or users that a cursor holds; a list ends there
FORMAT = 3  # first byte of a cursor
FORMATS = range(1, 16)  # of all versions, which may sign other bytes
PURPOSE = "cursor"
ITEM_BYTES, USER_BYTES = 4, 5
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
    """Answers queries by a `Ranking`, page after page for those with a cursor. Belongs to the engine thread."""

    def __init__(self, history: History, ranking: Ranking) -> None:
        self._history, self._ranking, self._signer = history, ranking, ranking.signer

    def answer(self, queries: Sequence[Query], as_of: StreamId) -> list[Any]:
        """The answer, or the exception, for each query; see `Ranking.answer`."""
        paged = [n for n, query in enumerate(queries) if isinstance(query, Items) and query.cursor is not None]
        if not paged:
            return self._ranking.answer(queries, as_of)
        opened: list[Any] = list(queries)
        shown: dict[int, Shown] = {}
        for n in paged:
            try:
                shown[n] = self._opened(opened[n])
                opened[n] = self._without(opened[n], shown[n])
            except Exception as error:  # becomes the answer of this query; the others are answered
                opened[n] = error
        rest = [n for n, query in enumerate(opened) if not isinstance(query, Exception)]
        found = self._ranking.answer([opened[n] for n in rest], as_of)
        answers = opened
        for n, one in zip(rest, found, strict=True):
            answers[n] = one
            if n in shown and not isinstance(one, Exception):
                one.next = self._next(queries[n], shown[n], one)
        return answers

    def _opened(self, query: Items) -> Shown:
        """What the cursor of `query` says.

        Raises:
            InvalidRequest: it is altered, or belongs to another list.
            NotReady: there is no key yet, or the model is being prepared.
            Gone: its model is not live any more, or another version of the service made it.
        """
        text = query.cursor or BEGIN
        if getattr(query, "offset", 0):
            raise InvalidRequest("Invalid offset: expected 0 with a cursor, which begins where the page before ended")
        self._signer.check()
        if text == BEGIN:
            return Shown("", "", np.zeros(0, dtype=np.uint64))
        raw, context = _decoded(text), _context(query)
        content, signature = raw[:-SIGNATURE_BYTES], raw[-SIGNATURE_BYTES:]
        if content[0] != FORMAT and content[0] in FORMATS:
            raise Gone("the cursor is of another version of the service: begin again with `cursor=`")
        is_ours = self._signer.has_signed(PURPOSE, context + content, signature)
        if not is_ours and content[1 : 1 + CHECKSUM_BYTES] != _checksum(context) and content[0] == FORMAT:
            raise InvalidRequest(
                "Invalid cursor: expected `next` of an earlier page of this list, got one of another user or with other"
                " parameters; only n and explain may change"
            )
        if not is_ours:
            raise InvalidRequest(_NEITHER.format(text[:64]))
        shown = _parsed(content, _size(query))
        if shown.version:
            self._check_live(shown)
        return shown

    def _check_live(self, shown: Shown) -> None:
        models = {live_model.name: live_model.shown_version for live_model in self._ranking.models()}
        if shown.model not in models and self._ranking.live.is_prepared(shown.model):
            raise NotReady(f"{self._ranking.live.described(shown.model)} is being prepared")
        if models.get(shown.model) != shown.version:
            raise Gone(f"the cursor's model {shown.version} is not live any more: begin again with `cursor=`")

    def _without(self, query: Items, shown: Shown) -> Items:
        """The query for the page: without what was shown, by the model that ranked it."""
        ids = self._ids(query, shown)
        changes: dict[str, Any] = {"cursor": None, "exclude": [*query.exclude, *ids]}
        if isinstance(query, Recommend) and query.pins:  # their places are those of the whole list
            pins = {item: max(place - len(shown.numbers), 1) for item, place in query.pins}
            changes["pins"] = [(item, place) for item, place in pins.items() if item not in set(ids)]
        if shown.model:
            changes["model"] = shown.model
        changed: Items = msgspec.structs.replace(query, **changes)
        return changed

    def _ids(self, query: Items, shown: Shown) -> list[str]:
        """The ids of what was shown, as far as this replica knows them."""
        history, numbers = self._history, shown.numbers
        if _is_of_users(query):
            rows = np.flatnonzero(np.isin(history.users.keys >> np.uint64(64 - 8 * USER_BYTES), numbers))
            return [user for user in history.users.ids(rows.tolist()) if user != RETIRED]
        return history.items.ids(numbers[numbers < len(history.items)].tolist())

    def _next(self, query: Any, shown: Shown, answer: Any) -> str | None:
        """The cursor of the next page; None if there is none."""
        found = _lines(answer)
        if len(found) < query.n or len(found) + len(shown.numbers) > MAX_SHOWN:
            return None
        if _is_of_users(query):
            rows = [self._history.users.row(one.user) for one in found]
            numbers = self._history.users.keys[np.array(rows, dtype=np.int64)] >> np.uint64(64 - 8 * USER_BYTES)
        else:
            numbers = np.array([self._history.items.row(one.item) for one in found], dtype=np.uint64)
        is_ranked = not isinstance(answer, Recommendation) or answer.personalized
        model = getattr(answer, "model", None) if is_ranked else None
        names = [(name or "").encode() for name in (model, getattr(answer, "model_version", "") if model else "")]
        context = _context(query)
        content = bytes([FORMAT]) + _checksum(context) + b"".join(bytes([len(name)]) + name for name in names)
        content += _packed(np.concatenate([shown.numbers, numbers]), _size(query))
        signature = self._signer.signature(PURPOSE, context + content)
        return base64.urlsafe_b64encode(content + signature).rstrip(b"=").decode()


def _is_of_users(query: Items) -> bool:
    return isinstance(query, Neighbors) and query.kind == "user"


def _size(query: Items) -> int:
    """Bytes of one item or user that was shown."""
    return USER_BYTES if _is_of_users(query) else ITEM_BYTES


def _lines(answer: Any) -> list[Any]:
    lines: list[Any] = answer.neighbors if hasattr(answer, "neighbors") else answer.items
    return lines


def _context(query: Items) -> bytes:
    """The list that `query` asks for: everything but the length of a page and what is said of its lines."""
    changes: dict[str, Any] = {"cursor": None, "n": 1}
    if isinstance(query, Recommend):
        changes["explain"] = False
    return _encode(msgspec.structs.replace(query, **changes))


def _checksum(context: bytes) -> bytes:
    return zlib.crc32(context).to_bytes(CHECKSUM_BYTES, "little")


def _decoded(text: str) -> bytes:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != text.encode():  # else several texts would be one cursor
        raw = b""
    if len(raw) < 1 + CHECKSUM_BYTES + SIGNATURE_BYTES:
        raise InvalidRequest(_NEITHER.format(text[:64]))
    return raw


def _parsed(content: bytes, size: int) -> Shown:
    """The parts of a cursor whose signature is right."""
    begin = 1 + CHECKSUM_BYTES
    middle = begin + 1 + content[begin]
    end = middle + 1 + content[middle]
    model, version = content[begin + 1 : middle].decode(), content[middle + 1 : end].decode()
    return Shown(model, version, _unpacked(content[end:], size))


def _packed(numbers: NDArray[np.uint64], size: int) -> bytes:
    """The sorted `numbers` of `size` bytes as compressed gaps, byte by byte: the upper ones are nearly all 0."""
    gaps = np.diff(np.sort(numbers), prepend=np.uint64(0)).astype("<u8")
    return zlib.compress(gaps.view(np.uint8).reshape(-1, 8)[:, :size].T.tobytes())


def _unpacked(packed: bytes, size: int) -> NDArray[np.uint64]:
    gaps = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(size, -1)
    padded = np.zeros((gaps.shape[1], 8), dtype=np.uint8)
    padded[:, :size] = gaps.T
    return np.cumsum(padded.reshape(-1).view("<u8"), dtype=np.uint64)
