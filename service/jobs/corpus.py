"""`Corpus`: the ratings that a training reads from the rating log, and those held out to judge the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.data.ratings import Occasions, Ratings
from gpu.data.recency import places_back
from service.engine.state.catalog import Catalog
from service.engine.state.history import History
from service.engine.state.strength_rows import NewestOccasions
from service.settings.event_types import DEFAULT_TYPES, EventTypes
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog

# Of the lists that judge a model, in which each user takes a score of each item; of more, some users stand for all. Two
# cores take minutes for as many.
MOST_SCORES = 2**35


class Corpus(NamedTuple):
    """Ratings or strengths up to the watermark, and the ids of their rows.

    Attributes:
        held_out: never trained on; for implicit models those of some users, if there are very many scores of items.
        times: of the training pairs, as of the watermark.
        catalog: the attributes of items, by row.
        tags_of: the tags of a user, by row; None if no user has any.
        occasions: events with a weight above 0, one by one; None without any.
    """

    training: Ratings
    held_out: Ratings
    user_ids: list[str]
    item_ids: list[str]
    times: gpu.Times | None = None
    catalog: Catalog | None = None
    tags_of: Callable[[int], Mapping[str, Sequence[str]]] | None = None
    occasions: Occasions | None = None


def read_corpus(
    data: Path,
    watermark: StreamId,
    types: EventTypes = DEFAULT_TYPES,
    *,
    is_implicit: bool = False,
    is_ordered: bool = False,
) -> Corpus:
    """All pairs of the log up to `watermark`, split into training and held-out pairs.

    Forgotten users are left out. Deleted items keep their rows, but no pair.

    Args:
        data: folder with ratings/.
        watermark: stream id of the last entry to read.
        types: weights of events.
        is_implicit: whether a pair has its strength, see `service.engine.state.strengths`, instead of its rating.
        is_ordered: whether the newest pair of each user with several is held out, instead of pairs by their keys.
    """
    history = History(types)
    history.occasions = NewestOccasions() if is_implicit else None
    history.load(RatingLog(data / "ratings"), upto=watermark)
    table = history.table_of(has_strengths=is_implicit)
    ratings = table.ratings(history.users.keys, history.items.keys)
    deleted = history.catalog.deleted
    stays = ~np.pad(deleted, (0, ratings.n_items - len(deleted)))[ratings.coo()[1]]
    seconds, positions = table.seconds()[stays], table.places_in_stream()[stays]
    ratings = ratings if stays.all() else ratings.where(stays)
    user_ids = history.users.ids(range(len(history.users)))
    is_present = np.array([user != "" for user in user_ids], dtype=np.bool_)
    users, items, values = ratings.coo()
    rows = np.cumsum(is_present) - 1
    user_keys = ratings.user_keys[is_present]
    if is_ordered:
        lengths, all_count = ratings.by_user.lengths, np.ones(len(values), dtype=np.bool_)
        is_newest = places_back(lengths, all_count, seconds, positions) == 1
        is_held_out = is_newest & (lengths[users] > 1)
    else:
        is_held_out = gpu.evaluate.is_held_out(ratings.user_keys[users], ratings.item_keys[items])

    def part(keep: NDArray[np.bool_]) -> Ratings:
        shape = (int(is_present.sum()), ratings.n_items)
        return Ratings.from_coo(rows[users[keep]], items[keep], values[keep], shape, user_keys, ratings.item_keys)

    occasions = None
    if history.occasions is not None and history.occasions.parts:
        came = Occasions(*map(np.concatenate, zip(*history.occasions.parts, strict=True)))
        came = came.at(is_present[came.users] & ~np.pad(deleted, (0, ratings.n_items - len(deleted)))[came.items])
        occasions = came._replace(users=rows[came.users].astype(np.int32))
    attributes, present, held_out = history.user_attributes, np.flatnonzero(is_present), part(is_held_out)
    return Corpus(
        training=part(~is_held_out),
        held_out=held_out.of_some(MOST_SCORES // max(ratings.n_items, 1)) if is_implicit else held_out,
        user_ids=[user for user in user_ids if user],
        item_ids=history.items.ids(range(len(history.items))),
        times=gpu.Times(seconds[~is_held_out], watermark.ms / 1000, positions[~is_held_out]),
        catalog=history.catalog,
        tags_of=(lambda user: attributes.of(int(present[user])).tags) if len(attributes) else None,
        occasions=occasions,
    )


def usable(corpus: Corpus, params: gpu.Params) -> tuple[Corpus, int]:
    """The corpus with extreme outliers clipped, and the number of clipped training ratings.

    Held-out ratings are clipped to the same range: otherwise a single outlier among a million would dominate the error,
    and decide which model goes live.
    """
    training, n_far = gpu.usable(corpus.training, params)
    held_out = corpus.held_out
    if not params.is_implicit:
        held_out = held_out.clipped(*training.scale)
    return corpus._replace(training=training, held_out=held_out), n_far
