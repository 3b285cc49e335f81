"""Secrets in files: `NEARFIELD_ADMIN_KEY_FILE` names the file that has the value of `NEARFIELD_ADMIN_KEY`.

Files are what Docker and Kubernetes mount, and other programs cannot read them as easily as an environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from service.settings.environment import PREFIX
from service.settings.errors import InvalidSetting
from service.settings.key_settings import KEY_NAMES

SETTINGS = (*KEY_NAMES, "redis", "model_key")  # settings that are secrets
SUFFIX = "_FILE"
MAX_BYTES = 1 << 16


def values(environment: Mapping[str, str]) -> dict[str, str]:
    """The values of the settings that are in files, by the names of the settings.

    Raises:
        InvalidSetting: see `value`.
    """
    by_name = {name.upper(): text for name, text in environment.items()}
    variables = {name: f"{PREFIX}{name.upper()}" for name in SETTINGS}
    texts = {name: value(by_name, variable) for name, variable in variables.items() if f"{variable}{SUFFIX}" in by_name}
    return {name: text for name, text in texts.items() if text is not None}


def value(environment: Mapping[str, str], variable: str) -> str | None:
    """The value of a variable, or that in the file which `variable`_FILE names; None if neither is given.

    Line ends at the end of the file do not count, because editors and `echo` write one.

    Raises:
        InvalidSetting: both are given, or the file cannot be read; the message has no part of its content.
    """
    name = f"{variable}{SUFFIX}"
    if name not in environment:
        return environment.get(variable)
    if variable in environment:
        raise InvalidSetting(f"Invalid {name}: expected either {variable} or {name}, got both; unset one of them")
    path = Path(environment[name])
    try:
        if not path.is_file():
            raise OSError("there is no such file" if not path.exists() else "it is not a regular file")
        if path.stat().st_size > MAX_BYTES:
            raise OSError(f"it has more than {MAX_BYTES:,} bytes")
        text = path.read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = "it is not UTF-8" if isinstance(error, ValueError) else getattr(error, "strerror", None) or error
        raise InvalidSetting(f"Invalid {name}: expected a file with a secret, got {path}: {reason}") from None
    if not text:
        raise InvalidSetting(f"Invalid {name}: expected a file with a secret, got {path}: it is empty")
    return text


def secret(variable: str) -> str:
    """The value of a variable that an option names, or that of its file; `InvalidSetting` if it is unset or empty."""
    if text := value(os.environ, variable):
        return text
    raise InvalidSetting(f"Invalid variable {variable}: expected a key, got none")


def variable_of_others(name: str) -> str | None:
    """The value of a variable of another program that we keep to, or that of its file; None if it is unset or empty."""
    return value(os.environ, name) or None


def names() -> list[str]:
    """The settings that name files, as if they were settings."""
    return [f"{name}{SUFFIX.lower()}" for name in SETTINGS]
