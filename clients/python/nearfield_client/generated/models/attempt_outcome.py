from typing import Literal

AttemptOutcome = Literal["delivered", "failed", "given-up"]

ATTEMPT_OUTCOME_VALUES: set[AttemptOutcome] = {
    "delivered",
    "failed",
    "given-up",
}


def check_attempt_outcome(value: str) -> AttemptOutcome:
    if value in ATTEMPT_OUTCOME_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {ATTEMPT_OUTCOME_VALUES!r}"
    )
