"""What the command line says about an error, and with which status it ends."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from gpu.errors import EngineError, InvalidInput
from service.cli.console import BAD_USAGE, FAILED
from service.errors import InvalidRatingsFile, InvalidRequest, InvalidSetting, NotFound, ServiceError
from service.validation import reason_of

BAD_INPUT = (
    InvalidInput,
    InvalidRatingsFile,
    InvalidRequest,
    InvalidSetting,
    NotFound,
    ValidationError,
    FileNotFoundError,
)


def exit_code(error: Exception) -> int | None:
    """The exit status for an error; None for one that nobody foresaw."""
    if isinstance(error, BAD_INPUT):
        return BAD_USAGE
    return FAILED if isinstance(error, EngineError | ServiceError | OSError) else None


def message(error: Exception) -> str:
    """The error in words."""
    return "; ".join(map(_refused, error.errors())) if isinstance(error, ValidationError) else str(error)


def _refused(problem: Any) -> str:
    """What is wrong with one setting; what was given is not repeated where it may be a secret."""
    name = ".".join(map(str, problem["loc"]))
    is_secret = "_key" in name or name == "redis" or "@" in str(problem["input"])  # a URL may hold a password
    reason = reason_of(problem | {"input": ...} if is_secret else problem)
    return reason if reason.startswith("Invalid ") else f"Invalid {name}: {reason[0].lower()}{reason[1:]}"
