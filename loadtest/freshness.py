"""Measures freshness: the time from the 202 for a rating to the first list that reflects it.

A probe requests a user's list, rates its first item, and requests the list again until that item is gone from it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from loadtest.client import Answer, Client
from loadtest.driver import percentiles_ms

GIVE_UP_S = 10.0  # seconds after which a probe counts as lost
PROBE_RATING = 5.0
PAUSE_S = 0.1  # seconds between two probes


class Probes:
    """Probes one after the other, of users that no other request uses."""

    def __init__(self, client: Client, users: Sequence[str]) -> None:
        self._client, self._users = client, users
        self._ages_s: list[float] = []
        self._learned_s: list[float] = []
        self._n_lost = self._n_reads = 0

    async def run(self, seconds: float) -> None:
        """Probe for `seconds`."""
        end = time.perf_counter() + seconds
        for user in itertools.cycle(self._users):
            if time.perf_counter() >= end:
                return
            ages_s = await self._ages_of_answer(user)
            if ages_s is None:
                self._n_lost += 1
            else:
                self._ages_s.append(ages_s[0])
                self._learned_s.append(ages_s[1])
            await asyncio.sleep(PAUSE_S)

    def summary(self) -> dict[str, Any]:
        """Number of probes, number of lost ones, and times of the others."""
        return {
            "probes": len(self._ages_s) + self._n_lost,
            "lost": self._n_lost,
            "reads_until_fresh": round(self._n_reads / max(len(self._ages_s), 1), 2),
            "ms": percentiles_ms(self._ages_s),
            "learned_ms": percentiles_ms(self._learned_s),
        }

    async def _ages_of_answer(self, user: str) -> tuple[float, float] | None:
        """Seconds until the item is gone, and until the rating has been learned completely; None if lost."""
        path = f"/recommend/{quote(user, safe='')}?n=10"
        shown = await self._client.get(path)
        if shown.status != 200 or not shown.json()["items"]:
            return None
        first = shown.json()["items"][0]["item"]
        posted = await self._client.post("/ratings", {"user": user, "item": first, "rating": PROBE_RATING})
        accepted = time.perf_counter()
        if posted.status != 202:
            return None
        while time.perf_counter() < accepted + GIVE_UP_S:
            answer = await self._client.get(path)
            self._n_reads += 1
            if answer.status == 200 and all(line["item"] != first for line in answer.json()["items"]):
                age_s = time.perf_counter() - accepted
                learned_s = await _learned_s(self._client, posted, accepted)
                return None if learned_s is None else (age_s, learned_s)
        return None


async def catch_up_s(client: Client, user: str, item: str) -> float | None:
    """Seconds until a rating sent now has been learned; None after `GIVE_UP_S`."""
    posted = await client.post("/ratings", {"user": user, "item": item, "rating": PROBE_RATING})
    return await _learned_s(client, posted, time.perf_counter()) if posted.status == 202 else None


async def _learned_s(client: Client, posted: Answer, accepted: float) -> float | None:
    """Seconds from the time `accepted` until the posted rating has been learned."""
    path = f"/popular?n=1&wait_for={posted.json()['stream_id']}"
    while time.perf_counter() < accepted + GIVE_UP_S:
        if (await client.get(path)).status == 200:
            return time.perf_counter() - accepted
    return None
