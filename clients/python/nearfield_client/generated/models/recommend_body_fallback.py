from typing import Literal

RecommendBodyFallback = Literal["latest", "none", "popular", "trending"]

RECOMMEND_BODY_FALLBACK_VALUES: set[RecommendBodyFallback] = {
    "latest",
    "none",
    "popular",
    "trending",
}


def check_recommend_body_fallback(value: str) -> RecommendBodyFallback:
    if value in RECOMMEND_BODY_FALLBACK_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {RECOMMEND_BODY_FALLBACK_VALUES!r}"
    )
