from typing import Literal

KeyBodyScope = Literal["admin", "read", "read-write", "write"]

KEY_BODY_SCOPE_VALUES: set[KeyBodyScope] = {
    "admin",
    "read",
    "read-write",
    "write",
}


def check_key_body_scope(value: str) -> KeyBodyScope:
    if value in KEY_BODY_SCOPE_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {KEY_BODY_SCOPE_VALUES!r}"
    )
