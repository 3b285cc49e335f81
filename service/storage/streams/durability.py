"""Checks that the settings of a Redis server make it durable."""

from __future__ import annotations

from collections.abc import Mapping

from service.settings.settings import AppendFsync
from service.storage.errors import VolatileServer

_FSYNC_STRENGTH = {"no": 0, "everysec": 1, "always": 2}


def refuse_volatile(config: Mapping[str, str], appendfsync: AppendFsync) -> None:
    """Check that a server with the settings `config` keeps what it acknowledges.

    Args:
        config: appendonly, appendfsync, maxmemory and maxmemory-policy.
        appendfsync: the weakest policy to accept.

    Raises:
        VolatileServer: persistence is off or too weak, or entries may be evicted.
    """
    if config["appendonly"] != "yes":
        # CONFIG SET is not enough: until its first rewrite is done, a killed server would lose everything.
        raise VolatileServer("Invalid appendonly of the Redis server: expected yes, got no; restart it with yes")
    if _FSYNC_STRENGTH.get(config["appendfsync"], 0) < _FSYNC_STRENGTH[appendfsync]:
        raise VolatileServer(
            f"Invalid appendfsync of the Redis server: expected {appendfsync}, got {config['appendfsync']};"
            " change it there, or accept the weaker one with NEARFIELD_APPENDFSYNC"
        )
    if config["maxmemory"] not in ("", "0") and config["maxmemory-policy"] != "noeviction":
        policy = config["maxmemory-policy"]
        raise VolatileServer(f"Invalid maxmemory-policy of the Redis server: expected noeviction, got {policy}")
