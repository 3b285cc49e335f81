"""Maps an error to the message of the command line and to its exit status."""

from __future__ import annotations

from pydantic import ValidationError

from gpu.base.errors import EngineError, InvalidInput
from service.base.errors import InvalidRequest, NotFound, ServiceError
from service.base.validation import reason_of
from service.cli.console import BAD_USAGE, FAILED
from service.cli.files.errors import InvalidRatingsFile
from service.settings.errors import InvalidSetting

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
    """The exit status for an error; None for an unforeseen one."""
    if isinstance(error, BAD_INPUT):
        return BAD_USAGE
    return FAILED if isinstance(error, EngineError | ServiceError | OSError) else None


def message(error: Exception) -> str:
    """The error as one line for people."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"Invalid {error.filename}: {error.strerror}"
    if not isinstance(error, ValidationError):
        return str(error)
    faults = []
    for problem in error.errors():  # of a setting each; no message repeats a value that may be a secret
        name = ".".join(map(str, problem["loc"]))
        is_secret = "_key" in name or name == "redis" or "@" in str(problem["input"])  # a URL may have a password
        reason = reason_of({**problem, "input": ...} if is_secret else problem)
        faults.append(reason if reason.startswith("Invalid ") else f"Invalid {name}: {reason[0].lower()}{reason[1:]}")
    return "; ".join(faults)
