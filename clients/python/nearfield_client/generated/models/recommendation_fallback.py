from typing import Literal

RecommendationFallback = Literal["latest", "none", "popular", "trending"]

RECOMMENDATION_FALLBACK_VALUES: set[RecommendationFallback] = {
    "latest",
    "none",
    "popular",
    "trending",
}


def check_recommendation_fallback(value: str) -> RecommendationFallback:
    if value in RECOMMENDATION_FALLBACK_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {RECOMMENDATION_FALLBACK_VALUES!r}"
    )
