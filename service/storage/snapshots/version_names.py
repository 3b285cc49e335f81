"""The names of versions: `<name>-<UTC yyyymmddThhmmss>-<4 hex>`, and `.<revision>` once a user was forgotten in it.

The hexadecimal digits are the fraction of the second, in steps of 15 µs, so that two trainings of a second differ.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from gpu.algorithms import ALGORITHMS
from service.base.errors import InvalidRequest
from service.settings.model_names import MAX_NAME_LENGTH, RESERVED, may_be_name
from service.storage.errors import UnknownVersion

TIME_FORMAT = "%Y%m%dT%H%M%S"
_VERSION = re.compile(
    r"(?P<shown>(?P<name>[a-z][a-z0-9-]*)-(?P<time>\d{8}T\d{6})-[0-9a-f]{4})(\.(?P<revision>[1-9]\d{0,8}))?"
)


def check_name(name: str, algorithm: str) -> str:
    """`name` if a model of `algorithm` may be live under it.

    Raises:
        InvalidRequest: it may not.
    """
    if name in RESERVED:
        raise InvalidRequest(f"Invalid name: expected none of {', '.join(RESERVED)}, got {name!r}")
    if not may_be_name(name):
        raise InvalidRequest(
            "Invalid name: expected a letter, then lower-case letters, digits and hyphens, no hyphen at the end"
            f", at most {MAX_NAME_LENGTH} characters, got {name[: 2 * MAX_NAME_LENGTH]!r}"
        )
    if name in ALGORITHMS and name != algorithm:
        raise InvalidRequest(
            f"Invalid name: expected another one for a model of {algorithm}, got {name!r}, an algorithm"
        )
    return name


def new_version(name: str, time_text: str | None = None) -> str:
    """A new version of the model `name`; `time_text` (yyyymmddThhmmss, UTC) defaults to now."""
    now = datetime.now(UTC)
    return f"{name}-{time_text or now.strftime(TIME_FORMAT)}-{now.microsecond * 0x10000 // 1_000_000:04x}"


def is_version(text: str, name: str | None = None) -> bool:
    """Whether `text` has the form of a version, of `name` if it is not None; it need not exist."""
    match = _VERSION.fullmatch(text)
    return match is not None and name in (None, match["name"])


def name_of(version: str) -> str:
    """The name under which `version` can be live."""
    return version.rsplit("-", 2)[0]


def shown(version: str) -> str:
    """The version that clients see, which does not change when users are forgotten."""
    match = _VERSION.fullmatch(version)
    return version if match is None else match["shown"]


def revision_of(version: str) -> int:
    """How many times a user was forgotten in `version`."""
    match = _VERSION.fullmatch(version)
    return 0 if match is None else int(match["revision"] or 0)


def time_text_of(version: str) -> str:
    """When `version` was written, as `TIME_FORMAT`, which sorts by time.

    Raises:
        UnknownVersion: `version` does not have the form of a version.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise UnknownVersion(f"there is no snapshot {version!r}")
    return match["time"]


def time_of(version: str) -> float:
    """When `version` was written, in Unix seconds; raises what `time_text_of` raises."""
    return datetime.strptime(time_text_of(version), TIME_FORMAT).replace(tzinfo=UTC).timestamp()
