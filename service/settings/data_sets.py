"""The setting `data_sets`: names of data sets in addition to the default one, and which settings may differ.

A data set has all that a service has (log, models, jobs, limits), in its own folder and under its own keys. The name of
the default one is empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from service.base.errors import NotFound
from service.base.validation import reason_of
from service.settings.environment import PREFIX, own_prefix
from service.settings.errors import InvalidSetting

FOLDER = "sets"  # in DATA: a folder like DATA for each further data set
TURN = f"{FOLDER}/.training.lock"  # in DATA: the lock of the data set that trains
ROUTES = "/d/"  # before the name of a data set in paths
DEFAULT = "default"  # stands for the data set whose paths name none, where it needs a name
OF_WHAT = "at most 32 lowercase letters, digits and hyphens that begin with a letter"
NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
# Settings of the processes, or of what the data sets share; all others may differ from set to set.
SHARED = frozenset((
    "host", "port", "tls_certificate", "tls_key", "data", "data_sets", "redis", "store", "appendfsync", "backend",
    "ranking_gpus", "worker", "trainer_ranks", "cluster", "cluster_tls_ca", "cluster_tls_cert", "cluster_tls_key",
    "fronts", "api_key", "admin_key", "read_key", "write_key", "trusted_proxies", "max_connections", "log_level",
    "log_format", "traces",
))  # fmt: skip


class UnknownDataSet(NotFound):
    """A path begins with the name of no data set."""

    slug, title = "unknown-data-set", "Unknown data set"


def parse_names(value: Any) -> Any:
    """The names in a comma-separated text; any other type as it is."""
    return tuple(filter(None, (name.strip() for name in value.split(",")))) if isinstance(value, str) else value


def check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, if all can be used; else `ValueError`."""
    for name in names:
        if NAME.fullmatch(name) is None or name == DEFAULT:
            raise ValueError(f"Invalid data_sets: expected names of {OF_WHAT}, and not {DEFAULT}, got {name!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"Invalid data_sets: expected each name once, got {','.join(names)}")
    return names


def folder_of(data: Path, name: str) -> Path:
    """The folder of a data set in DATA."""
    return data / FOLDER / name if name else data


def folders_in(data: Path) -> list[str]:
    """The names of further data sets that have a folder in DATA, of those that were removed from the setting too."""
    return sorted(path.name for path in (data / FOLDER).glob("*") if NAME.fullmatch(path.name) and path.is_dir())


def path_of(name: str) -> str:
    """The beginning of all its paths, without a `/` at the end; empty for the default one."""
    return f"{ROUTES}{name}" if name else ""


def check_name(name: str) -> str:
    """The name of a further data set; `InvalidSetting` if it cannot be one."""
    if NAME.fullmatch(name) is None or name == DEFAULT:
        raise InvalidSetting(f"Invalid data set: expected a name of {OF_WHAT}, and not {DEFAULT}, got {name!r}")
    return name


def own_values(environment: Mapping[str, str], name: str, settings: Collection[str]) -> dict[str, str]:
    """The values that variables such as `NEARFIELD_SHOP__MAX_N` give to a data set, by the names of its settings.

    Raises:
        InvalidSetting: a variable names no setting, or one that all data sets share.
    """
    prefix, values = PREFIX + own_prefix(name), {}
    for variable, value in environment.items():
        if not variable.upper().startswith(prefix):
            continue
        setting = variable.upper().removeprefix(prefix).lower()
        if setting not in settings:
            raise InvalidSetting(f"Invalid variable {variable}: expected the name of a setting after {prefix}")
        if setting in SHARED:
            raise InvalidSetting(
                f"Invalid variable {variable}: expected a setting that a data set may have for itself, got one that all"
                f" share; set {PREFIX}{setting.upper()}"
            )
        values[setting] = value
    return values


def refused(name: str, error: ValidationError) -> InvalidSetting:
    """The error for values of `own_values` that cannot be used."""
    prefix = PREFIX + own_prefix(name)
    faults = [
        f"Invalid variable {prefix}{str(fault['loc'][0]).upper()}: {reason_of(fault)}" for fault in error.errors()
    ]
    return InvalidSetting("; ".join(faults))
