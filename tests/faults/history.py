"""`History`: what clients asked a service and what they were told, with the moments of both."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import NamedTuple

import httpx

from service.storage.events import ZERO, StreamId

USERS, ITEMS = ("ann", "bob", "cy", "dan"), ("a", "b", "c")
KNOWN = "known"  # an item that each user has rated first, and keeps: users without ratings are unknown
WAIT_S, TIMEOUT_S = 0.02, 30.0


class Write(NamedTuple):
    """A rating that was posted, or deleted: then it is None.

    Attributes:
        position: of the acknowledged entry; None: the client was told nothing, or an error.
    """

    user: str
    item: str
    rating: float | None
    began_s: float
    ended_s: float
    position: StreamId | None


class Read(NamedTuple):
    """The ratings of a user.

    Attributes:
        client: who has asked which service; a client asks one thing at a time.
        wait_for: the position that the client has named.
        ratings: by item.
    """

    client: str
    user: str
    began_s: float
    ended_s: float
    wait_for: StreamId
    as_of: StreamId
    ratings: dict[str, float]


class History(NamedTuple):
    """All that clients did, each in its order."""

    writes: list[Write]
    reads: list[Read]


class Clients:
    """Clients that write and read at once until `stop`; each asks any of the services, whatever fails meanwhile."""

    def __init__(self, urls: Sequence[str], n: int, seed: int) -> None:
        self.history = History([], [])
        self._urls, self._is_over = urls, threading.Event()
        with httpx.Client(base_url=urls[0], timeout=TIMEOUT_S) as service:
            for number, user in enumerate(USERS):
                self._write(service, user, KNOWN, -1.0 - number)
        self._pool = ThreadPoolExecutor(n)
        self._clients = [self._pool.submit(self._run, number, seed) for number in range(n)]

    def stop(self) -> History:
        """What they have done; raises what a client has met that no fault explains."""
        self._is_over.set()
        self._pool.shutdown()
        for client in self._clients:
            client.result()
        return self.history

    def _run(self, number: int, seed: int) -> None:
        chance, last = Random(f"{seed} {number}"), self.history.writes[len(USERS) - 1].position or ZERO
        with contextlib.ExitStack() as opened:
            services = [opened.enter_context(httpx.Client(base_url=url, timeout=TIMEOUT_S)) for url in self._urls]
            for count in itertools.count():
                place, user = chance.randrange(len(services)), chance.choice(USERS)
                if self._is_over.wait(WAIT_S * chance.random()):
                    break
                if chance.random() < 0.5:
                    rating = None if chance.random() < 0.1 else float(10_000 * number + count)  # no two are equal
                    last = self._write(services[place], user, chance.choice(ITEMS), rating) or last
                else:
                    self._read(services[place], f"{number} of {place}", user, last)

    def _write(self, service: httpx.Client, user: str, item: str, rating: float | None) -> StreamId | None:
        began_s, position = time.monotonic(), None
        try:
            if rating is None:
                answer = service.delete(f"/ratings/{user}/{item}")
            else:
                answer = service.post("/ratings", json={"user": user, "item": item, "rating": rating})
            assert answer.status_code in (202, 503), answer.text
            position = StreamId.parse(answer.json()["stream_id"]) if answer.status_code == 202 else None
        except httpx.TransportError:
            """It is unknown whether the rating was stored."""
        self.history.writes.append(Write(user, item, rating, began_s, time.monotonic(), position))
        return position

    def _read(self, service: httpx.Client, client: str, user: str, wait_for: StreamId) -> None:
        began_s = time.monotonic()
        try:
            answer = service.get(f"/users/{user}/ratings", params={"n": len(ITEMS) + 1, "wait_for": str(wait_for)})
        except httpx.TransportError:
            return
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 200:
            content, ended_s = answer.json(), time.monotonic()
            ratings = {rating["item"]: rating["rating"] for rating in content["ratings"]}
            as_of = StreamId.parse(content["as_of"])
            self.history.reads.append(Read(client, user, began_s, ended_s, wait_for, as_of, ratings))
