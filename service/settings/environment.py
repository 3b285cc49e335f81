"""Finds environment variables that look like settings but are not: a misspelled name must not pass unnoticed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from service.settings.errors import InvalidSetting

PREFIX = "NEARFIELD_"
REDIS_SCHEMES = ("redis", "rediss", "unix")
# Of the commands that ask a service, of docker-compose.gpu.yml, of the tests, of `service.storage.files`.
OWN = ("URL", "GPUS", "TEST_DATA", "FAULT_AT")
CLOSE = 0.65  # difflib's ratio; REDIS_URL, HOSTNAME and DATA_DIR are close to REDIS, HOST and DATA
# Variables that Docker and Kubernetes set in containers linked to a service called nearfield (or nearfield-redis, …).
_INJECTED = re.compile(r"SERVICE_\w+|PORT_\w+|NAME|ENV_\w+|\w+_SERVICE_(HOST|PORT\w*)|\w+_PORT_\d+_\w+")
# Variables that hold secrets, of other programs too: by their names, or by a password in a URL.
_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|_SAS|HEADERS|REDIS", re.IGNORECASE)
_WITH_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s]*@")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def own_prefix(data_set: str) -> str:
    """The beginning of the names of a data set's own variables, after `PREFIX`."""
    return f"{data_set.replace('-', '_').upper()}__"


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for a process that needs no secret: a look into one process finds no key of another."""
    return {
        name: value
        for name, value in environment.items()
        if not _SECRET.search(name) and not _WITH_PASSWORD.search(value)
    }


def is_address(value: object) -> bool:
    """Whether a value is an address, which Docker and Kubernetes put into `NEARFIELD_PORT`."""
    return isinstance(value, str) and _ADDRESS.match(value) is not None


def unknown_variables(
    environment: Mapping[str, str], settings: Collection[str], data_sets: Collection[str] = ()
) -> list[str]:
    """Names of variables that begin like those of settings but name no setting, of the service or of a data set.

    Raises:
        InvalidSetting: a name is close to the name of a setting.
    """
    names = [name.upper() for name in settings]
    unknown = []
    for variable, value in environment.items():
        name = variable.upper().removeprefix(PREFIX)
        if not variable.upper().startswith(PREFIX) or name in names or name in OWN:
            continue
        if (
            _INJECTED.fullmatch(name)
            or is_address(value)
            or any(name.startswith(own_prefix(data_set)) for data_set in data_sets)
        ):
            continue
        if "__" not in name and (close := difflib.get_close_matches(name, names, n=1, cutoff=CLOSE)):
            raise InvalidSetting(
                f"Invalid variable {variable}: expected the name of a setting, such as {PREFIX}{close[0]}"
            )
        unknown.append(variable)
    return unknown


def is_redis_url(text: str) -> bool:
    """Whether `text` names a Redis server by a URL."""
    try:
        url = urlsplit(text)
        tail = url.path + url.query + url.fragment  # has the host if the password has a plain / ? or #
        has_place = bool(url.path if url.scheme == "unix" else url.hostname and url.port != 0 and "@" not in tail)
    except ValueError:  # the port is not a number, or too high
        return False
    return url.scheme in REDIS_SCHEMES and has_place
