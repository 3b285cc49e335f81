"""Promotion: measures a new model on the held-out pairs, and decides whether it may go live."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.base.backend import Backend
from gpu.data.model import Model
from gpu.data.ratings import NO_MIDDLE, are_likes
from gpu.ranking.weighted import rows_in_time
from service.jobs.corpus import Corpus
from service.storage.errors import CorruptSnapshot, UnknownVersion
from service.storage.snapshots import live_versions, snapshot

MIN_HELD_OUT = 1000  # held-out pairs; with fewer, two models cannot be compared
ONE_IN = 20  # pairs is held out (`gpu.evaluate.is_held_out`)
MARGIN = 0.01  # share; a model may be this much worse than the live snapshot and still go live
RMSE, NDCG = "rmse", "ndcg@10"
BASELINES = {RMSE: "averages of users and items", NDCG: "the most popular items"}


def measure(data: Path, model: Model, corpus: Corpus, backend: Backend, model_name: str) -> dict[str, float]:
    """Metrics on the held-out pairs: RMSE, or NDCG@10 for implicit models; empty if there are no such pairs.

    `baseline_…` is the metric of a model without factors (`gpu.evaluate.baseline`), and `live_…` that of the live
    snapshot of `model_name`, without its online learning. All are judged by the pairs that `model` takes for likes.
    """
    if not len(corpus.held_out):
        return {}
    if model.is_implicit:
        _, _, values = corpus.held_out.coo()
        likes = are_likes(values, model.middle, model.lift)
        corpus = corpus._replace(held_out=corpus.held_out.where(likes))
    metrics = metrics_of(model, corpus, backend)
    others = {"baseline": gpu.evaluate.baseline(corpus.training, is_implicit=model.is_implicit)}
    version = live_versions.read(data).get(model_name)
    with contextlib.suppress(UnknownVersion, CorruptSnapshot):  # replacing an unreadable model loses nothing
        if version is not None:
            live = snapshot.load(data / "snapshots", version)
            user_rows, item_rows = (
                rows_among(live.user_ids, corpus.user_ids),
                rows_among(live.item_ids, corpus.item_ids),
            )
            others["live"] = live.model.mapped(user_rows, item_rows, model.n_users, model.n_items)
    for prefix, other in others.items():
        name, value = next(iter(metrics_of(other, corpus, backend).items()))
        metrics[f"{prefix}_{name}"] = value
    return finite(metrics)


def metrics_of(model: Model, corpus: Corpus, backend: Backend) -> dict[str, float]:
    """Metrics of one model; the deciding one comes first. For implicit models all held-out pairs are likes."""
    rows = rows_in_time(model, corpus.training.by_user, corpus.times)
    if model.is_implicit:
        return gpu.evaluate.ranking(model, rows, corpus.held_out, NO_MIDDLE, backend=backend)
    users, items, values = corpus.held_out.coo()
    return {RMSE: gpu.evaluate.rmse(model, rows, users, items, values)}


def objection(metrics: Mapping[str, float], n_held_out: int) -> str | None:
    """Why a model with these metrics should not go live; None if it may.

    It must beat the baseline, and be at most `MARGIN` worse than the live snapshot.
    """
    name, sign = (NDCG, -1) if NDCG in metrics else (RMSE, 1)
    if n_held_out < MIN_HELD_OUT or name not in metrics:
        return None
    ours, baseline, live_one = (metrics.get(key) for key in (name, f"baseline_{name}", f"live_{name}"))
    assert ours is not None  # noqa: S101 - checked above; this narrows the type
    result = f"{name} on {n_held_out:,} held-out pairs is {ours:.4f}"
    if baseline is not None and sign * ours >= sign * baseline:
        return f"{result}, no better than {BASELINES[name]} ({baseline:.4f})"
    if live_one is not None and sign * ours > sign * live_one + MARGIN * live_one:
        return f"{result}, and {live_one:.4f} of the live snapshot"
    return None


def untested(n_held_out: int) -> tuple[str, ...]:
    """That too few pairs are held out to compare a model with anything, and what a test would need."""
    if n_held_out >= MIN_HELD_OUT:
        return ()
    needed = f"{MIN_HELD_OUT:,} held-out pairs (about {ONE_IN * MIN_HELD_OUT:,} pairs in all)"
    return (f"promotion: nothing was tested: expected {needed}, got {n_held_out:,}",)


def change_of_kind(data: Path, model: Model, model_name: str) -> str | None:
    """Why a model should not go live whose values were taken for another kind than those of the live snapshot."""
    version = live_versions.read(data).get(model_name)
    if version is None or not model.params.has_values:
        return None
    try:
        live = snapshot.read_manifest(data / "snapshots", version)
    except (UnknownVersion, CorruptSnapshot):
        return None
    kind, was = model.calibration.values, live.calibration.values
    if live.format == 1 or kind == was or not gpu.ALGORITHMS[live.algorithm].params.has_values:
        return None  # format 1 does not say what its values were taken for
    return f"values look like {kind}, and were {was} in the live snapshot: train with values={was} or values={kind}"


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """The finite ones of `metrics`: JSON has no infinity and no NaN."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def rows_among(ids: Iterable[str], target_ids: list[str]) -> NDArray[np.int64]:
    """Rows of `ids` among `target_ids`; -1 for those that are not there."""
    row_of = {identifier: row for row, identifier in enumerate(target_ids)}
    return np.array([row_of.get(identifier, -1) for identifier in ids], dtype=np.int64)
