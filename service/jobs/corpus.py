"""`Corpus`: what a training reads of the rating log, and what of it is held out to judge the model."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.ratings import Ratings
from service.engine.history import History
from service.storage.events import StreamId
from service.storage.rating_log import RatingLog


class Corpus(NamedTuple):
    """Ratings up to the watermark, and whose rows they are."""

    training: Ratings
    held_out: Ratings
    user_ids: list[str]
    item_ids: list[str]


def read_corpus(data: Path, watermark: StreamId) -> Corpus:
    """Everything in the log up to `watermark`, with the held-out pairs apart; forgotten users have no row."""
    history = History()
    history.load(RatingLog(data / "ratings"), upto=watermark)
    ratings = history.table.ratings(history.users.keys, history.items.keys)
    user_ids = history.users.ids(range(len(history.users)))
    known = np.array([user != "" for user in user_ids], dtype=np.bool_)
    users, items, values = ratings.coo()
    rows = np.cumsum(known) - 1
    keys = ratings.user_keys[known], ratings.item_keys
    is_held_out = gpu.evaluate.is_held_out(ratings.user_keys[users], ratings.item_keys[items])

    def part(keep: NDArray[np.bool_]) -> Ratings:
        shape = (int(known.sum()), ratings.n_items)
        return Ratings.from_coo(rows[users[keep]], items[keep], values[keep], shape, *keys)

    known_ids = [user for user in user_ids if user]
    item_ids = history.items.ids(range(len(history.items)))
    return Corpus(part(~is_held_out), part(is_held_out), known_ids, item_ids)


def usable(corpus: Corpus, params: gpu.Params) -> tuple[Corpus, int]:
    """The corpus without absurd ratings, and how many training ratings were; held-out ones are kept in the same range.

    One of a million would decide by how much a model errs, and so which one goes live.
    """
    training, n_far = gpu.usable(corpus.training, params)
    held_out = corpus.held_out
    if not params.is_implicit:
        held_out = held_out.clipped(*training.scale)
    return corpus._replace(training=training, held_out=held_out), n_far
