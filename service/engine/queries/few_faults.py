"""Validates lists and objects of a request so that a refusal is cheap: reports few faults and counts the rest.

By default, pydantic reports a fault for each element of a long list: 300,000 empty ids took 6 s of the event loop and
gave an answer of 49 MB.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticKnownError

MAX_FAULTS = 10  # faults in one answer
MAX_UNKNOWN_NAMES = 8  # unknown names that are reported one by one; an object with more is refused as a whole
TOO_MANY_NAMES = "too_many_names"  # type of our own fault
PART = 1000  # elements
LEFT_OUT = "left_out"  # type of the line that counts unreported faults


def few_faults(element: Any, max_length: int) -> WrapValidator:
    """Validator of a list of `element` that reports the first `MAX_FAULTS` faults and the number of the others.

    A list longer than `max_length` is refused before its elements are validated. A long list is validated in parts, and
    no further than to a part with too many faults; those after it are not counted. The elements of this part are
    validated again one by one until there are enough faults: reading all faults out of pydantic takes 20 µs each.
    """
    judge = TypeAdapter(element).validate_python

    def judged(value: Any, judge_all: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, list) and len(value) > max_length:
            length = {"field_type": "List", "max_length": max_length, "actual_length": len(value)}
            raise PydanticKnownError("too_long", length)
        if not isinstance(value, list) or len(value) <= PART:
            return judged_part(value, 0, judge_all)
        parts = (judged_part(value[first : first + PART], first, judge_all) for first in range(0, len(value), PART))
        return [one for part in parts for one in part]

    def judged_part(part: Any, first: int, judge_all: ValidatorFunctionWrapHandler) -> Any:
        try:
            return judge_all(part)
        except ValidationError as error:
            n_more = error.error_count() - MAX_FAULTS
            if n_more <= 0 and not first:
                raise
        lines = _first_faults(part, first, judge)
        if n_more > 0:
            counted = PydanticCustomError(LEFT_OUT, "{n_more} more", {"n_more": n_more})
            lines.append(InitErrorDetails(type=counted, input=None))
        raise ValidationError.from_exception_data("list", lines)

    return WrapValidator(judged)


def _first_faults(values: Iterable[Any], first: int, judge: Any) -> list[InitErrorDetails]:
    faults: list[InitErrorDetails] = []
    for index, value in enumerate(values, first):
        try:
            judge(value)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                details: dict[str, Any] = {name: fault[name] for name in ("type", "input", "ctx") if name in fault}
                if fault["type"] == TOO_MANY_NAMES:
                    details["type"] = PydanticCustomError(TOO_MANY_NAMES, fault["msg"])
                faults.append(cast("InitErrorDetails", details | {"loc": (index, *fault["loc"])}))
            if len(faults) >= MAX_FAULTS:
                break
    return faults[:MAX_FAULTS]


def check_names(fields: Iterable[str], value: Any) -> Any:
    """Return `value`, but refuse an object with more unknown names than can be reported one by one in time."""
    if isinstance(value, dict) and len(value) > MAX_UNKNOWN_NAMES:
        names = list(fields)
        if len(value) > len(names) + MAX_UNKNOWN_NAMES:
            message = "expected {names}, got {n} names"
            expected = f"no names but {', '.join(names)}" if names else "no names"
            raise PydanticCustomError(TOO_MANY_NAMES, message, {"names": expected, "n": len(value)})
    return value


class Strict(BaseModel):
    """Refuses unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        return check_names(cls.model_fields, value)
