from typing import Literal

ScenarioBodyFallback = Literal["latest", "none", "popular", "trending"]

SCENARIO_BODY_FALLBACK_VALUES: set[ScenarioBodyFallback] = {
    "latest",
    "none",
    "popular",
    "trending",
}


def check_scenario_body_fallback(value: str) -> ScenarioBodyFallback:
    if value in SCENARIO_BODY_FALLBACK_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {SCENARIO_BODY_FALLBACK_VALUES!r}"
    )
