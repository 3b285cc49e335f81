"""`Keyspace`: the names of the Redis keys of one data set. Several data sets share a server, and no key."""

from __future__ import annotations

from typing import NamedTuple


class Keyspace(NamedTuple):
    """Names of keys, all of which begin with `prefix`. The modules that use them document their contents."""

    prefix: str = "nearfield"

    @classmethod
    def of(cls, data_set: str) -> Keyspace:
        """The keys of a data set; the default one, whose name is empty, has those that it had when it was alone."""
        return cls(f"{DEFAULT.prefix}:d:{data_set}") if data_set else DEFAULT

    @property
    def ratings(self) -> str:
        """The stream."""
        return f"{self.prefix}:ratings"

    @property
    def trimmed(self) -> str:
        """What trimming has removed of it."""
        return f"{self.prefix}:trimmed"

    @property
    def rejected(self) -> str:
        """The stream of bad entries."""
        return f"{self.prefix}:rejected"

    @property
    def lost(self) -> str:
        """Entries that Redis has lost, before they are written again."""
        return f"{self.prefix}:lost"

    @property
    def verified(self) -> str:
        """The run of the server that was verified last."""
        return f"{self.prefix}:verified"

    @property
    def commit(self) -> str:
        """A request to the archiver."""
        return f"{self.prefix}:commit"

    @property
    def signing(self) -> str:
        """The key that signs cursors and recommendation ids."""
        return f"{self.prefix}:signing"

    @property
    def publisher(self) -> str:
        """The folder whose worker publishes the log to a store."""
        return f"{self.prefix}:publisher"

    @property
    def never(self) -> str:
        """A key that never exists."""
        return f"{self.prefix}:never"

    @property
    def jobs(self) -> str:
        """The beginning of all keys of jobs."""
        return f"{self.prefix}:job"

    @property
    def webhooks(self) -> str:
        """The beginning of all keys of webhooks."""
        return f"{self.prefix}:webhooks"

    @property
    def schedules(self) -> str:
        """What became of schedules."""
        return f"{self.prefix}:schedules"


DEFAULT = Keyspace()  # of the data set without a name
