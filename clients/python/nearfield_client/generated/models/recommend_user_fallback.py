from typing import Literal

RecommendUserFallback = Literal["latest", "none", "popular", "trending"]

RECOMMEND_USER_FALLBACK_VALUES: set[RecommendUserFallback] = {
    "latest",
    "none",
    "popular",
    "trending",
}


def check_recommend_user_fallback(value: str) -> RecommendUserFallback:
    if value in RECOMMEND_USER_FALLBACK_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {RECOMMEND_USER_FALLBACK_VALUES!r}"
    )
