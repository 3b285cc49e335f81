"""Lists in which items come back: what a user has competes too, and its own count and age are a part of the score.

The score of a pair with the strength c > 0 is the model's score plus w log(1 + c) 2^(−a/h). The age a counts up to the
newest pair of the user, so nothing changes by the clock. All other items have the model's score. Their list is that of
`gpu.ranking.topn`; the items of the user are scored one by one and merged into it, so the whole is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.decay import DAY_S
from gpu.data.evidence import amounts
from gpu.data.ratings import Rows
from gpu.data.signals import Repeat
from gpu.ranking import topn
from gpu.ranking.eligible import Eligible
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.requests import Users


class Own(NamedTuple):
    """The items of a user that may come back.

    Attributes:
        items: int32 (B,), ascending.
        added: float64 (B,), added to their scores.
    """

    items: NDArray[np.int32]
    added: NDArray[np.float64]


def parts_of(repeat: Repeat, values: NDArray[np.float32], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is added to the scores of the pairs of a user, float64 (B,); 0 for strengths of 0 or less.

    Args:
        values: strengths (`gpu.data.evidence`).
        seconds: their times, Unix seconds.
    """
    parts: NDArray[np.float64] = repeat.weight * np.log1p(np.maximum(amounts(values), 0).astype(np.float64))
    if repeat.half_life_days and len(seconds):
        parts *= np.exp2((seconds - seconds.max()) / (repeat.half_life_days * DAY_S))
    return parts


def recommend(
    index: ItemIndex,
    users: Users,
    rows: Rows,
    own: Sequence[Own],
    n: int,
    *,
    offset: int = 0,
    exclude: Sequence[NDArray[np.integer]] | None = None,
    candidates: Sequence[NDArray[np.integer] | None] | None = None,
    eligible: Sequence[Eligible | None] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """As `topn.recommend`, but the items in `own` of each user compete too, and others that the user has do not.

    Args:
        own: without items that the index hides; their lifts are in what is added.
    """
    width, model = offset + n, index.model
    conditions = {"exclude": exclude, "candidates": candidates, "eligible": eligible}
    pages = [
        topn.recommend(index, users, rows, min(topn.MAX_N, width - first), offset=first, **conditions)  # type: ignore[arg-type]
        for first in range(0, width, topn.MAX_N)
    ]
    items, scores = (np.concatenate(column, axis=1) for column in zip(*pages, strict=True))
    for b, (had, parts) in enumerate(own):
        keep = np.ones(len(had), dtype=np.bool_)
        if exclude is not None:
            keep &= ~np.isin(had, exclude[b])
        for allowed in (
            None if candidates is None else candidates[b],
            None if eligible is None or eligible[b] is None else eligible[b].among(had),  # type: ignore[union-attr]
        ):
            if allowed is not None:
                keep &= np.isin(had, allowed)
        come, one = had[keep], np.array([b])
        of_user = Users(*(column[one] for column in users))
        found = topn.scores(model, of_user, topn.rows_of(rows, one), come[None])[0] + parts[keep]
        both, values = np.append(items[b], come), np.append(scores[b], found.astype(np.float32))
        best = np.lexsort((both, -values))[:width]
        items[b], scores[b] = both[best], values[best]
    items[scores == -np.inf] = -1
    return items[:, offset:], scores[:, offset:]
