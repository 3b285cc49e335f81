"""A file of properties for a client of Kafka: TLS, SASL and whatever else librdkafka knows, by its names.

A line is `name=value`. Space around both does not count, nor do empty lines and lines that begin with #. Messages name
lines and properties, but no values: these may be secrets.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from service.settings.errors import InvalidSetting

OPTIONS = {"bootstrap.servers": "--bootstrap", "metadata.broker.list": "--bootstrap", "group.id": "--group"}
OF_PYTHON = "logger", "on_commit", "default.topic.config"  # which confluent_kafka takes as objects, beside callbacks


def read(path: Path, own: Collection[str]) -> dict[str, str]:
    """The properties in the file at `path`; of several of one name the last counts.

    Args:
        path: the file, in UTF-8.
        own: names of the properties that the bridge sets itself.

    Raises:
        InvalidSetting: the file cannot be read, a line has no name and value, or a property may not be set.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidSetting(f"Invalid --config: expected a file of properties, got {path}: {reason}") from None
    found = {}
    for n, line in enumerate(lines, 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not line.strip() or name.startswith("#"):
            continue
        if not name or not equals:
            raise InvalidSetting(f"Invalid line {n} of {path}: expected name=value, got no {'=' if name else 'name'}")
        _check(name, path, own)
        found[name] = value
    return found


def _check(name: str, path: Path, own: Collection[str]) -> None:
    expected = None
    if name in OPTIONS:
        expected = f"the option {OPTIONS[name]} instead"
    elif name in own:
        expected = "a property that the bridge does not set itself"
    elif name in OF_PYTHON or name.endswith("_cb"):
        expected = "a property that is text"
    if expected:
        raise InvalidSetting(f"Invalid property of {path}: expected {expected}, got {name}")
