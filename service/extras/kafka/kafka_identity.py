"""What tells a topic from others of its name: the ids of its cluster and of itself."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import structlog

TIMEOUT_S = 10.0  # seconds to ask a broker
# Properties of consumers, which librdkafka would report as unknown to a client that only asks.
_OF_CONSUMERS = ("group.id", "auto.offset.reset", "enable.auto.commit", "max.poll.interval.ms")

_log = structlog.get_logger(__name__)


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
    parts = []
    for ask in (
        lambda: consumer.list_topics(topic, TIMEOUT_S).cluster_id,
        lambda: _topic_id(library, properties, topic),
    ):
        try:
            parts.append(ask())
        except library.KafkaException as error:
            _log.warning(
                "an id of the topic is unknown: if the topic is made again, its messages may be skipped",
                topic=topic,
                error=str(error),
            )
    return ".".join(filter(None, parts))


def _topic_id(library: Any, properties: Mapping[str, Any], topic: str) -> str | None:
    admin = importlib.import_module(f"{library.__name__}.admin")
    client = admin.AdminClient({name: value for name, value in properties.items() if name not in _OF_CONSUMERS})
    asked = client.describe_topics(library.TopicCollection([topic]), request_timeout=TIMEOUT_S)
    found = asked[topic].result().topic_id
    is_given = found is not None and (found.get_most_significant_bits() or found.get_least_significant_bits())
    return str(found) if is_given else None
