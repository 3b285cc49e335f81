"""Turns validation errors of pydantic and msgspec into sentences for people, for requests and the command line."""

from __future__ import annotations

import re
from typing import Any

MAX_SHOWN = 80  # characters of a value in a message
_WORDS_OF_PYDANTIC = {
    "extra_forbidden": "expected no such name",
    "missing": "expected a value, got none",
    "int_parsing": "expected a whole number",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "int_parsing_size": "expected a whole number of usual size",
    "float_parsing": "expected a number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "string_type": "expected text",
    "list_type": "expected a list",
    "dict_type": "expected an object",
    "model_type": "expected an object",
    "model_attributes_type": "expected an object",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected {ge} or more",
    "less_than_equal": "expected at most {le}",
    "literal_error": "expected {expected}",
    "string_too_short": "expected text of at least {min_length} characters",
    "string_too_long": "expected text of at most {max_length} characters",
    "too_short": "expected a list of {min_length} or more, got {actual_length}",
    "too_long": "expected at most {max_length:,} elements, got {actual_length}",
    "json_invalid": "expected JSON, got something else ({error})",
}
_NAMED_BY_PLACE = ("extra_forbidden",)  # the place already has the name
# Names of types in messages of msgspec.
_KINDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "nothing",
}
_LENGTH = re.compile(r"text of length (>=|<=) (\d+)")


def reason_of(fault: Any) -> str:
    """What was expected, and what was given if it is a single value that the place does not already name.

    Args:
        fault: one of `ValidationError.errors()`.
    """
    words = _WORDS_OF_PYDANTIC.get(fault["type"])
    if words is not None:
        context = fault.get("ctx", {})
        if "actual_length" in context:
            length = context["actual_length"]
            context = context | {"actual_length": "more" if length is None else f"{length:,}"}
        reason = words.format(**context)
    else:
        reason = str(fault["msg"]).removeprefix("Value error, ")
    value = fault["input"]
    is_complete = "got" in reason or fault["type"] in _NAMED_BY_PLACE or not isinstance(value, str | int | float | None)
    return reason if is_complete else f"{reason}, got {repr(value)[:MAX_SHOWN]}"


def in_words(message: str) -> str:
    """Rephrase a message of msgspec about a type, a length or a field, without names of types."""
    text = message.replace(" | null", "")
    if text == "Number out of range":
        return "expected a number of usual size, got one with too many digits"
    if match := re.fullmatch(r"Object missing required field `(\w+)`", text):
        return f"expected a field {match[1]}, got none"
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL):
        return f"expected no field {match[1][:MAX_SHOWN]}"
    text = re.sub(r"`(\w+)`", lambda kind: _KINDS.get(kind[1], kind[1]), text)
    text = _LENGTH.sub(_length_in_words, text)
    return text[:1].lower() + text[1:].replace("`", "")


def _length_in_words(match: re.Match[str]) -> str:
    end = "least" if match[1] == ">=" else "most"
    return f"text of at {end} {match[2]} character{'' if match[2] == '1' else 's'}"
