from typing import Literal

ScoredItemSource = Literal["explore", "pin"]

SCORED_ITEM_SOURCE_VALUES: set[ScoredItemSource] = {
    "explore",
    "pin",
}


def check_scored_item_source(value: str) -> ScoredItemSource:
    if value in SCORED_ITEM_SOURCE_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {SCORED_ITEM_SOURCE_VALUES!r}"
    )
