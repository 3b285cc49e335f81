"""Ranges of hyperparameters, and their conversion from text; see `gpu.data.param_kinds`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, get_args

from gpu.base.errors import InvalidParams

if TYPE_CHECKING:
    from gpu.data.param_kinds import Params

MAX_SIZE = 1e30  # of any number that is looked at more closely; every range is narrower
MAX_SHOWN = 80  # characters of a refused value
# (parameter, its value) -> the values that other parameters may have beside it, or `DEFAULT` or `GIVEN`
Together = Mapping[tuple[str, Any], Mapping[str, Any]]
# Anything but None; nothing but the default, since the parameter has no effect. With calibration such a parameter is
# accepted, as in snapshots of older versions.
GIVEN, DEFAULT = "given", "default"

RENAMED = {"n_neighbours": "n_neighbors"}  # parameters, by the name of older versions

_RANGES: dict[str, tuple[float, float]] = {
    "n_factors": (1, 1024),
    "n_neighbors": (0, 1024),
    "popularity_exponent": (0, 1),
    "popularity_prior": (0, 1e6),
    "activity_exponent": (0, 1),
    "max_likes": (2, 100_000),
    "n_epochs": (1, 10_000),
    "n_negatives": (1, 100),
    "n_bits": (64, 16_384),
    "key_bits": (1, 64),
    "learning_rate": (0, 10),
    "learning_rate_decay": (0, 10),
    "weight_learning_rate": (0, 10),
    "n_cg_steps": (1, 1000),
    "cg_tolerance": (0, 1),
    "alpha": (1e-6, 1e6),
    "event_weight": (0, 1e3),
    "half_life_days": (1e-3, 1e6),
    "decay_items": (0.1, 1e4),
    "old_weight": (0, 1),
    "window": (1, 1000),
    "regularization": (0, 1e6),
    "item_regularization": (0, 1e6),
    "regularization_exponent": (0, 2),
    "bias_regularization": (0, 1e6),
    "weight_regularization": (0, 1e6),
    "seed": (0, 2**63 - 1),
    "tile": (0, 1024),
    "tolerance": (0, 1),
}


def check_names(algorithm: str, names: set[str], asked: Iterable[str]) -> None:
    """Check that `algorithm` has parameters of all these names.

    Raises:
        InvalidParams: it lacks one; for a name of an older version the message has the new name.
    """
    for name in asked:
        if RENAMED.get(name) in names:
            raise InvalidParams(f"Invalid parameter of {algorithm}: {name!r} is called {RENAMED[name]!r} now")
        if name not in names:
            raise InvalidParams(f"Invalid parameter of {algorithm}: expected one of {sorted(names)}, got {name!r}")


def converted(name: str, value: Any, wanted: Any) -> Any:
    """`value` as the type `wanted`; text ("32", "auto") is taken apart.

    Raises:
        InvalidParams: it is no such number.
    """
    if isinstance(value, int) and abs(value) > MAX_SIZE:  # Python refuses to write out one of 5,000 digits
        raise InvalidParams(f"Invalid {name}: expected a number of at most {MAX_SIZE:g}, got a larger one")
    if type(None) in get_args(wanted):
        if value is None or value == "auto":
            return None
        wanted = int if int in get_args(wanted) else float
    if wanted is bool and str(value).lower() in _TRUTH:
        return _TRUTH[str(value).lower()]
    if wanted not in (int, float):
        return value
    number = _number(name, value)
    if wanted is float:
        return float(number)
    if number != number.to_integral_value():
        raise InvalidParams(f"Invalid {name}: expected a whole number, got {_shown(value)}")
    return int(number)


def _number(name: str, value: Any) -> Decimal:
    """A finite number of at most `MAX_SIZE`: 1e999999999 as a whole number would fill the memory."""
    try:
        number = Decimal(str(value))  # not float: it would lose the last bits of a large seed
    except InvalidOperation:
        raise InvalidParams(f"Invalid {name}: expected a number, got {_shown(value)}") from None
    if not number.is_finite():
        raise InvalidParams(f"Invalid {name}: expected a finite number, got {_shown(value)}")
    if number.copy_abs() > MAX_SIZE:  # abs() would round, and overflow
        raise InvalidParams(f"Invalid {name}: expected a number of at most {MAX_SIZE:g}, got {_shown(value)}")
    return number


def _shown(value: Any) -> str:
    """`value` as text for a message, shortened to `MAX_SHOWN` characters."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def check_ranges(params: Params) -> None:
    """Check that every field of `params`, an instance of `gpu.data.param_kinds.Params`, is within its range.

    Raises:
        InvalidParams: one is not.
    """
    for field in dataclasses.fields(params):
        value = getattr(params, field.name)
        if value is None:  # from the data
            continue
        limits = range_of(params, field.name)
        if limits is not None:
            low, high = limits
            if not (math.isfinite(value) and low <= value <= high):
                raise InvalidParams(f"Invalid {field.name}: expected {low:g} to {high:g}, got {value}")
        elif value not in (choices := choices_of(params, field.name)):
            raise InvalidParams(f"Invalid {field.name}: expected one of {choices}, got {_shown(value)}")


def check_together(params: Params) -> None:
    """Check that no field of `params` has a value that another one rules out (`Params.together`).

    Raises:
        InvalidParams: one has; the message names both.
    """
    for (other, value), allowed in params.together.items():
        if getattr(params, other) != value:
            continue
        beside = f"{other}={_written(value)}"
        for field in dataclasses.fields(params):
            rule, given = allowed.get(field.name), getattr(params, field.name)
            expected = ""
            if rule == GIVEN and given is None:
                expected = f"a number beside {beside}, which computes none from the data"
            elif rule == DEFAULT and given != field.default and not params.is_calibrated:
                expected = f"{_written(field.default)} beside {beside}, which ignores it"
            elif isinstance(rule, tuple) and given not in rule:
                expected = f"{' or '.join(map(_written, rule))} beside {beside}"
            if expected:
                raise InvalidParams(f"Invalid {field.name}: expected {expected}, got {_written(given)}")


def _written(value: Any) -> str:
    """`value` as people give it."""
    if value is None:
        return "auto"
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def range_of(params: Params | type[Params], name: str) -> tuple[float, float] | None:
    """The range of a parameter of `params`, a class or an instance; None if it has choices."""
    limits: tuple[float, float] | None = params.ranges.get(name) or _RANGES.get(name)
    return limits


def choices_of(params: Params | type[Params], name: str) -> tuple[Any, ...]:
    """The only values of a parameter, see `range_of`; empty if it has a range."""
    choices: tuple[Any, ...] = params.choices.get(name) or _CHOICES.get(name, ())
    return choices


_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_CHOICES: dict[str, tuple[Any, ...]] = {
    "solver": ("cg", "cholesky"),
    "precision": ("float16", "float32"),
    "biases": (True, False),
    "deterministic": (True, False),
    "similarity": ("simlsh", "keys", "gsm", "minhash", "rp_cos", "random"),
    "psi": ("residual", "linear", "power", "fourth"),
    "start": ("random", "nndsvd"),
    "values": ("auto", "ratings", "counts"),
    "confidence": ("auto", "linear", "log", "ones"),
    "calibration": ("data", "none"),
}
