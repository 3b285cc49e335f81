"""What all that answers queries shares; see `service.engine.queries`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from gpu.ranking.eligible import Eligible
from service.engine.queries import Recommend

AnswerTo = Callable[[Any, str], Any]  # answers one query, at a position of the stream


def of_each(function: Callable[[Recommend], Any], queries: Sequence[Recommend]) -> list[Any]:
    """`function` of each query; a query of several users occurs several times and is computed once."""
    if len(queries) == 1:
        return [function(queries[0])]
    distinct = {id(query): query for query in queries}
    values = {key: function(query) for key, query in distinct.items()}
    return [values[id(query)] for query in queries]


def count_of(eligible: Eligible | None) -> int | UnsetType:
    """The field `eligible` of an answer."""
    return UNSET if eligible is None else eligible.count
