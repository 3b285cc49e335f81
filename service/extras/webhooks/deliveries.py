"""`Deliveries`: what is to be delivered to webhooks, in Redis. Scripts decide, so that replicas share the work.

nearfield:jobs:ended         list of ids of jobs that have ended, oldest first; `service.jobs.table` adds to it
nearfield:webhooks:due       sorted set of deliveries, `<webhook>-<job>`, by the time of the next attempt
nearfield:webhooks:attempts  hash, delivery -> attempts that were begun
nearfield:webhooks:last      hash, webhook -> its last attempt that ended, as JSON
nearfield:webhooks:counts    hash, `<webhook>-<outcome>` -> how many deliveries ended so

These are the names of the default data set (`service.settings.keyspace`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

import msgspec

from service.settings.keyspace import DEFAULT, Keyspace
from service.storage.streams.redis_client import connect, translated

LEASE_MS = 30_000  # milliseconds; longer than an attempt. Then another process may begin the next one.

Outcome = Literal["delivered", "failed", "given-up"]

# Shared by all scripts. KEYS: `Keyspace.jobs`, `Keyspace.webhooks`. Redis has the time: clocks of replicas differ.
_COMMON = """
local ENDED, W = KEYS[1] .. 's:ended', KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function remove(delivery)
  redis.call('ZREM', W .. ':due', delivery)
  redis.call('HDEL', W .. ':attempts', delivery)
end
local function hook(delivery) return string.match(delivery, '^[^-]*') end
"""

# ARGV: lease in ms, then busy webhooks. Returns a job that has ended; else a delivery and its attempt; else {}.
_NEXT = """
local ended = redis.call('LINDEX', ENDED, 0)
if ended then return {ended} end
local busy = {}
for place = 2, #ARGV do busy[ARGV[place]] = true end
for _, delivery in ipairs(redis.call('ZRANGEBYSCORE', W .. ':due', '-inf', now)) do
  if not busy[hook(delivery)] then
    redis.call('ZADD', W .. ':due', now + ARGV[1], delivery)
    return {delivery, redis.call('HINCRBY', W .. ':attempts', delivery, 1)}
  end
end
return {}
"""

# ARGV: the first job of `ended`, webhooks. Another process may have been first.
_SHARE = """
if redis.call('LINDEX', ENDED, 0) ~= ARGV[1] then return end
for place = 2, #ARGV do redis.call('ZADD', W .. ':due', 'NX', now, ARGV[place] .. '-' .. ARGV[1]) end
redis.call('LPOP', ENDED)
"""

# ARGV: delivery, attempt, outcome, ms until the next attempt or '', the attempt as JSON.
_SETTLE = """
local delivery, outcome = ARGV[1], ARGV[3]
if redis.call('HGET', W .. ':attempts', delivery) ~= ARGV[2] then return end
if ARGV[4] == '' then remove(delivery) else redis.call('ZADD', W .. ':due', now + ARGV[4], delivery) end
redis.call('HSET', W .. ':last', hook(delivery), ARGV[5])
if ARGV[4] == '' then redis.call('HINCRBY', W .. ':counts', hook(delivery) .. '-' .. outcome, 1) end
"""

# ARGV: delivery, attempt. It is due at once, as if this attempt had not ended.
_RETURN = """
if redis.call('HGET', W .. ':attempts', ARGV[1]) == ARGV[2] then redis.call('ZADD', W .. ':due', now, ARGV[1]) end
"""

# ARGV: deliveries.
_REMOVE = "for _, delivery in ipairs(ARGV) do remove(delivery) end"

# ARGV: a webhook, then outcomes.
_FORGET = """
for _, delivery in ipairs(redis.call('ZRANGE', W .. ':due', 0, -1)) do
  if hook(delivery) == ARGV[1] then remove(delivery) end
end
redis.call('HDEL', W .. ':last', ARGV[1])
for place = 2, #ARGV do redis.call('HDEL', W .. ':counts', ARGV[1] .. '-' .. ARGV[place]) end
"""


class Attempt(msgspec.Struct):
    """An attempt that has ended.

    Attributes:
        job: whose end was told.
        attempt: its number, from 1.
        outcome: `delivered`, `failed` (the next attempt follows), or `given-up`.
        error: why it was not delivered.
        ended_ms: Unix milliseconds.
    """

    job: str
    attempt: int
    outcome: Outcome
    error: str | None
    ended_ms: int


class Claimed(NamedTuple):
    """A delivery that this process attempts now, for the `attempt`-th time."""

    webhook: str
    job: str
    attempt: int

    @property
    def id(self) -> str:
        """The same in all attempts."""
        return f"{self.webhook}-{self.job}"


class DeliveryProgress(NamedTuple):
    """What became of the deliveries of one webhook.

    Attributes:
        waiting: deliveries that have not ended.
        next_ms: Unix milliseconds of the next attempt; None if none waits.
        delivered, given_up: deliveries that have ended.
        last: the last attempt; None before it.
    """

    waiting: int
    next_ms: int | None
    delivered: int
    given_up: int
    last: Attempt | None


class Deliveries:
    """Takes over jobs that have ended, and leases deliveries. Safe from any thread; may raise `StreamUnavailable`."""

    def __init__(self, url: str, keys: Keyspace = DEFAULT) -> None:
        self._client, self._keys = connect(url), [keys.jobs, keys.webhooks]
        bodies = (_NEXT, _SHARE, _SETTLE, _RETURN, _REMOVE, _FORGET)
        scripts = [self._client.register_script(_COMMON + body) for body in bodies]
        self._next, self._share, self._settle, self._return, self._remove, self._forget = scripts

    def next(self, busy: Collection[str]) -> Claimed | str | None:
        """What is to be done first.

        Returns:
            The id of a job that has ended, for `share`; else a delivery that is due, leased for half a minute, of a
            webhook that is not `busy`; else None.
        """
        with translated():
            reply = self._next(keys=self._keys, args=[LEASE_MS, *busy])
        if len(reply) < 2:
            return reply[0].decode() if reply else None
        webhook, _, job = reply[0].decode().partition("-")
        return Claimed(webhook, job, reply[1])

    def share(self, job: str, webhooks: Iterable[str]) -> None:
        """Make the deliveries of a job that `next` has returned: one for each webhook, due at once."""
        with translated():
            self._share(keys=self._keys, args=[job, *webhooks])

    def settle(self, claimed: Claimed, attempt: Attempt, retry_ms: int | None) -> None:
        """End an attempt; the next one begins after `retry_ms`, or never. No change if the lease was lost."""
        after = "" if retry_ms is None else retry_ms
        record = msgspec.json.encode(attempt)
        with translated():
            self._settle(keys=self._keys, args=[claimed.id, claimed.attempt, attempt.outcome, after, record])

    def put_back(self, claimed: Claimed) -> None:
        """Let any process begin the next attempt now."""
        with translated():
            self._return(keys=self._keys, args=[claimed.id, claimed.attempt])

    def drop(self, claimed: Claimed) -> None:
        """End a delivery that has nothing to tell."""
        with translated():
            self._remove(keys=self._keys, args=[claimed.id])

    def forget(self, webhook: str) -> None:
        """Remove all that is known of a webhook."""
        with translated():
            self._forget(keys=self._keys, args=[webhook, *Outcome.__args__])  # type: ignore[attr-defined]

    def progress(self, webhooks: Iterable[str]) -> dict[str, DeliveryProgress]:
        """What became of the deliveries of each of these webhooks."""
        with translated():
            pipeline = self._client.pipeline()
            pipeline.zrange(f"{self._keys[1]}:due", 0, -1, withscores=True)
            pipeline.hgetall(f"{self._keys[1]}:last")
            pipeline.hgetall(f"{self._keys[1]}:counts")
            due, last, counts = pipeline.execute()
        times: dict[str, list[int]] = {}
        for delivery, due_ms in due:
            times.setdefault(delivery.decode().partition("-")[0], []).append(int(due_ms))
        return {
            webhook: DeliveryProgress(
                len(times.get(webhook, [])),
                min(times.get(webhook, []), default=None),
                int(counts.get(f"{webhook}-delivered".encode(), 0)),
                int(counts.get(f"{webhook}-given-up".encode(), 0)),
                msgspec.json.decode(last.get(webhook.encode(), b"null"), type=Attempt | None),
            )
            for webhook in webhooks
        }

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
