from typing import Literal

UsersBodyFallback = Literal["latest", "none", "popular", "trending"]

USERS_BODY_FALLBACK_VALUES: set[UsersBodyFallback] = {
    "latest",
    "none",
    "popular",
    "trending",
}


def check_users_body_fallback(value: str) -> UsersBodyFallback:
    if value in USERS_BODY_FALLBACK_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {USERS_BODY_FALLBACK_VALUES!r}"
    )
