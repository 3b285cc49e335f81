"""The Redis client of the service: connects, translates errors, checks values that it reads, and has the scripts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.storage import files
from service.storage.errors import InvalidKey, StreamUnavailable
from service.storage.events import ZERO, StreamId

SOCKET_TIMEOUT_S = 5.0  # seconds; longer than any blocking read
REWRITE_TIMEOUT_S = 600.0  # seconds; how long rewrites of the append-only file may take
_POLL_S = 0.05
_AOF_MANIFEST = "appendonlydir/appendonly.aof.manifest"

# KEYS: the stream. ARGV: most entries to copy. Returns false, or, if there are more, the id of the first that is too
# many.
REPACK = """
local entries = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[1] + 1)
if #entries == 0 then return false end
if #entries > tonumber(ARGV[1]) then return entries[#entries][1] end
local last
local about = redis.call('XINFO', 'STREAM', KEYS[1])
for place = 1, #about, 2 do
  if about[place] == 'last-generated-id' then last = about[place + 1] end
end
redis.call('DEL', KEYS[1])
for _, entry in ipairs(entries) do redis.call('XADD', KEYS[1], entry[1], unpack(entry[2])) end
redis.call('XSETID', KEYS[1], last)
return false
"""

# KEYS: the stream. ARGV: the id of the last entry, then field, value, ... of the next one. Returns its id, or false if
# others came.
APPEND_AFTER = """
local about = redis.call('XINFO', 'STREAM', KEYS[1])
for place = 1, #about, 2 do
  if about[place] == 'last-generated-id' and about[place + 1] ~= ARGV[1] then return false end
end
return redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
"""

# KEYS: the id of the run that was verified, and the entries that are offered. ARGV: the id of this run, the seconds
# after which an offer goes, then id, packed fields, ... Returns 1 if this run is verified: the others have gone on.
OFFER = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
for place = 3, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[place], ARGV[place + 1]) end
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 0
"""

# KEYS: the stream. ARGV: the first id.
COUNT = "return #redis.call('XRANGE', KEYS[1], ARGV[1], '+')"

# KEYS: the stream, the trimmed id, a key that never exists. ARGV: the last id to trim, and the id after it. DEL changes
# nothing. At `maxmemory`, Redis refuses SET in a script unless the script has already run a write command that cannot
# take memory. Without DEL, Redis would refuse this script, which frees memory, for lack of memory.
TRIM = """
redis.call('DEL', KEYS[3])
redis.call('SET', KEYS[2], ARGV[1])
redis.call('XTRIM', KEYS[1], 'MINID', '=', ARGV[2])
"""


def connect(url: str) -> Any:
    """A client that returns bytes, waits at most five seconds and never sends a command twice."""
    return redis.Redis.from_url(
        url,
        protocol=2,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=SOCKET_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn every failure of the Redis client into `StreamUnavailable`."""
    try:
        yield
    except redis.RedisError as error:
        raise StreamUnavailable(f"Redis is unavailable: {error}") from error


def rewrite_aof(client: Any, folder: Path) -> None:
    """See `service.storage.streams.stream.Stream.rewrite_aof`."""
    deadline_s = time.monotonic() + REWRITE_TIMEOUT_S
    _await_rewrite(client, deadline_s)  # a running rewrite may still write entries that were trimmed since
    unused = unused_aof_files(folder)
    is_ours = False
    while not is_ours:
        try:
            client.bgrewriteaof()
            is_ours = True
        except redis.ResponseError as error:  # another process, or another data set, has started one meanwhile
            if "already in progress" not in str(error):
                raise
        status = _await_rewrite(client, deadline_s)
    if status != "ok":
        raise StreamUnavailable("Redis could not rewrite its append-only file: its log says why")
    for path in unused & unused_aof_files(folder):
        path.unlink(missing_ok=True)


def _await_rewrite(client: Any, deadline_s: float) -> str:
    """Wait until no rewrite runs; the status of the last one."""
    while True:
        state = client.info("persistence")
        if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]):
            return str(state["aof_last_bgrewrite_status"])
        if time.monotonic() > deadline_s:
            raise StreamUnavailable(f"Redis has not rewritten its file after {REWRITE_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)


def unused_aof_files(folder: Path) -> set[Path]:
    """Append-only files, which name users, that an embedded server left when it was killed during a rewrite.

    Empty if the server keeps its files elsewhere. Call it while no rewrite runs, and remove the files after the next
    rewrite: only then is it certain that no process writes them.
    """
    try:
        manifest = files.read_regular(folder / _AOF_MANIFEST).decode(errors="replace")
    except FileNotFoundError:
        return set()
    # The manifest names files in lines such as `file appendonly.aof.2.base.rdb seq 2 type b`.
    used = {Path(_AOF_MANIFEST).name}.union(*(line.split()[1:2] for line in manifest.splitlines()))
    parts = {path for path in (folder / "appendonlydir").glob("appendonly.aof.*.*") if path.name not in used}
    return parts.union(folder.glob("temp-*"), (folder / "appendonlydir").glob("temp-*"))


def id_of(raw: bytes, stream: str) -> StreamId:
    """The id of an entry of the key `stream`.

    Raises:
        InvalidKey: a part of it is 2^63 or more, which no clock can reach.
    """
    try:
        return StreamId.parse(raw.decode())
    except ValueError:
        raise InvalidKey(
            f"Invalid id in the Redis key {stream}: expected parts below 2^63, got {raw.decode(errors='replace')[:64]};"
            f" another program has added an entry with an explicit id, and no later entry can follow it: copy the"
            f" entries that you need out of {stream} and delete the key"
        ) from None


def last_and_length(client: Any, stream: str) -> tuple[StreamId, int]:
    """The last id that the key `stream` has given out, and how many entries it has. Raises what `id_of` raises."""
    try:
        info = client.xinfo_stream(stream)
    except redis.ResponseError as error:
        if "no such key" not in str(error):
            raise
        return ZERO, 0
    return id_of(info["last-generated-id"], stream), int(info["length"])


def position_of(value: Any, key: str) -> StreamId:
    """Parse the position in a key; `ZERO` if the key does not exist.

    Raises:
        InvalidKey: it holds something else.
    """
    if value is None:
        return ZERO
    text = text_of(value)
    try:
        return StreamId.parse(text)
    except ValueError:
        raise InvalidKey(
            f"Invalid value of the Redis key {key}: expected <ms>-<seq>, got {text[:64]!r}; delete the key, or restore"
            f" its value"
        ) from None


def text_of(value: bytes | str) -> str:
    """A reply of the server as text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
