from typing import Literal

MadeKeyScope = Literal["admin", "read", "read-write", "write"]

MADE_KEY_SCOPE_VALUES: set[MadeKeyScope] = {
    "admin",
    "read",
    "read-write",
    "write",
}


def check_made_key_scope(value: str) -> MadeKeyScope:
    if value in MADE_KEY_SCOPE_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {MADE_KEY_SCOPE_VALUES!r}"
    )
