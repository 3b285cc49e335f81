"""The keys of the settings: how they are written, and what they must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo
from pydantic_settings import NoDecode

KEY_NAMES = ("api_key", "admin_key", "read_key", "write_key")
MIN_KEY_LENGTH, MAX_KEYS = 16, 2


def _split(value: Any) -> Any:
    return tuple(key.strip() for key in value.split(",")) if isinstance(value, str) else value


def _check(value: tuple[SecretStr, ...] | None, info: ValidationInfo) -> tuple[SecretStr, ...] | None:
    if value is not None and not (len(value) <= MAX_KEYS and all(len(key) >= MIN_KEY_LENGTH for key in value)):
        raise ValueError(
            f"Invalid {info.field_name}: expected a key of {MIN_KEY_LENGTH} characters or more,"
            " or two such keys with a comma between"
        )
    return value


# Up to two keys with equal rights, so that clients can get a new key before the old one is removed.
Keys = Annotated[tuple[SecretStr, ...] | None, NoDecode, BeforeValidator(_split), AfterValidator(_check)]


def check_keys_differ(keys: Mapping[str, list[str]]) -> None:
    """Check that no key is in two settings, or twice in one.

    Args:
        keys: setting -> its keys.

    Raises:
        ValueError: one is.
    """
    owners: dict[str, str] = {}
    for name, keys_of_setting in keys.items():
        for key in keys_of_setting:
            if key in owners:
                raise ValueError(
                    f"Invalid {name}: expected a key that differs from all others, got one of {owners[key]}"
                )
            owners[key] = name
