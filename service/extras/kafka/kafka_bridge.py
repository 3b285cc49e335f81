"""`Bridge`: reads elements from topics of Kafka, posts them in batches, and commits what the service has taken.

Before a batch is posted, the number of its last message is committed beside the offset of its first one. So the next
reader of the partition, after a crash or a rebalance, forms the same batch again. The service knows how far each
partition has come, and skips a batch that it has.

A topic that is made again begins at offset 0, and another cluster may have a topic of the same name. So the name of a
source has the ids of cluster and topic, and the metadata of a commit has them too.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

import structlog

from service.base.errors import ServiceError
from service.base.ids import MAX_ID_BYTES
from service.cli.client import Client, RequestFailed
from service.cli.importer import BATCH, batches, posted

TIMEOUT_S = 10.0  # seconds to ask a broker
# Properties of consumers, which librdkafka would report as unknown to a client that only asks.
_OF_CONSUMERS = ("group.id", "auto.offset.reset", "enable.auto.commit", "max.poll.interval.ms")

READ_S = 1.0  # seconds of a read, in which signals wait
COMMITTED_S = 30.0  # seconds to ask for committed offsets
N_REASONS = 10  # refused elements of a batch that are logged
# Names of errors that last until somebody changes the properties, or the rights of the user.
LASTING = frozenset(
    (
        "_AUTHENTICATION",
        "_SSL",
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
    )
)
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

    def source(self, identity: str) -> str:
        """Its name for the service, in a topic with this identity; the end of a name that is too long is a digest."""
        name = f"kafka:{self.topic}/{self.number}" + (f"@{identity}" if identity else "")
        if len(name) <= MAX_ID_BYTES:
            return name
        digest = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        return f"{name[: MAX_ID_BYTES - len(digest) - 1]}#{digest}"


class Plan(NamedTuple):
    """A batch that may have been posted already: its last offset, and the identity of its topic."""

    last: int
    identity: str

    @classmethod
    def of(cls, metadata: str | None) -> Plan | None:
        """The plan that a commit carries; None if it has none. Older bridges wrote no identity."""
        last, _, identity = (metadata or "").partition(" ")
        return cls(int(last), identity) if last.isdecimal() else None

    @property
    def metadata(self) -> str:
        """What `of` reads."""
        return f"{self.last} {self.identity}".rstrip()


class TooLong(Exception):
    """The service takes no body that is as long as this batch."""


class Bridge:
    """Carries messages of one consumer to one service.

    Args:
        consumer: commits nothing by itself.
        client: of the service.
        path: /ratings or /events.
        partition: makes what the consumer takes for a partition, from (topic, partition, offset, metadata).
        sleep: waits between two attempts, seconds.
        identity: returns what tells a topic from others of its name; empty if nobody knows.
    """

    def __init__(
        self,
        consumer: Consumer,
        client: Client,
        path: str,
        partition: Callable[..., Any],
        sleep: Callable[[float], None] = time.sleep,
        identity: Callable[[str], str] = lambda topic: "",
    ) -> None:
        self._consumer, self._client, self._path = consumer, client, path
        self._partition, self._sleep, self._identity = partition, sleep, identity
        self._identities: dict[Partition, str] = {}
        self._next: dict[Partition, int] = {}  # lowest offset that has not been read
        self._skipping: set[Partition] = set()  # whose last batch did not count
        self._n_refused = 0
        self._planned: dict[Partition, Plan] = {}
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
        messages_of: dict[Partition, list[Message]] = {}
        for message in self._consumer.consume(BATCH, READ_S):
            error = message.error()
            if error is None:
                messages_of.setdefault(Partition(message.topic(), message.partition()), []).append(message)
            else:
                judge(error)
                _log.warning("kafka reports an error", error=error.str())
        for partition, messages in messages_of.items():
            for run in ascending(messages):
                self._take(partition, run)

    def _take(self, partition: Partition, messages: list[Message]) -> None:
        if messages[0].offset() < self._next.get(partition, 0):
            # Go on at an earlier offset: the topic was made again, or somebody wants to read it again.
            plan, held = self._planned.pop(partition, None), self._held.pop(partition, [])
            if held and plan is not None:
                self._carry(partition, held, plan.identity, is_again=True)
            old, new = self._identities.get(partition, ""), self._identity(partition.topic)
            self._identities[partition] = new
            is_new = new != old
            _log.warning(
                "offsets went back: the topic was made again" if is_new else "offsets went back",
                source=partition.source(new),
                expected=self._next[partition],
                offset=messages[0].offset(),
                hint="its messages count" if is_new else self._hint(partition.source(new)),
            )
        self._next[partition] = messages[-1].offset() + 1
        messages = self._held.pop(partition, []) + messages
        plan = self._planned.get(partition)
        if plan is not None and messages[-1].offset() < plan.last:
            self._held[partition] = messages
            return
        self._planned.pop(partition, None)
        again = [message for message in messages if plan is not None and message.offset() <= plan.last]
        if again and plan is not None:
            self._carry(partition, again, plan.identity, is_again=True)
        for batch in batches(messages[len(again) :], length_of):
            self._carry(partition, batch, self._identities.get(partition, ""))

    def _hint(self, source: str) -> str:
        return (
            "the service skips messages up to the highest offset that it has taken of this source; to let them count,"
            f" stop the bridge, DELETE {self._client.address}/admin/sources/{quote(source, '')}, and start it again"
        )

    def _carry(self, partition: Partition, batch: list[Message], identity: str, *, is_again: bool = False) -> None:
        plan, source = Plan(batch[-1].offset(), identity), partition.source(identity)
        self._commit(partition, batch[0].offset(), plan.metadata)
        lines = b"\n".join(map(line_of, batch))

        def post() -> dict[str, Any]:
            try:
                return self._client.post_lines(self._path, lines, source, plan.last)
            except RequestFailed as error:
                if error.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                    raise TooLong(error.problem) from None
                raise

        try:
            answer = posted(post, self._client.address, self._sleep, patience_s=float("inf"))
        except TooLong as error:
            if len(batch) > 1:
                for part in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                    self._carry(partition, part, identity, is_again=is_again)
                return
            answer = {"accepted": 0, "rejected": [{"line": 1, "error": str(error)}]}
        self._n_refused += len(answer["rejected"])
        for bad in answer["rejected"][:N_REASONS]:
            offset = batch[bad["line"] - 1].offset()
            _log.warning("message refused", source=source, offset=offset, reason=bad["error"])
        self._commit(partition, plan.last + 1, "")
        skipped = answer.get("skipped") or 0
        if skipped and not is_again and partition not in self._skipping:
            _log.warning("messages skipped", source=source, last=plan.last, skipped=skipped, hint=self._hint(source))
        if not is_again:
            (self._skipping.add if skipped else self._skipping.discard)(partition)
        _log.info(
            "batch taken",
            source=source,
            last=plan.last,
            accepted=answer["accepted"],
            refused=len(answer["rejected"]),
            skipped=skipped,
            refused_in_all=self._n_refused,
        )

    def _commit(self, partition: Partition, offset: int, metadata: str) -> None:
        place = self._partition(partition.topic, partition.number, offset, metadata)
        for reply in self._consumer.commit(offsets=[place], asynchronous=False):
            if reply.error is not None:
                raise BridgeFailed(f"Kafka refused to commit offset {offset} of {partition.source('')}: {reply.error}")

    # --- called by the consumer while it reads

    def _assigned(self, _: Consumer, partitions: list[Any]) -> None:
        identities = {topic: self._identity(topic) for topic in {place.topic for place in partitions}}
        for commit in self._consumer.committed(partitions, COMMITTED_S):
            partition, identity = Partition(commit.topic, commit.partition), identities[commit.topic]
            self._identities[partition], self._next[partition] = identity, max(commit.offset, 0)
            plan = Plan.of(commit.metadata)
            if plan is not None and ("" in (plan.identity, identity) or plan.identity == identity):  # else it is gone
                self._planned[partition] = plan

    def _revoked(self, _: Consumer, partitions: list[Any]) -> None:
        for place in partitions:
            partition = Partition(place.topic, place.partition)
            for of_partitions in (self._planned, self._held, self._identities, self._next):
                of_partitions.pop(partition, None)


def ascending(messages: list[Message]) -> Iterator[list[Message]]:
    """`messages` of a partition, cut where their offsets go back."""
    falls = [n for n in range(1, len(messages)) if messages[n].offset() < messages[n - 1].offset()]
    return (messages[first:end] for first, end in itertools.pairwise([0, *falls, len(messages)]))


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


def identity_of(library: Any, consumer: Any, properties: Mapping[str, Any], topic: str) -> str:
    """CLUSTER.TOPIC of a topic, by the ids that the brokers give both. A topic that is made again gets another id.

    An id that the brokers do not tell is left out, and a line of the log says what follows. Brokers before Kafka 2.8
    give topics no ids.

    Args:
        library: `confluent_kafka`.
        consumer: of the topic.
        properties: of the consumer.
        topic: the name.
    """

    def topic_id() -> str | None:
        admin = importlib.import_module(f"{library.__name__}.admin")
        client = admin.AdminClient({name: value for name, value in properties.items() if name not in _OF_CONSUMERS})
        futures = client.describe_topics(library.TopicCollection([topic]), request_timeout=TIMEOUT_S)
        uuid = futures[topic].result().topic_id
        has_id = uuid is not None and (uuid.get_most_significant_bits() or uuid.get_least_significant_bits())
        return str(uuid) if has_id else None

    parts = []
    for ask in (lambda: consumer.list_topics(topic, TIMEOUT_S).cluster_id, topic_id):
        try:
            parts.append(ask())
        except library.KafkaException as error:
            _log.warning(
                "an id of the topic is unknown: if the topic is made again, its messages may be skipped",
                topic=topic,
                error=str(error),
            )
    return ".".join(filter(None, parts))
