from typing import Literal

ListedKeyScope = Literal["admin", "read", "read-write", "write"]

LISTED_KEY_SCOPE_VALUES: set[ListedKeyScope] = {
    "admin",
    "read",
    "read-write",
    "write",
}


def check_listed_key_scope(value: str) -> ListedKeyScope:
    if value in LISTED_KEY_SCOPE_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {LISTED_KEY_SCOPE_VALUES!r}"
    )
