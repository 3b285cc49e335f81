"""`nearfield bridge kafka`: carries messages of a topic to a service. Needs the extra `kafka`."""

from __future__ import annotations

import contextlib
import importlib
import signal
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli import arguments
from service.cli.client import Client
from service.cli.importer import check_answers
from service.cli.options import DataSet, Url
from service.extras.kafka import kafka_properties
from service.extras.kafka.kafka_bridge import Bridge, BridgeFailed, judge
from service.extras.kafka.kafka_identity import identity_of
from service.settings.data_sets import address_of
from service.settings.errors import InvalidSetting
from service.settings.secret_files import secret

LONGEST_POLL_MS = 86_400_000  # the most that Kafka allows: a batch waits as long as the service is away

app = typer.Typer(
    help="Carry ratings or events from a queue to a service.", add_completion=False, rich_markup_mode=None
)


@app.callback()
def bridge() -> None:
    """Carry ratings or events from a queue to a service."""


@app.command(short_help="From a topic of Kafka.")
def kafka(
    bootstrap: Annotated[str, typer.Option(help="Brokers to begin with.", metavar="HOST:PORT")],
    topic: Annotated[str, typer.Option(help="Topic of JSON elements of POST /ratings.", metavar="NAME")],
    group: Annotated[str, typer.Option(help="Group of consumers that share the topic.", metavar="NAME")],
    url: Url = "http://127.0.0.1:8000",
    data_set: DataSet = None,
    key_env: Annotated[
        str | None,
        typer.Option(help="Variable with the key; default: NEARFIELD_WRITE_KEY or NEARFIELD_API_KEY.", metavar="NAME"),
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="The messages are elements of POST /events.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="Properties of the connection (TLS, SASL) by librdkafka's names.", metavar="FILE"),
    ] = None,
) -> None:
    """Post the messages of a topic in batches, and commit them once the service has them. Ends by a signal.

    Each message is one JSON element of POST /ratings. Start as many as you like in one group, up to one a partition.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # safe at any point: Kafka repeats uncommitted messages
    key = arguments.settings({}).own_key("write_key") if key_env is None else secret(key_env)
    own = settings(bootstrap, group)
    properties = ({} if config is None else kafka_properties.read(config, own.keys())) | own
    library = _library()
    with Client(address_of(url, data_set), key) as client, contextlib.suppress(KeyboardInterrupt):
        check_answers(client)
        consumer = _consumer(library, properties, config)
        try:
            identity = partial(identity_of, library, consumer, properties)
            path = "/events" if events else "/ratings"
            Bridge(consumer, client, path, library.TopicPartition, identity=identity).run(topic)
        except library.KafkaException as error:
            raise BridgeFailed(f"Kafka failed: {error}") from None
        finally:
            consumer.close()


def settings(bootstrap: str, group: str) -> dict[str, Any]:
    """The properties of the consumer that the bridge sets itself, by the names of librdkafka."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.poll.interval.ms": LONGEST_POLL_MS,
    }


def _consumer(library: Any, properties: dict[str, Any], config: Path | None) -> Any:
    """A consumer; `InvalidSetting` with librdkafka's own message if it does not take the properties."""
    try:
        return library.Consumer(properties | {"error_cb": judge})
    except library.KafkaException as error:
        where = "" if config is None else f" of {config}"
        raise InvalidSetting(f"Invalid properties{where}: {error.args[0].str()}") from None


def _library() -> Any:
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError:
        raise InvalidSetting(
            "Invalid installation: expected the extra kafka for this command, got none: pip install '.[kafka]' in a"
            " checkout of Nearfield"
        ) from None
