"""`Prequential`: tests live models on ratings and events before they learn them ("test, then train").

A sample of each batch is tested, see `Pairs`: of a busy stream `TESTED_PER_S` pairs a second, so that tests take little
of the time of those who wait for lists. The next test comes when a whole sample may be tested, because one pair takes
nearly as long. Models of ratings estimate a rating; the others rank the item among 99 that were drawn. Only pairs that
the model has not learned are tests. What is counted is lost with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import are_likes
from gpu.ranking import topn
from service.engine.models.live_model import LiveModel
from service.engine.models.model_quality import ModelQuality
from service.engine.models.prequential_pairs import N_TESTED, Faced, Pairs, ranks_of, rivals_of
from service.engine.queries.batches import AnswerTo
from service.engine.queries.quality_queries import BASELINES, REASONS, GetQuality, QualityReport, Span
from service.engine.state.history import History
from service.engine.state.rating_runs import RatingRun
from service.telemetry.metrics import Metrics

HIT = 10  # places; an item among the first ones is a hit
TESTED_PER_S, MOST_SAVED = 320, 3200  # pairs a second of the stream, and how many a slower one may save
SHRINKAGE = 10  # ratings of the model's mean that are added to those of a user, in the mean of the user


class Prequential:
    """Tests models, and tells the results. Belongs to the engine thread.

    Attributes:
        answer_to: for each type of query the method that answers it.
    """

    def __init__(self, history: History, named: Callable[[str], LiveModel], metrics: Metrics) -> None:
        """`named`: the live model or shadow of a name; raises `UnknownModel`."""
        self._history, self._named, self._metrics = history, named, metrics
        self._qualities: dict[str, ModelQuality] = {}
        self._may_test, self._last_ms = float(MOST_SAVED), history.position.ms
        self.answer_to: dict[type, AnswerTo] = {GetQuality: self.report}

    def test(self, live_models: Sequence[LiveModel], runs: Sequence[RatingRun]) -> None:
        """Test `live_models` on a sample of `runs`, which neither they nor the history have applied."""
        as_of = max(run.entries[-1].id for run in runs)
        saved = self._may_test + max(as_of.ms - self._last_ms, 0) * TESTED_PER_S / 1000
        self._may_test, self._last_ms = min(saved, MOST_SAVED), as_of.ms
        if not live_models or self._may_test < N_TESTED or (pairs := Pairs.of(runs, self._history)) is None:
            return
        self._may_test -= len(pairs.users)
        tables = {id(model.table): model.table for model in live_models}
        faced = {key: Faced.of(pairs, table) for key, table in tables.items()}
        for live_model in live_models:
            quality = self._quality(live_model)
            tests = _tests_of(live_model, pairs, faced[id(live_model.table)], quality)
            if len(tests.users):
                results = _results(live_model, tests)
                for measure, value in _gauges_of(quality).items() if not quality.n else ():
                    self._metrics.model_quality.labels(live_model.name, measure).set_function(value)
                quality.add(results, live_model.shown_version, str(as_of))

    def drop(self, name: str) -> None:
        """Forget the results of a model that is live no longer."""
        quality = self._qualities.pop(name, None)
        for measure in _gauges_of(quality) if quality and quality.n else ():
            self._metrics.model_quality.remove(name, measure)

    def report(self, query: GetQuality, as_of: str) -> QualityReport:
        """The answer to `query`."""
        live_model = self._named(query.model)
        return self._quality(live_model).report(live_model, as_of)

    def _quality(self, live_model: LiveModel) -> ModelQuality:
        quality = self._qualities.get(live_model.name)
        if quality is None or (quality.measure == "hit_rate") != live_model.model.is_implicit:
            self.drop(live_model.name)
            quality = self._qualities[live_model.name] = ModelQuality(live_model, str(self._history.position))
        return quality


def _gauges_of(quality: ModelQuality) -> dict[str, Callable[[], float]]:
    """What the gauges of a model read, by measure, once there is a result."""

    def of(span: Span, field: Literal["value", "baseline"]) -> Callable[[], float]:
        return lambda: getattr(quality.result(span), field)

    measure = quality.measure
    baseline = f"{BASELINES[measure]}_{measure}"
    return {
        measure: of("window", "value"),
        baseline: of("window", "baseline"),
        f"{measure}_decayed": of("decayed", "value"),
        f"{baseline}_decayed": of("decayed", "baseline"),
    }


def _tests_of(live_model: LiveModel, pairs: Pairs, faced: Faced, quality: ModelQuality) -> Pairs:
    """The pairs on which a model is tested; counts the others."""
    is_implicit, values = live_model.model.is_implicit, pairs.values
    are_told = ~np.isnan(values) & (live_model.learns_events | ~pairs.are_events)
    if is_implicit:
        are_told &= np.where(pairs.are_events, values > 0, are_likes(values, live_model.model.middle))
    are_tests = are_told & faced.have_users & faced.have_items & faced.are_new
    are_tests &= (pairs.users < live_model.model.n_users) & (pairs.items < live_model.model.n_items)
    rows = topn.rows_of(live_model.table.rows, pairs.users[are_tests])
    are_tests[are_tests] = live_model.are_personal(rows)
    of_users, of_items = are_told & ~faced.have_users, are_told & faced.have_users & ~faced.have_items
    of_repeats = are_told & faced.have_users & faced.have_items & ~faced.are_new
    unknown = are_told & ~(are_tests | of_items | of_repeats)  # to the service, or only to this model
    for reason, which in zip(REASONS, (of_users | unknown, of_items, of_repeats, ~are_told), strict=True):
        quality.untested[reason] += int(np.count_nonzero(which))
    return pairs.where(are_tests)


def _results(live_model: LiveModel, tests: Pairs) -> NDArray[np.float64]:
    """Results of the model and its baseline, float64 (P, 2), see `ModelQuality.add`."""
    model, table = live_model.model, live_model.table
    users, rows = topn.users_of(model, tests.users), live_model.rows_of(tests.users)
    if model.is_implicit:
        rivals = rivals_of(tests, table, min(model.n_items, table.n_items))
        scores = topn.scores(model, users, rows, rivals), table.item_counts[rivals]
        return np.stack([ranks_of(one, rivals) < HIT for one in scores], axis=1).astype(np.float64)
    estimates = topn.estimate(model, users, rows, tests.items[:, None])[:, 0]
    sums = np.array([table.row(user)[1].sum(dtype=np.float64) for user in tests.users.tolist()])
    means = (sums + SHRINKAGE * model.mean) / (rows.lengths + SHRINKAGE)
    ratings = np.clip(tests.values, *model.scale).astype(np.float64)
    return np.stack([(ratings - estimates) ** 2, (ratings - np.clip(means, *model.scale)) ** 2], axis=1)
