"""The form of a training: a field for each parameter of an algorithm, from the algorithm's own table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from gpu.algorithms import params_for
from gpu.data import param_docs, param_ranges
from service.api.routes.admin import Retrain
from service.base.errors import InvalidRequest
from service.jobs.training import Training
from service.storage.snapshots.manifest import StoredCalibration

PREFIX = "param."  # of the names of parameters among the fields
FROM_DATA, NONE = "from the data", "none"
# What becomes of the model: a value of the field `then` -> what the form says, and the flags of the training.
THEN = {
    "live": ("goes live if it is good enough", {"activate": True}),
    "forced": ("goes live even if it is not", {"activate": True, "force": True}),
    "shadow": ("only learns beside the others (shadow)", {"activate": False, "shadow": True}),
    "snapshot": ("waits until you activate it", {"activate": False}),
}
_WORD = re.compile(r"[a-z]{3,}\b")


class Field(NamedTuple):
    """One parameter.

    Attributes:
        default: as text; empty if there is none.
        otherwise: what holds without a value and a default.
        low, high: its range; None if it has choices.
        choices: the only values, as text; empty if it has a range.
        meaning: what it does, from the documentation of the algorithm; may be empty.
    """

    name: str
    default: str
    otherwise: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    meaning: str


def fields_of(algorithm: str) -> list[Field]:
    """The parameters of an algorithm, in the order of its table. Raises what `params_for` raises."""
    kind = type(params_for(algorithm, {}))
    meanings = param_docs.meanings(kind)
    fields = []
    for field in dataclasses.fields(kind):
        default = "" if field.default is None else text_of(field.default)
        otherwise = FROM_DATA if field.name in StoredCalibration.__struct_fields__ else NONE
        low, high = param_ranges.range_of(kind, field.name) or (None, None)
        choices = tuple(map(text_of, param_ranges.choices_of(kind, field.name)))
        meaning = meanings.get(field.name, "")
        if _WORD.match(meaning):  # no symbol or value, such as `h` and `cg`
            meaning = meaning[:1].upper() + meaning[1:]
        fields.append(Field(field.name, default, otherwise, low, high, choices, meaning))
    return fields


def training_of(form: Mapping[str, str]) -> Training:
    """What a form asks for. Fields that are empty are left to their defaults.

    Raises:
        RequestValidationError: a value cannot be used.
        InvalidParams, InvalidRequest: see `Training.of`; or no model can become that.
    """
    then = form.get("then", "")
    if then not in THEN:
        raise InvalidRequest(f"Invalid then: expected one of {', '.join(THEN)}, got {then!r}: choose one in the form")
    params = {name.removeprefix(PREFIX): text.strip() for name, text in form.items() if name.startswith(PREFIX)}
    body = {
        "algorithm": form.get("algorithm"),
        "params": {name: text for name, text in params.items() if text},
        "name": form.get("name", "").strip() or None,
        "tune": "tune" in form,
        **THEN[then][1],
    }
    try:
        return Retrain.model_validate(body).judged()
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None


def text_of(value: Any) -> str:
    """A value as people write it in the form."""
    return str(value).lower() if isinstance(value, bool) else str(value)
