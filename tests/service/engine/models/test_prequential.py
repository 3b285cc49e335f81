"""Test, then train: against a slow plain oracle, on random streams."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from service.engine.models import prequential_pairs
from service.engine.models.live_model import LiveModel
from service.engine.models.model_quality import HALF_LIFE, N_POINTS, PER_POINT, WINDOW, ModelQuality
from service.engine.models.prequential import HIT, MOST_SAVED, SHRINKAGE, TESTED_PER_S, Prequential
from service.engine.models.prequential_pairs import N_DRAWN, N_RIVALS, N_TESTED
from service.engine.queries.quality_queries import REASONS, GetQuality
from service.engine.state.history import History
from service.engine.state.rating_runs import runs_of
from service.storage.errors import UnknownModel
from service.storage.events import Entry, Merge, RatingEvent, StreamId, TypedEvent
from service.telemetry.metrics import Metrics
from tests import reference
from tests.service.engine.test_learned_events import history_of, learn, live, ranking_of, trained
from tests.service.planted import entries, liking

MASK = 2**64 - 1


def batches(seed: int, n: int = 12) -> list[list[Entry]]:
    """Ratings, deletions and events of known and new users and items; some batches hold several entries."""
    random = np.random.default_rng(seed)
    made = []
    for batch in range(n):
        given = []
        for part in range(int(random.integers(1, 4))):
            ids = random.integers(0, 70, (int(random.integers(1, 60)), 2)).tolist()
            pairs = [(f"u{user}", f"i{item % 45}", liking(user, item)) for user, item in ids]
            stream_id = StreamId(10_000 + 10 * batch + part, part)
            if random.random() < 0.3:
                types = random.choice(["rate", "purchase", "dislike", "impression"], len(pairs)).tolist()
                typed = zip(pairs, types, strict=True)
                events = [TypedEvent(user, item, kind, 1.0, 9.0) for (user, item, _), kind in typed]
                given.append(Entry(stream_id, "event", events=events))
            else:
                ratings = [RatingEvent(*one, 9.0) for one in pairs]
                ratings.append(RatingEvent("u1", "i1", None, 9.0))
                given.append(Entry(stream_id, "rating", ratings))
            if random.random() < 0.5:
                user, into = (f"u{one}" for one in random.choice(70, 2, replace=False).tolist())
                then, is_merge = StreamId(10_000 + 10 * batch + 1 + part, 0), random.random() < 0.7
                merge, forget = Entry(then, "merge", merge=Merge(user, into)), Entry(then, "forget", subject=user)
                given.append(merge if is_merge else forget)
        made.append(given)
    return made


class Oracle:
    """The results and reasons of one model, pair by pair."""

    def __init__(self, history: History, live_model: LiveModel) -> None:
        self.history, self.live_model = history, live_model
        self.results: list[tuple[float, float]] = []
        self.untested = {"new_user": 0, "new_item": 0, "repeated": 0, "no_like": 0}

    def test(self, given: Sequence[Entry]) -> None:
        found: list[tuple[int, RatingEvent | TypedEvent, bool]] = []
        self._next, changed = self.history._next_position, set[str]()
        for entry in given:
            changed |= {entry.merge.user, entry.merge.into} if entry.merge else {entry.subject or ""}
            rows: list[RatingEvent | TypedEvent] = [*entry.ratings, *entry.events]
            for one in rows:
                position = max(entry.id.ms * 2**21, self._next)
                self._next = position + 1
                found.append((reference.mix_64(position), one, one.user in changed))
        chosen = sorted(found, key=lambda pair: pair[0])[:N_TESTED]
        for key, one, is_changed in sorted(chosen, key=found.index):
            self._judge(key, one, is_changed)

    def _judge(self, key: int, one: RatingEvent | TypedEvent, is_changed: bool) -> None:
        history, live_model = self.history, self.live_model
        is_event, model = isinstance(one, TypedEvent), live_model.model
        value = one.value * history.types[one.type] if isinstance(one, TypedEvent) else one.rating
        if value is None or (is_event and not (model.is_implicit and live_model.learns_events)):
            reason: str | None = "no_like"
        elif model.is_implicit and (value <= 0 if is_event else value < model.middle):
            reason = "no_like"
        else:
            reason = "new_user" if is_changed else self._reason(one)
        if reason is not None:
            self.untested[reason] += 1
            return
        user, item = history.users.row(one.user), history.items.row(one.item)
        assert user is not None
        assert item is not None
        assert value is not None
        if model.is_implicit:
            self.results.append(self._hits(key, user, item))
            return
        row = live_model.table.row(user)[1].tolist()
        low, high = model.scale
        mean = min(max((sum(row) + SHRINKAGE * model.mean) / (len(row) + SHRINKAGE), low), high)
        given = min(max(value, low), high)
        self.results.append(((given - live_model.estimate(user, item)) ** 2, (given - mean) ** 2))

    def _reason(self, one: RatingEvent | TypedEvent) -> str | None:
        user, item = self.history.users.row(one.user), self.history.items.row(one.item)
        table = self.live_model.table
        if user is None or not len(table.row(user)[0]):
            return "new_user"
        if item is None or not len(table.raters(item)):
            return "new_item"
        if item in table.row(user)[0]:
            return "repeated"
        return None if self.live_model.is_personal(table.row(user)[0]) else "new_user"

    def _hits(self, key: int, user: int, item: int) -> tuple[float, float]:
        table, n_items = self.live_model.table, len(self.history.items)
        own, rivals = set(table.row(user)[0].tolist()), []
        for n in range(1, N_DRAWN + 1):
            bits = reference.mix_64((key + n * 0x9E3779B97F4A7C15) & MASK)
            rival = int((bits >> 11) * 2.0**-53 * n_items)
            if rival not in own and rival != item and len(table.raters(rival)):
                rivals.append(rival)
        rivals = rivals[:N_RIVALS]
        popularity = [float(len(table.raters(row))) for row in range(n_items)]
        model = self.live_model.model
        factors = model.user_factors[user].astype(np.float64)
        scores = [float(model.item_factors[row].astype(np.float64) @ factors) for row in range(n_items)]
        hits = []
        for numbers in (scores, popularity):
            above = sum((numbers[rival], -rival) > (numbers[item], -item) for rival in rivals)
            hits.append(float(above < HIT))
        return hits[0], hits[1]


@pytest.mark.parametrize("algorithm", ["als-implicit", "culsh", "als"])
def test_a_sample_of_each_batch_is_tested_before_it_is_learned(algorithm: str) -> None:
    history = history_of(entries())
    live_model = live(history, trained(history, algorithm))
    ranking, metrics = ranking_of(history, live_model), Metrics()
    prequential, oracle = Prequential(history, ranking.live.tested, metrics), Oracle(history, live_model)
    for given in batches(7):
        oracle.test(given)
        prequential.test(ranking.models(), runs_of(given))
        learn(history, ranking, *given)
    report = prequential.report(GetQuality(model=algorithm), "5-0")
    assert report.all.n == len(oracle.results) > 40
    assert report.untested == oracle.untested
    assert min(report.untested.values()) > 0
    value, baseline = np.mean(oracle.results, axis=0).tolist()
    if report.measure == "rmse":
        value, baseline = math.sqrt(value), math.sqrt(baseline)
    assert report.all.value == pytest.approx(value, rel=1e-5)
    assert report.all.baseline == pytest.approx(baseline, rel=1e-5)
    assert metrics.registry.get_sample_value(
        "nearfield_model_quality", {"model": algorithm, "measure": report.measure}
    ) == pytest.approx(value, rel=1e-5)
    with pytest.raises(UnknownModel, match="expected a live one"):
        prequential.report(GetQuality(model="nobody"), "5-0")


def test_what_was_applied_before_is_not_tested_again() -> None:
    history = history_of(entries())
    ranking = ranking_of(history, live(history, trained(history, "als-implicit")))
    prequential = Prequential(history, ranking.live.tested, Metrics())
    prequential.test(ranking.models(), runs_of(entries()))
    prequential.test(ranking.models(), runs_of([Entry(StreamId(10_000, 0), "hide", subject="i1")]))
    report = prequential.report(GetQuality(model="als-implicit"), "5-0")
    assert (report.all.n, report.untested, report.since) == (0, dict.fromkeys(REASONS, 0), str(history.position))


def test_a_busy_stream_is_tested_in_part() -> None:
    """What a slow stream has saved is used up at first, then come as many as a second may have."""
    history = history_of(entries())
    ranking = ranking_of(history, live(history, trained(history, "als-implicit")))
    prequential = Prequential(history, ranking.live.tested, Metrics())
    given, first_ms = [RatingEvent("u1", f"new{n}", 5.0, 9.0) for n in range(N_TESTED)], history.position.ms + 1
    tested = []
    for ms in range(first_ms, first_ms + 3000):  # 32,000 a second
        prequential.test(ranking.models(), runs_of([Entry(StreamId(ms, 0), "rating", given)]))
        report = prequential.report(GetQuality(model="als-implicit"), "5-0")
        tested.append(report.all.n + sum(report.untested.values()))
    assert tested[99] == pytest.approx(MOST_SAVED, abs=N_TESTED)
    assert tested[-1] - tested[999] == pytest.approx(2 * TESTED_PER_S, abs=N_TESTED)
    assert set(np.diff(tested[999:]).tolist()) == {0, N_TESTED}  # one pair takes nearly as long as a whole sample


def test_a_model_without_its_taste_is_found_out() -> None:
    """Factors of noise are no better than chance, and the planted ones are far better than popularity."""
    history = history_of(entries())
    good, noise = (live(history, trained(history, "als-implicit")) for _ in range(2))
    noise.model.user_factors[:] = np.random.default_rng(1).normal(size=noise.model.user_factors.shape)
    values = []
    for live_model in (good, noise):
        ranking = ranking_of(history, live_model)
        prequential = Prequential(history, ranking.live.tested, Metrics())
        pairs = [(user, item) for user in range(60) for item in range(40) if not (7 * user + 3 * item) % 5]
        liked = [RatingEvent(f"u{u}", f"i{i}", 5.0, 9.0) for u, i in pairs if liking(u, i) == 5.0]
        for start in range(0, len(liked), N_TESTED):
            entry = Entry(StreamId(10_000 + start, 0), "rating", liked[start : start + N_TESTED])
            prequential.test(ranking.models(), runs_of([entry]))
        report = prequential.report(GetQuality(model="als-implicit"), "5-0")
        values.append(report.all)
    assert values[0].n == values[1].n > 150
    assert values[0].baseline == values[1].baseline
    best, chance = values[0].value, values[1].value
    assert best is not None
    assert chance is not None
    assert best > 0.5 > chance


def test_the_sums_are_those_of_all_results() -> None:
    history = history_of(entries())
    quality = ModelQuality(live(history, trained(history, "als-implicit")), "1-0")
    assert quality.result("window").value is None
    results = (np.random.default_rng(5).random((WINDOW + 333, 2)) < [0.6, 0.3]).astype(float)
    for start in range(0, len(results), 32):
        quality.add(results[start : start + 32], "one", f"{start}-0")
    weights = 0.5 ** (np.arange(len(results))[::-1] / HALF_LIFE)
    expected = {
        "window": results[-WINDOW:].mean(axis=0),
        "decayed": (results * weights[:, None]).sum(axis=0) / weights.sum(),
        "all": results.mean(axis=0),
    }
    for span, mean in expected.items():
        result = quality.result(span)  # type: ignore[arg-type]
        assert [result.value, result.baseline] == pytest.approx(mean.tolist())
    curve = list(quality._curve)
    assert [point.n for point in curve] == [PER_POINT] * (len(results) // PER_POINT)
    parts = results[: len(curve) * PER_POINT].reshape(-1, PER_POINT, 2).mean(axis=1)
    np.testing.assert_allclose([[point.value, point.baseline] for point in curve], parts)
    assert quality._curve.maxlen == N_POINTS


def test_the_sample_is_bounded_and_depends_on_positions_alone() -> None:
    history = history_of(entries())
    given = [Entry(StreamId(10_000, 0), "rating", [RatingEvent("u1", f"i{n}", 1.0, 9.0) for n in range(40)] * 25)]
    first, again = (prequential_pairs.Pairs.of(runs_of(given), history) for _ in range(2))
    later = runs_of([Entry(StreamId(10_001, 0), "rating", given[0].ratings)])
    other = prequential_pairs.Pairs.of(later, history)
    assert first is not None
    assert again is not None
    assert other is not None
    assert len(first.users) == N_TESTED
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert first.items.tolist() != other.items.tolist()
