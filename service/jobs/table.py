"""`JobTable`: jobs as hashes in Redis. One script makes each decision about a job, so that no two processes race.

nearfield:job:<id>        hash, one job: id, kind, state, created_ms, cancel, worker, error and the fields of its kind
nearfield:job:<id>:lease  string with expiry, the worker that runs it
nearfield:jobs            sorted set of ids by order of creation, counted by nearfield:jobs:count
nearfield:jobs:queue      list of queued ids, oldest first
nearfield:jobs:running    set of running ids
nearfield:jobs:ended         list of ids of jobs that have ended, which `service.extras.webhooks.deliveries` takes
nearfield:jobs:orders        list of what replicas that follow a store want of the worker, see `service.jobs.orders`
nearfield:jobs:wake          channel of jobs that were submitted or have ended; each worker listens to it
nearfield:jobs:worker        string with expiry, of a worker whose rights do not allow it to listen

These are the names of the default data set (`service.settings.keyspace`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import redis
from redis.exceptions import NoPermissionError

from service.jobs.errors import UnknownJob
from service.settings.keyspace import DEFAULT, Keyspace
from service.storage.streams.redis_client import connect, translated

LEASE_MS = 10_000  # milliseconds; a worker that does not renew its lease in this time loses the job
MAX_JOBS = 200  # jobs; the oldest finished ones are dropped
MAX_DEATHS = 5  # workers that may die during a forgetting before it fails
BEGUN = "begun_ms"  # field of trainings: Unix milliseconds at which the trainer was started
QUERY = "query"  # field of lists until they end: a `Recommend` as JSON, which may name users
SCENARIO = "scenario"  # field of lists that have no query, but are by this scenario
NAMED_FORGOTTEN = "removed: it named a user who was forgotten"

FinalState = Literal["succeeded", "failed", "cancelled"]
JobFields = dict[str, str]

# Shared by all scripts. KEYS[1] is `Keyspace.jobs`; scripts may build keys from it, because there is only one server.
_COMMON = (
    """
local P = KEYS[1]
local function key(id) return P .. ':' .. id end
local function state(id) return redis.call('HGET', key(id), 'state') end
local function kind(id) return redis.call('HGET', key(id), 'kind') end
local function finish(id, to, ...)
  redis.call('HSET', key(id), 'state', to, ...)
  if kind(id) == 'forget' then redis.call('HSET', key(id), 'user', '') end
  redis.call('HDEL', key(id), 'QUERY')
  redis.call('DEL', key(id) .. ':lease')
  redis.call('SREM', P .. 's:running', id)
  redis.call('LREM', P .. 's:queue', 0, id)
  redis.call('RPUSH', P .. 's:ended', id)
  redis.call('LTRIM', P .. 's:ended', -MAX_JOBS, -1)
  redis.pcall('PUBLISH', P .. 's:wake', id)
end
local function requeue(id)
  redis.call('HSET', key(id), 'state', 'queued')
  redis.call('HDEL', key(id), 'worker')
  redis.call('DEL', key(id) .. ':lease')
  redis.call('SREM', P .. 's:running', id)
  redis.call('LPUSH', P .. 's:queue', id)
end
local function bury(id)
  local n = redis.call('HINCRBY', key(id), 'deaths', 1)
  if kind(id) ~= 'forget' then finish(id, 'failed', 'error', 'worker died')
  elseif redis.call('HEXISTS', key(id), 'cancel') == 1 then finish(id, 'cancelled')
  elseif n < MAX_DEATHS then requeue(id)
  else finish(id, 'failed', 'error', 'worker died ' .. n .. ' times: look at its log, then DELETE the user again') end
end
for _, id in ipairs(redis.call('SMEMBERS', P .. 's:running')) do
  if redis.call('EXISTS', key(id) .. ':lease') == 0 then bury(id) end
end
""".replace("MAX_DEATHS", str(MAX_DEATHS))
    .replace("MAX_JOBS", str(MAX_JOBS))
    .replace("QUERY", QUERY)
)

# ARGV: id, now in ms, most jobs, n, then field, value, ...; returns the id of the queued job. That is another one if it
# waits already with the same values of the first n fields, and it gets the further ones. A job of the same id stays.
_SUBMIT = """
if state(ARGV[1]) then return ARGV[1] end
local further = 5 + 2 * ARGV[4]
for _, id in ipairs(further > 5 and redis.call('LRANGE', P .. 's:queue', 0, -1) or {}) do
  local is_same = true
  for n = 5, further - 1, 2 do is_same = is_same and redis.call('HGET', key(id), ARGV[n]) == ARGV[n + 1] end
  if is_same then
    if ARGV[further] then redis.call('HSET', key(id), unpack(ARGV, further)) end
    return id
  end
end
redis.call('HSET', key(ARGV[1]), 'id', ARGV[1], 'state', 'queued', 'created_ms', ARGV[2], unpack(ARGV, 5))
redis.call('ZADD', P .. 's', redis.call('INCR', P .. 's:count'), ARGV[1])
redis.call('RPUSH', P .. 's:queue', ARGV[1])
redis.pcall('PUBLISH', P .. 's:wake', ARGV[1])
for _, id in ipairs(redis.call('ZRANGE', P .. 's', 0, -1 - ARGV[3])) do
  if state(id) ~= 'queued' and state(id) ~= 'running' then
    redis.call('ZREM', P .. 's', id)
    redis.call('DEL', key(id))
  end
end
return ARGV[1]
"""

# ARGV: worker, lease in ms, now in ms; returns the id of the oldest queued job that may run. A forgetting runs alone,
# and one training at a time: other jobs go past those that wait for it.
_CLAIM = """
local running, trains = redis.call('SMEMBERS', P .. 's:running'), false
for _, other in ipairs(running) do
  if kind(other) == 'forget' then return false end
  trains = trains or kind(other) == 'train'
end
for _, id in ipairs(redis.call('LRANGE', P .. 's:queue', 0, -1)) do
  if kind(id) == 'forget' and #running > 0 then return false end
  if kind(id) ~= 'train' or not trains then
    redis.call('LREM', P .. 's:queue', 1, id)
    redis.call('HSET', key(id), 'state', 'running', 'worker', ARGV[1], 'started_ms', ARGV[3])
    redis.call('SET', key(id) .. ':lease', ARGV[1], 'PX', ARGV[2])
    redis.call('SADD', P .. 's:running', id)
    return id
  end
end
return false
"""

# ARGV: id, worker, lease in ms, field, value, ...; returns whether the worker still has the job.
_RENEW = """
local id = ARGV[1]
if state(id) ~= 'running' or redis.call('HGET', key(id), 'worker') ~= ARGV[2] then return 0 end
redis.call('PEXPIRE', key(id) .. ':lease', ARGV[3])
if #ARGV > 3 then redis.call('HSET', key(id), unpack(ARGV, 4)) end
return 1
"""

# ARGV: id, worker; returns whether the worker still had the job.
_RELEASE = """
local id = ARGV[1]
if state(id) ~= 'running' or redis.call('HGET', key(id), 'worker') ~= ARGV[2] then return 0 end
if redis.call('HEXISTS', key(id), 'cancel') == 1 then finish(id, 'cancelled') else requeue(id) end
return 1
"""

# ARGV: id, worker, final state, field, value, ...; returns whether the worker still had the job.
_FINISH = """
local id = ARGV[1]
if state(id) ~= 'running' or redis.call('HGET', key(id), 'worker') ~= ARGV[2] then return 0 end
finish(id, ARGV[3], unpack(ARGV, 4))
return 1
"""

# ARGV: id; ends a queued job, marks a running one for its worker; returns whether the job exists.
_CANCEL = """
local id = ARGV[1]
if state(id) == 'queued' then finish(id, 'cancelled') end
if state(id) == 'running' then redis.call('HSET', key(id), 'cancel', '1') end
return redis.call('EXISTS', key(id))
"""

_GET = "return redis.call('HGETALL', key(ARGV[1]))"
_LIST = "return redis.call('ZREVRANGE', P .. 's', 0, -1)"


class JobTable:
    """Submits, claims, renews, finishes and cancels jobs. Safe from any thread; methods may raise `StreamUnavailable`.

    At the next call of any method, a running job whose lease has expired fails with the error "worker died". A
    forgetting goes back to the head of the queue instead, until five workers have died during it. A finished forgetting
    does not name its user, nor do finished lists.
    """

    def __init__(self, url: str, keys: Keyspace = DEFAULT) -> None:
        self._client, self._prefix = connect(url), keys.jobs
        self._wake = f"{keys.jobs}s:wake"
        self._waking: Any = None
        self._may_listen = True
        bodies = (_SUBMIT, _CLAIM, _RENEW, _FINISH, _CANCEL, _GET, _LIST)
        scripts = [self._client.register_script(_COMMON + body) for body in bodies]
        self._submit, self._claim, self._renew, self._finish, self._cancel, self._get, self._list = scripts
        self._release = self._client.register_script(_COMMON + _RELEASE)

    def submit(
        self, job_id: str, fields: Mapping[str, str], further: Mapping[str, str] = {}, *, once: bool = False
    ) -> str:
        """Queue a job, and return its id.

        Args:
            job_id: unique; if there is a job with this id, it stays as it is.
            fields: what was asked for, at least `kind`.
            further: fields of this request.
            once: if a job with the same `fields` waits already, it gets `further`, and its id is returned.
        """
        arguments = [job_id, now_ms(), MAX_JOBS, len(fields) if once else 0, *flat(fields), *flat(further)]
        with translated():
            queued: bytes = self._submit(keys=[self._prefix], args=arguments)
        return queued.decode()

    def claim(self, worker: str) -> JobFields | None:
        """Take the oldest queued job that may run, with a lease of ten seconds; None if there is none."""
        with translated():
            job_id = self._claim(keys=[self._prefix], args=[worker, LEASE_MS, now_ms()])
        return self.get(job_id.decode()) if job_id else None

    def renew(self, job_id: str, worker: str, fields: Mapping[str, str] | None = None) -> bool:
        """Extend the lease and publish `fields`; False if the worker has lost the job and must stop."""
        with translated():
            return bool(self._renew(keys=[self._prefix], args=[job_id, worker, LEASE_MS, *flat(fields or {})]))

    def finish(self, job_id: str, worker: str, state: FinalState, fields: Mapping[str, str]) -> bool:
        """End the job with these results; False (and no change) if the worker has lost it."""
        arguments = [job_id, worker, state, *flat({"finished_ms": str(now_ms()), **fields})]
        with translated():
            return bool(self._finish(keys=[self._prefix], args=arguments))

    def release(self, job_id: str, worker: str) -> bool:
        """Put a running job back at the head of the queue; False (and no change) if the worker has lost it."""
        with translated():
            return bool(self._release(keys=[self._prefix], args=[job_id, worker]))

    def drop_name(self, job_id: str, user: str) -> None:
        """Remove `user` from this forgetting, queued lists and texts of finished jobs, which Redis keeps on disk."""
        with translated():
            for job in self.all():
                key, has_ended = f"{self._prefix}:{job['id']}", job["state"] not in ("queued", "running")
                if job["id"] == job_id or (has_ended and job.get("user") == user):
                    self._client.hset(key, "user", "")
                query = msgspec.json.decode(job.get(QUERY, "{}"))
                if user in (query.get("users") or ()):
                    query["users"] = [other for other in query["users"] if other != user]
                    self._client.hset(key, QUERY, msgspec.json.encode(query))
                for field in ("error", "reason") if has_ended else ():
                    if repr(user) in job.get(field, ""):
                        self._client.hset(key, field, NAMED_FORGOTTEN)

    def cancel(self, job_id: str) -> JobFields:
        """Cancel a queued job at once; for a running one set the field `cancel`, which its worker polls.

        Raises:
            UnknownJob: there is no such job.
        """
        with translated():
            self._cancel(keys=[self._prefix], args=[job_id])
        return self.get(job_id)

    def get(self, job_id: str) -> JobFields:
        """All fields of a job.

        Raises:
            UnknownJob: there is no such job.
        """
        with translated():
            reply = self._get(keys=[self._prefix], args=[job_id])
        if not reply:
            raise UnknownJob(f"Invalid job: expected the id of a job, got {job_id[:64]!r}")
        return fields_of(dict(zip(reply[::2], reply[1::2], strict=True)))

    def wait(self, timeout_s: float) -> bool:
        """Wait until a job is submitted or has ended, or for `timeout_s`; return whether. For one thread: the worker's.

        From the first call on the worker counts for `has_worker`. Nothing is written, so that waiting costs no fsync.
        """
        with translated():
            if self._waking is not None:
                try:
                    return self._waking.get_message(timeout=timeout_s) is not None
                except NoPermissionError:  # rights of before there was the channel
                    self._may_listen = False
                except redis.RedisError:
                    self._waking.close()
                    self._waking = None
                    raise
                self._waking.close()
                self._waking = None
                return False
            if not self._may_listen:
                self._client.set(f"{self._prefix}s:worker", "", px=LEASE_MS)
                time.sleep(timeout_s)
                return False
            self._waking = self._client.pubsub(ignore_subscribe_messages=True)
            self._waking.subscribe(self._wake)
            return True  # a job may have been submitted before

    def has_worker(self) -> bool:
        """Whether any worker waits for jobs, or works on one."""
        with translated():
            listens = any(n_workers for _, n_workers in self._client.pubsub_numsub(self._wake))
            return listens or bool(self._client.exists(f"{self._prefix}s:worker"))

    def all(self) -> list[JobFields]:
        """All jobs, newest first."""
        with translated():
            pipeline = self._client.pipeline(transaction=False)
            for raw in self._list(keys=[self._prefix]):
                pipeline.hgetall(f"{self._prefix}:{raw.decode()}")
            return [fields_of(fields) for fields in pipeline.execute() if fields]

    def order(self, text: str) -> None:
        """Leave an order for the worker. Raises `StreamUnavailable`."""
        with translated():
            self._client.rpush(f"{self._prefix}s:orders", text)

    def next_order(self) -> str | None:
        """The oldest order, which stays until `drop_order`; None if there is none. Raises `StreamUnavailable`."""
        with translated():
            order = self._client.lindex(f"{self._prefix}s:orders", 0)
        return None if order is None else order.decode()

    def drop_order(self, text: str) -> None:
        """Remove an order that is done. Raises `StreamUnavailable`."""
        with translated():
            self._client.lrem(f"{self._prefix}s:orders", 1, text)

    def close(self) -> None:
        """Close the connections."""
        if self._waking is not None:
            self._waking.close()
        self._client.close()


def name_of(job: JobFields) -> str:
    """The name of the model of a training; jobs of older versions have none but the algorithm."""
    return job.get("name", job["algorithm"])


def is_shadow(job: JobFields) -> bool:
    """Whether the model of a training becomes a shadow."""
    return job.get("shadow") == "1"


def fields_of(raw: dict[bytes, bytes]) -> JobFields:
    """The fields of a job as Redis has them."""
    return {name.decode(): value.decode() for name, value in raw.items()}


def flat(fields: Mapping[str, str]) -> list[str]:
    """Names and values as arguments of a script."""
    return [part for pair in fields.items() for part in pair]


def now_ms() -> int:
    """The present time in Unix milliseconds."""
    return int(time.time() * 1000)
