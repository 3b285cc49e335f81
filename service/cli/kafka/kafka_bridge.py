"""`Bridge`: reads elements from topics of Kafka, posts them in batches, and commits what the service has taken.

Before a batch is posted, the number of its last message is committed beside the offset of its first one. So the next
reader of the partition, after a crash or a rebalance, forms the same batch again. The service knows how far each
partition has come, and skips a batch that it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import structlog

from service.cli.importer import BATCH, batches, posted
from service.client import Client
from service.errors import ServiceError

READ_S = 1.0  # seconds of a read, in which signals wait
COMMITTED_S = 30.0  # seconds to ask for committed offsets
N_REASONS = 10  # refused elements of a batch that are logged
# Names of errors that last until somebody changes the properties, or the rights of the user.
LASTING = frozenset((
    "_AUTHENTICATION", "_SSL",
    "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
))  # fmt: skip
# Of `confluent_kafka`, which not every installation has.
Consumer = Any
Message = Any
_log = structlog.get_logger(__name__)


class BridgeFailed(ServiceError):
    """Kafka does not work any more, or refused a commit."""


class Partition(NamedTuple):
    """A partition of a topic, by its number."""

    topic: str
    number: int

    @property
    def source(self) -> str:
        """Its name for the service."""
        return f"kafka:{self.topic}/{self.number}"


class Bridge:
    """Carries messages of one consumer to one service.

    Args:
        consumer: commits nothing by itself.
        client: of the service.
        path: /ratings or /events.
        partition: makes what the consumer takes for a partition, from (topic, partition, offset, metadata).
        sleep: waits between two attempts, seconds.
    """

    def __init__(
        self,
        consumer: Consumer,
        client: Client,
        path: str,
        partition: Callable[..., Any],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._consumer, self._client, self._path = consumer, client, path
        self._partition, self._sleep = partition, sleep
        self._planned: dict[Partition, int] = {}  # last offset of a batch that may have been posted already
        self._held: dict[Partition, list[Message]] = {}  # of such a batch, until it is complete

    def run(self, topic: str) -> None:
        """Carry messages until an exception ends it.

        Raises:
            ImportFailed: the service refused a batch.
            BridgeFailed: Kafka failed for good, or refused the login.
        """
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        while True:
            self.step()

    def step(self) -> None:
        """Read once, and carry what was read."""
        found: dict[Partition, list[Message]] = {}
        for message in self._consumer.consume(BATCH, READ_S):
            error = message.error()
            if error is None:
                found.setdefault(Partition(message.topic(), message.partition()), []).append(message)
            else:
                judge(error)
                _log.warning("kafka reports an error", error=error.str())
        for partition, messages in found.items():
            self._take(partition, messages)

    def _take(self, partition: Partition, messages: list[Message]) -> None:
        messages = self._held.pop(partition, []) + messages
        end = self._planned.get(partition)
        if end is not None and messages[-1].offset() < end:
            self._held[partition] = messages
            return
        self._planned.pop(partition, None)
        again = [message for message in messages if end is not None and message.offset() <= end]
        for batch in [*([again] if again else []), *batches(messages[len(again) :], length_of)]:
            self._carry(partition, batch)

    def _carry(self, partition: Partition, batch: list[Message]) -> None:
        first, last = batch[0].offset(), batch[-1].offset()
        self._commit(partition, first, str(last))
        lines = [line_of(message) for message in batch]
        post = partial(self._client.post_lines, self._path, b"\n".join(lines), partition.source, last)
        answer = posted(post, self._client.address, self._sleep, patience_s=float("inf"))
        for bad in answer["rejected"][:N_REASONS]:
            offset = batch[bad["line"] - 1].offset()
            _log.warning("message refused", source=partition.source, offset=offset, reason=bad["error"])
        self._commit(partition, last + 1, "")
        _log.info(
            "batch taken",
            source=partition.source,
            last=last,
            accepted=answer["accepted"],
            refused=len(answer["rejected"]),
        )

    def _commit(self, partition: Partition, offset: int, metadata: str) -> None:
        taken = self._partition(*partition, offset, metadata)
        for told in self._consumer.commit(offsets=[taken], asynchronous=False):
            if told.error is not None:
                raise BridgeFailed(f"Kafka refused to commit offset {offset} of {partition.source}: {told.error}")

    # --- called by the consumer while it reads

    def _assigned(self, _: Consumer, partitions: list[Any]) -> None:
        for told in self._consumer.committed(partitions, COMMITTED_S):
            if told.metadata and told.metadata.isdecimal():
                self._planned[Partition(told.topic, told.partition)] = int(told.metadata)

    def _revoked(self, _: Consumer, partitions: list[Any]) -> None:
        for one in partitions:
            self._planned.pop(Partition(one.topic, one.partition), None)
            self._held.pop(Partition(one.topic, one.partition), None)


def judge(error: Any) -> None:
    """End the bridge if an error lasts; else the library goes on. It calls this for errors of connections.

    Raises:
        BridgeFailed: it lasts: the library would try again for ever, several times a second.
    """
    if error.fatal() or error.name() in LASTING:
        raise BridgeFailed(f"Kafka failed: {error.str()}")


def length_of(message: Message) -> int:
    """Bytes of the line of a message in a body."""
    return len(message.value() or b"") + 1


def line_of(message: Message) -> bytes:
    """The JSON of a message in one line. A line end is in no string of JSON, so it may be a space.

    A message without a value, which deletes others with its key, is an empty line: the service ignores it.
    """
    return (message.value() or b"").replace(b"\n", b" ")
