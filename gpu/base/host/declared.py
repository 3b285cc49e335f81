"""`called_for`: a kernel says in what part of the program Python calls it, and is then compiled before the first call.

The annotations of a kernel are its signature:

* `NDArray[np.float32]` is an array of one axis, in C order; `Annotated[NDArray[np.float32], 2]` has two.
* `Annotated[NDArray[Any], np.float32, 2]` takes any values, and Python calls it with float32.
* `int` and `float` have 64 bits; of `int | np.integer` the first counts.
* A tuple with names has the types of its fields; `Annotated[Groups, {"users": np.int32}]` says which one of `Any`.
* `Annotated[NDArray[Any], (np.int32, np.int64)]` stands for two signatures; all such arguments have the same dtype.

A kernel that only other kernels call declares nothing: it is compiled with them.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType, UnionType
from typing import Any, TypeVar

import numpy as np
from numba import types
from numba.np.numpy_support import from_dtype

Declared = TypeVar("Declared", bound=Callable[..., Any])
_FIELD = "_called_for"
NO_FIELDS: Mapping[str, Any] = MappingProxyType({})


class Use(enum.Enum):
    """What Python calls a kernel for; `service.engine.compilation` says which model has which uses."""

    READING = "ratings and events are read, whatever the models"
    ANSWERS = "any model answers"
    RANKING = "a model makes lists on the host"
    RANKING_ON_DEVICE = "a model makes lists on a device"
    FACTORS = "a model with factors answers"
    ITEM_WEIGHTS = "a model with weights between items answers"
    LISTS = "items list those that are liked together with them"
    EXACT = "linear systems are solved to learn"
    EXACT_IMPLICIT = "the same, where what nobody rated counts"
    EXACT_EXPLICIT = "the same, where only ratings count"
    GRAMS = "sums over all items are made to learn"
    SAMPLED = "a user without a row is fitted by gradients"
    USERS = "users are refitted by gradients on the host"
    ITEMS = "items are refitted by gradients on the host"
    NEW_ITEMS = "users are refitted on the host once their new items are known"
    HASHED = "neighbors are found by hashing on the host"
    ABSENCES = "users who have not rated an item are drawn on the host"
    RIVALS = "a model of likes is tested on what it learns next"
    DRIFT = "trained items learn"
    SAMPLED_DRIFT = "the same, by gradients"
    HASHED_DRIFT = "the same, of items with neighbors"
    TRAINING = "a model is trained"


def called_for(*uses: Use) -> Callable[[Declared], Declared]:
    """Declare that Python calls a kernel for these uses, with the types of its annotations."""

    def declare(kernel: Declared) -> Declared:
        setattr(kernel, _FIELD, frozenset(uses))
        return kernel

    return declare


def uses_of(kernel: Any) -> frozenset[Use]:
    """The uses for which Python calls a kernel; empty if only kernels call it."""
    uses: frozenset[Use] = getattr(kernel, _FIELD, frozenset())
    return uses


def signatures(kernel: Any) -> list[tuple[types.Type, ...]]:
    """The types of arguments with which Python calls a kernel, one tuple a form."""
    hints = typing.get_type_hints(kernel.py_func, include_extras=True)
    hints.pop("return")
    several = [one for hint in hints.values() for one in getattr(hint, "__metadata__", ()) if isinstance(one, tuple)]
    return [tuple(_type(hint, form=form) for hint in hints.values()) for form in (several[0] if several else [None])]


def _type(
    hint: Any, n_axes: int = 1, dtype: Any = None, fields: Mapping[str, Any] = NO_FIELDS, form: Any = None
) -> Any:
    """The type of the compiler for an annotation; `form` is one of its dtypes if there are several."""
    arguments, origin = typing.get_args(hint), typing.get_origin(hint) or hint
    if hasattr(origin, "__value__"):  # an alias by `type`, as `NDArray` is from NumPy 2.5 on
        return _type(origin.__value__[arguments], n_axes, dtype, fields, form)
    if hasattr(hint, "__metadata__"):
        extra = {type(one): one for one in hint.__metadata__}
        dtype = form if tuple in extra else extra.get(type)
        return _type(hint.__origin__, extra.get(int, 1), dtype, extra.get(dict, NO_FIELDS))
    if origin is np.ndarray:
        return types.Array(_type(dtype or typing.get_args(arguments[1])[0]), n_axes, "C")
    if origin is tuple:
        return types.BaseTuple.from_types([_type(one) for one in arguments])
    if hasattr(origin, "_fields"):
        hints = typing.get_type_hints(origin, include_extras=True)
        return types.BaseTuple.from_types([_type(one, dtype=fields.get(name)) for name, one in hints.items()], origin)
    return _type(arguments[0]) if origin is UnionType else from_dtype(np.dtype(dtype or hint))
