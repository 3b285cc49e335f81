"""Lists and objects of a request, judged so that a refused one costs little: few faults are told, the rest is counted.

Without it each element of a long list is a fault of its own: 300,000 empty ids took 6 s of the event loop and gave an
answer of 49 MB.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticKnownError

MAX_FAULTS = 10  # that one answer tells
MAX_UNKNOWN_NAMES = 8  # that are told one by one; an object with more is refused as a whole
TOO_MANY_NAMES = "too_many_names"  # type of a fault that is ours
LEFT_OUT = "left_out"  # type of the line that counts the faults which are not told


def few_faults(element: Any, max_length: int) -> WrapValidator:
    """For a list of `element`: the first `MAX_FAULTS` faults with their places, and how many more there are.

    A list of more than `max_length` is refused before an element is judged. One that is in order is judged at once. In
    one that is not, elements are judged one by one until enough faults are found, because to read all faults out of
    pydantic takes 20 µs each.
    """
    judge = TypeAdapter(element).validate_python

    def judged(value: Any, judge_all: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, list) and len(value) > max_length:
            length = {"field_type": "List", "max_length": max_length, "actual_length": len(value)}
            raise PydanticKnownError("too_long", length)
        try:
            return judge_all(value)
        except ValidationError as error:
            n_more = error.error_count() - MAX_FAULTS
            if n_more <= 0:
                raise
        counted = PydanticCustomError(LEFT_OUT, "{n_more} more", {"n_more": n_more})
        lines = [*_first_faults(value, judge), InitErrorDetails(type=counted, input=None)]
        raise ValidationError.from_exception_data("list", lines)

    return WrapValidator(judged)


def _first_faults(values: Iterable[Any], judge: Any) -> list[InitErrorDetails]:
    found: list[InitErrorDetails] = []
    for index, value in enumerate(values):
        try:
            judge(value)
        except ValidationError as error:
            found += [_line(fault, index) for fault in error.errors(include_url=False)]
            if len(found) >= MAX_FAULTS:
                break
    return found[:MAX_FAULTS]


def _line(fault: Any, index: int) -> InitErrorDetails:
    known = {name: fault[name] for name in ("type", "input", "ctx") if name in fault}
    if fault["type"] == TOO_MANY_NAMES:
        known["type"] = PydanticCustomError(TOO_MANY_NAMES, fault["msg"])
    return cast("InitErrorDetails", known | {"loc": (index, *fault["loc"])})


def check_names(known: Iterable[str], given: Any) -> Any:
    """`given`, unless it is an object with so many unknown names that to tell them one by one would be an attack."""
    if isinstance(given, dict) and len(given) > MAX_UNKNOWN_NAMES:
        names = list(known)
        if len(given) > len(names) + MAX_UNKNOWN_NAMES:
            message = "expected {names}, got {n} names"
            expected = f"no names but {', '.join(names)}" if names else "no names"
            raise PydanticCustomError(TOO_MANY_NAMES, message, {"names": expected, "n": len(given)})
    return given
