"""`nearfield bridge kafka`: carries messages of a topic to a service. Needs the extra `kafka`."""

from __future__ import annotations

import contextlib
import importlib
import signal
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli import arguments
from service.cli.client import Client
from service.cli.importer import check_answers
from service.cli.options import DataSet, Url
from service.extras.kafka.kafka_bridge import Bridge, BridgeFailed, identity_of, judge
from service.settings.errors import InvalidSetting
from service.settings.secret_files import secret

OPTIONS = {"bootstrap.servers": "--bootstrap", "metadata.broker.list": "--bootstrap", "group.id": "--group"}
OF_PYTHON = "logger", "on_commit", "default.topic.config"  # which confluent_kafka takes as objects, beside callbacks

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
    set_here = settings(bootstrap, group)
    properties = ({} if config is None else properties_of(config, set_here.keys())) | set_here
    library = _library()
    with Client(url, key, data_set) as client, contextlib.suppress(KeyboardInterrupt):
        check_answers(client)
        try:
            consumer = library.Consumer(properties | {"error_cb": judge})
        except library.KafkaException as error:
            where = "" if config is None else f" of {config}"
            raise InvalidSetting(f"Invalid properties{where}: {error.args[0].str()}") from None
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


def _library() -> Any:
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError:
        raise InvalidSetting(
            "Invalid installation: expected the extra kafka for this command, got none: pip install '.[kafka]' in a"
            " checkout of Nearfield"
        ) from None


def properties_of(path: Path, set_here: Collection[str]) -> dict[str, str]:
    """The properties in the file at `path`, by the names of librdkafka; of several of one name the last counts.

    A line is `name=value`. Space around both does not count, nor do empty lines and lines that begin with #. Messages
    name lines and properties, but no values: these may be secrets.

    Args:
        path: the file, in UTF-8.
        set_here: names of the properties that the bridge sets itself.

    Raises:
        InvalidSetting: the file cannot be read, a line has no name and value, or a property may not be set.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidSetting(f"Invalid --config: expected a file of properties, got {path}: {reason}") from None
    properties = {}
    for n, line in enumerate(lines, 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not line.strip() or name.startswith("#"):
            continue
        if not name or not equals:
            raise InvalidSetting(f"Invalid line {n} of {path}: expected name=value, got no {'=' if name else 'name'}")
        expected = None
        if name in OPTIONS:
            expected = f"the option {OPTIONS[name]} instead"
        elif name in set_here:
            expected = "a property that the bridge does not set itself"
        elif name in OF_PYTHON or name.endswith("_cb"):
            expected = "a property that is text"
        if expected:
            raise InvalidSetting(f"Invalid property of {path}: expected {expected}, got {name}")
        properties[name] = value
    return properties
