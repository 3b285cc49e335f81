"""`Batch`: posts ratings, events or items in bodies that the service takes."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from nearfield_client.model import Model
from nearfield_client.problems import refusal
from nearfield_client.retries import REPEATABLE

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_ELEMENTS = 1000  # of one body; the service's default
MAX_BYTES = 900_000  # of one body; below the service's default
MAX_EVENTS_OF_A_USER = 64  # of one body: the service remembers the ids of the last 64 events of each user
N_REJECTED_KEPT = 100
_text_of = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # json.dumps would make one each time


class Rejected(NamedTuple):
    """An element that the service rejected: its position from 0 among those that were added, and why."""

    position: int
    error: str


class Batch:
    """Posts elements in bodies of at most 1,000 elements and 900,000 bytes.

    As a context manager it posts the last body at the end, but not after an error. One thread may use it.

    Attributes:
        accepted: number of elements that the service has accepted; they are on a disk.
        n_rejected, rejected: number of those that it rejected, and the first hundred of them.
        stream_id: position of the last body; None if nothing was accepted yet.
    """

    def __init__(self, connections: httpx.Client, path: str, *, are_events: bool = False) -> None:
        """Post to `path`. Events get an `event_id` if they have none."""
        self._connections, self._path, self._are_events = connections, path, are_events
        self._encoded: list[bytes] = []
        self._n_bytes, self._n_posted = 0, 0
        self._by_user = Counter[str]()
        self.accepted, self.n_rejected = 0, 0
        self.rejected: list[Rejected] = []
        self.stream_id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is None:
            self.flush()

    def add(self, element: Mapping[str, Any] | Model) -> None:
        """Add an element, a mapping as the API takes it or a generated model. A full body is posted first.

        Raises:
            NearfieldError: the service refused the body, or did not answer.
        """
        given = element.to_dict() if isinstance(element, Model) else element
        if self._are_events:
            given = {"event_id": uuid.uuid4().hex, **given}
        encoded = _text_of(given).encode()
        if len(self._encoded) == MAX_ELEMENTS or self._n_bytes + len(encoded) + 2 > MAX_BYTES:
            self.flush()
        if self._are_events:
            self._count(str(given.get("user")))
        self._encoded.append(encoded)
        self._n_bytes += len(encoded) + 1

    def flush(self) -> None:
        """Post what was added; raises what `add` raises. What the service refused is not posted again."""
        if not self._encoded:
            return
        body, n, at = b"[" + b",".join(self._encoded) + b"]", len(self._encoded), self._n_posted
        self._encoded, self._n_bytes, self._n_posted = [], 0, at + n
        self._by_user.clear()
        headers, extensions = {"Content-Type": "application/json"}, {REPEATABLE: True}
        response = self._connections.post(self._path, content=body, headers=headers, extensions=extensions)
        if not response.is_success:
            raise refusal(response)
        answer = response.json()
        self.accepted += answer["accepted"]
        self.n_rejected += len(answer["rejected"])
        room = N_REJECTED_KEPT - len(self.rejected)
        self.rejected += [Rejected(at + bad["index"], bad["error"]) for bad in answer["rejected"][:room]]
        self.stream_id = answer["stream_id"] or self.stream_id

    def _count(self, user: str) -> None:
        """Count an event of a user; the body is posted first if it has as many as the service remembers."""
        if self._by_user[user] == MAX_EVENTS_OF_A_USER:
            self.flush()
        self._by_user[user] += 1
