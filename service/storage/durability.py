"""What a Redis server must be set to before it counts as durable."""

from __future__ import annotations

from collections.abc import Mapping

from service.errors import VolatileServer
from service.settings import AppendFsync

_FSYNC_STRENGTH = {"no": 0, "everysec": 1, "always": 2}


def refuse_volatile(found: Mapping[str, str], appendfsync: AppendFsync) -> None:
    """Return if a server with the settings `found` loses nothing that it acknowledges.

    Args:
        found: appendonly, appendfsync, maxmemory and maxmemory-policy.
        appendfsync: the weakest policy that counts.

    Raises:
        VolatileServer: persistence is off, weaker than asked for, or entries may be evicted.
    """
    if found["appendonly"] != "yes":
        # CONFIG SET is not enough: until its first rewrite is done, the server would lose everything if killed.
        raise VolatileServer("Invalid appendonly of the Redis server: expected yes, got no; restart it with yes")
    if _FSYNC_STRENGTH.get(found["appendfsync"], 0) < _FSYNC_STRENGTH[appendfsync]:
        raise VolatileServer(
            f"Invalid appendfsync of the Redis server: expected {appendfsync}, got {found['appendfsync']};"
            " change it there, or accept the weaker one with NEARFIELD_APPENDFSYNC"
        )
    if found["maxmemory"] not in ("", "0") and found["maxmemory-policy"] != "noeviction":
        policy = found["maxmemory-policy"]
        raise VolatileServer(f"Invalid maxmemory-policy of the Redis server: expected noeviction, got {policy}")
