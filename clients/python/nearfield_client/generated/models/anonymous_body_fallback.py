from typing import Literal

AnonymousBodyFallback = Literal["latest", "none", "popular", "trending"]

ANONYMOUS_BODY_FALLBACK_VALUES: set[AnonymousBodyFallback] = {
    "latest",
    "none",
    "popular",
    "trending",
}


def check_anonymous_body_fallback(value: str) -> AnonymousBodyFallback:
    if value in ANONYMOUS_BODY_FALLBACK_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {ANONYMOUS_BODY_FALLBACK_VALUES!r}"
    )
