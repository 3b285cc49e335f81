import json
import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

import gpu
from gpu.als.params import AlsImplicitParams
from gpu.base import free_memory
from gpu.data.calibration import calibrate
from gpu.data.evidence import unpacked
from gpu.data.param_kinds import Values
from gpu.data.ratings import NO_MIDDLE
from gpu.data.signals import evidence
from service.cli import synthetic
from service.jobs import corpus as corpus_module
from service.jobs import promotion, trainer
from service.jobs.corpus import Corpus, read_corpus, usable
from service.jobs.trainer_messages import TUNING_SHARE, TrainerMessage
from service.settings.event_types import DEFAULT_TYPES
from service.storage.events import Entry, RatingEvent, StreamId, TypedEvent
from service.storage.item_changes import ItemChange
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot, snapshot_files
from service.storage.snapshots.content_map import NO_CONTENT
from service.storage.snapshots.manifest import Manifest
from service.storage.user_changes import UserChange
from tests.data import planted
from tests.service.logs import commit
from tests.service.planted import N_USERS, SMALL, entries
from tests.service.trained import train
from tests.service.waiting import eventually

ALS = {"n_factors": 8, "n_epochs": 5}
END = StreamId(9_000, 0)
CONTRADICTORY = [ItemChange("i1", embedding=[1.0]), ItemChange("i2", embedding=[1.0, 2.0])]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with the planted ratings in its log."""
    commit(RatingLog(tmp_path / "ratings"), entries())
    return tmp_path


def run(
    data: Path,
    algorithm: str = "culsh",
    params: dict[str, Any] = SMALL,
    watermark: StreamId = END,
    **options: Any,
) -> tuple[TrainerMessage, list[TrainerMessage]]:
    """The last message, and those before it that have progress."""
    told: list[TrainerMessage] = []
    last = train(data, algorithm, params, watermark, told.append, **options)
    return last, [message for message in told if message.phase is None]


@pytest.mark.parametrize("algorithm", [name for name in gpu.ALGORITHMS if name != "sgd"])
def test_the_log_becomes_a_snapshot(data: Path, algorithm: str) -> None:
    params, n_epochs = SMALL if algorithm.startswith("culsh") else ALS, 5
    if algorithm in ("ease", "neighbors", "next"):
        params, n_epochs = {}, 1
    last, told = run(data, algorithm, params)
    assert [line.progress for line in told] == pytest.approx([n / n_epochs for n in range(1, n_epochs + 1)])
    assert [line.step for line in told] == [f"epoch {n} of {n_epochs}" for n in range(1, n_epochs + 1)]
    assert last.outcome == "succeeded"
    assert last.promote
    assert last.reason is None
    loaded = snapshot.load(data / "snapshots", str(last.version))
    assert loaded.manifest.metrics == last.metrics
    assert loaded.manifest.metrics.keys() >= ({"ndcg@10"} if gpu.ALGORITHMS[algorithm].params.is_implicit else {"rmse"})
    assert loaded.manifest.watermark == str(END)
    assert loaded.user_ids[0] == "u0"
    assert np.isfinite(loaded.model.item_factors).all()


def test_held_out_pairs_are_not_trained_on(data: Path) -> None:
    corpus = read_corpus(data, END)
    pairs = [set(zip(*part.coo()[:2], strict=True)) for part in (corpus.training, corpus.held_out)]
    assert not pairs[0] & pairs[1]
    total = len(pairs[0]) + len(pairs[1])
    assert 0.02 < len(pairs[1]) / total < 0.1
    assert total == len([rating for entry in entries() for rating in entry.ratings])


def test_some_users_stand_for_all_if_lists_would_take_too_many_scores(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, of_ratings = read_corpus(data, END, is_implicit=True), read_corpus(data, END)
    users = np.unique(whole.held_out.coo()[0])
    some = users[np.argsort(whole.held_out.user_keys[users])[:5]]
    monkeypatch.setattr(corpus_module, "MOST_SCORES", 5 * whole.held_out.n_items)
    few = read_corpus(data, END, is_implicit=True)
    assert few.held_out.coo()[0].tolist() == [user for user in whole.held_out.coo()[0] if user in some]
    assert len(few.training) == len(whole.training)  # pairs of users who do not judge stay held out
    assert len(read_corpus(data, END).held_out) == len(of_ratings.held_out)  # errors of estimates take no lists


def test_the_newest_pair_of_each_user_judges_a_model_of_order(data: Path) -> None:
    newest = {rating.user: rating.item for entry in entries() for rating in entry.ratings}
    late = [
        RatingEvent("late", "i1", 4.0, 2.0),
        RatingEvent("late", "i0", 5.0, 1.0),
        RatingEvent("once", "i0", 5.0, 1.0),
    ]
    commit(RatingLog(data / "ratings"), [Entry(StreamId(8000, 0), "rating", late)])
    corpus = read_corpus(data, END, is_ordered=True)
    users, items, _ = corpus.held_out.coo()
    held_out = {corpus.user_ids[user]: corpus.item_ids[item] for user, item in zip(users, items, strict=True)}
    assert held_out == newest | {"late": "i1"}  # by time, before the place in the stream
    assert len(corpus.training) + len(users) == len(read_corpus(data, END).training) + len(
        read_corpus(data, END).held_out
    )


def test_what_came_after_the_watermark_does_not_count(data: Path) -> None:
    commit(RatingLog(data / "ratings"), [Entry(StreamId(8000, 0), "rating", [RatingEvent("late", "i0", 5.0, 0.0)])])
    assert "late" not in read_corpus(data, StreamId(7999, 9)).user_ids
    assert "late" in read_corpus(data, StreamId(8000, 0)).user_ids


def test_ratings_of_a_deleted_item_are_not_in_the_corpus_until_it_is_back(data: Path) -> None:
    log, whole = RatingLog(data / "ratings"), read_corpus(data, END)
    commit(log, [Entry(StreamId(8000, 0), "item", items=[ItemChange("i3", op="delete")])])
    commit(log, [Entry(StreamId(8001, 0), "item", items=[ItemChange("i3")])])
    corpus = read_corpus(data, StreamId(8000, 0))
    row = corpus.item_ids.index("i3")
    assert corpus.item_ids == whole.item_ids
    assert not np.concatenate([part.coo()[1] == row for part in (corpus.training, corpus.held_out)]).any()
    n_gone = whole.training.by_item.lengths[row] + whole.held_out.by_item.lengths[row]
    assert len(corpus.training) + len(corpus.held_out) + n_gone == len(whole.training) + len(whole.held_out)
    assert len(read_corpus(data, END).training) == len(whole.training)


def test_a_forgotten_user_is_not_in_the_corpus(data: Path) -> None:
    commit(RatingLog(data / "ratings"), [Entry(StreamId(8000, 0), "forget", subject="u3")])
    corpus = read_corpus(data, END)
    assert "u3" not in corpus.user_ids
    whole = read_corpus(data, StreamId(7999, 0))
    rows = {user: row for row, user in enumerate(whole.user_ids)}
    for row, user in enumerate(corpus.user_ids):
        assert corpus.training.by_user.lengths[row] == whole.training.by_user.lengths[rows[user]]
        assert corpus.training.user_keys[row] == whole.training.user_keys[rows[user]]


def test_a_much_worse_candidate_is_not_promoted(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "MIN_HELD_OUT", 10)
    first, _ = run(data, params=SMALL | {"n_epochs": 30})
    live_versions.set_version(data, "culsh", str(first.version))
    again, _ = run(data, params=SMALL | {"n_epochs": 30})
    assert again.promote
    worse, _ = run(data, params=SMALL | {"n_epochs": 1, "learning_rate": 1e-3})
    assert not worse.promote
    assert "rmse" in str(worse.reason)


def test_few_held_out_pairs_promote_if_finite(data: Path) -> None:
    first, _ = run(data)
    live_versions.set_version(data, "culsh", str(first.version))
    worse, _ = run(data, params=SMALL | {"n_epochs": 1})
    assert worse.promote
    assert worse.calibration is not None
    (said,) = worse.calibration.chosen
    assert said.startswith(
        "promotion: nothing was tested: expected 1,000 held-out pairs (about 20,000 pairs in all), got"
    )
    assert snapshot.read_manifest(data / "snapshots", str(worse.version)).calibration.chosen == (said,)


def test_what_is_tested_says_nothing() -> None:
    assert promotion.untested(promotion.MIN_HELD_OUT) == ()
    assert "about 20,000 pairs in all), got 200" in promotion.untested(200)[0]


def test_a_corrupt_live_snapshot_does_not_stand_in_the_way(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "MIN_HELD_OUT", 10)
    first, _ = run(data)
    live_versions.set_version(data, "culsh", str(first.version))
    (data / "snapshots" / str(first.version) / "arrays.safetensors").write_bytes(b"torn")
    assert run(data)[0].promote


@pytest.fixture
def tasteful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with ratings of popular and less popular items; 100 held-out pairs suffice to judge."""
    monkeypatch.setattr(promotion, "MIN_HELD_OUT", 100)
    planted = synthetic.planted(0, 300, 60)
    triples = zip(planted.viewers.tolist(), planted.items.tolist(), planted.ratings.tolist(), strict=True)
    ratings = [RatingEvent(f"u{user}", f"i{item}", rating, 1.0) for user, item, rating in triples]
    commit(RatingLog(tmp_path / "ratings"), [Entry(StreamId(1000, 0), "rating", ratings)])
    return tmp_path


# Too short a training to say anything, and one that holds back even what averages say.
WORSE = {
    "culsh-implicit": {
        "n_factors": 8,
        "n_epochs": 1,
        "learning_rate": 1e-4,
        "bias_regularization": 5000,
        "n_neighbors": 0,
    },
    "sgd": {"n_factors": 8, "n_epochs": 2, "bias_regularization": 10.0},
}


@pytest.mark.parametrize(("algorithm", "metric", "words"), [
    ("culsh-implicit", "ndcg@10", "no better than the most popular items"),
    ("sgd", "rmse", "no better than averages of users and items"),
])  # fmt: skip
def test_a_first_model_has_to_be_better_than_none(tasteful: Path, algorithm: str, metric: str, words: str) -> None:
    bad, _ = run(tasteful, algorithm, WORSE[algorithm])
    assert (bad.outcome, bad.promote) == ("succeeded", False)
    n_held_out = len(read_corpus(tasteful, END).held_out)
    ours, baseline = bad.metrics[metric], bad.metrics[f"baseline_{metric}"]
    assert bad.reason == f"{metric} on {n_held_out} held-out pairs is {ours:.4f}, {words} ({baseline:.4f})"
    good, _ = run(tasteful, algorithm, {"n_factors": 8})
    assert (good.promote, good.reason) == (True, None)
    assert good.metrics[f"baseline_{metric}"] == pytest.approx(baseline)


def test_few_held_out_pairs_do_not_stop_a_first_model(tasteful: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "MIN_HELD_OUT", 1000)
    bad, _ = run(tasteful, "sgd", WORSE["sgd"])
    assert (bad.promote, bad.reason) == (True, None)
    assert bad.metrics["rmse"] > bad.metrics["baseline_rmse"]


def test_all_are_judged_by_what_the_candidate_takes_for_a_dislike(
    tasteful: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = run(tasteful, "als-implicit", {"n_factors": 8, "values": "counts"})
    live_versions.set_version(tasteful, "als-implicit", str(first.version))
    judged: list[tuple[str, float]] = []  # by what kind of model, and the lowest rating that counts
    ranking = gpu.evaluate.ranking

    def spy(model: gpu.Model, rows: gpu.Rows, test: gpu.Ratings, middle: float, **options: Any) -> dict[str, float]:
        judged.append((model.calibration.values, test.scale[0]))
        assert middle == NO_MIDDLE
        return ranking(model, rows, test, middle, **options)

    monkeypatch.setattr(gpu.evaluate, "ranking", spy)
    second, _ = run(tasteful, "als-implicit", {"n_factors": 8})
    assert second.metrics.keys() == {"ndcg@10", "recall@20", "baseline_ndcg@10", "live_ndcg@10"}
    middle = snapshot.load(tasteful / "snapshots", str(second.version)).model.middle
    lowest = np.ceil(2 * middle) / 2  # there are half stars
    assert judged == [("ratings", lowest), ("counts", lowest), ("counts", lowest)]
    assert middle > 1


@pytest.mark.parametrize("algorithm", ["als", "nmf"])
def test_what_could_not_be_measured_does_not_break_the_lines(
    data: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu.evaluate, "rmse", lambda *_, **__: math.nan)
    monkeypatch.setattr(gpu.evaluate, "ranking", lambda *_, **__: {"ndcg@10": math.inf})
    last, told = run(data, algorithm, ALS)
    for line in [*told, last]:
        assert msgspec.json.decode(msgspec.json.encode(line), type=TrainerMessage) == line
    assert last.metrics == {}
    assert snapshot.load(data / "snapshots", str(last.version)).manifest.metrics == {}


def test_a_device_that_is_asked_for_and_not_there_is_an_error(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gpu.base.backend.importlib.import_module", lambda _: SimpleNamespace(obstacle=lambda: "no driver")
    )
    with pytest.raises(gpu.BackendUnavailable, match="no driver"):
        run(data, "als", ALS, backend="device")


def test_too_little_memory_is_refused_with_both_numbers(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(free_memory, "free_bytes", lambda: 12_345)
    monkeypatch.setattr("service.jobs.trainer.signal.signal", lambda *_: None)
    options = {"data": data, "job": "j", "algorithm": "als", "watermark": END, "backend": "host"}
    assert trainer.main([str(part) for name, value in options.items() for part in (f"--{name}", value)]) == 1
    (last,) = lines(capsysbinary.readouterr().out)
    assert last.outcome == "failed"
    assert re.search(
        r"NotEnoughMemory: .* needs about [\d,]+ bytes, [\d,]+ more are kept .* and 12,345 are free", str(last.error)
    )
    assert snapshot.versions(data / "snapshots") == []


def test_dead_factors_fail_with_what_to_change(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("service.jobs.trainer.signal.signal", lambda *_: None)
    options = {"data": data, "job": "j", "algorithm": "als", "watermark": END, "backend": "host"}
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    assert trainer.main([*arguments, "--params", '{"n_factors": 4, "regularization": 100000}']) == 1
    last = lines(capsysbinary.readouterr().out)[-1]
    assert last.outcome == "failed"
    assert "DeadFactors: Training of als left dead factors" in str(last.error)
    assert "lower regularization (100000)" in str(last.error)
    assert snapshot.versions(data / "snapshots") == []


def test_a_rating_that_cannot_be_used_is_named_by_its_ids(data: Path) -> None:
    ratings = [RatingEvent("zoë", f"i{item}", -2.0 if item == 7 else -1.0, 0.0) for item in range(20)]
    commit(RatingLog(data / "ratings"), [Entry(StreamId(8000, 0), "rating", ratings)])
    with pytest.raises(gpu.InvalidRatings, match=r"got -2; .* \(user 'zoë', item 'i7'\)"):
        run(data, "nmf", {})


@pytest.mark.parametrize(("algorithm", "given"), [("nmf", {}), ("als-implicit", {"values": "counts"})])
def test_one_rating_that_cannot_be_used_fails_no_training(data: Path, algorithm: str, given: dict[str, str]) -> None:
    commit(RatingLog(data / "ratings"), [Entry(StreamId(8000, 0), "rating", [RatingEvent("zoë", "i7", -2.0, 0.0)])])
    assert run(data, algorithm, given)[0].version


def test_implicit_models_train_on_events_and_explicit_ones_on_ratings_alone(tmp_path: Path) -> None:
    events = [
        TypedEvent(f"u{user}", f"i{item}", "dislike" if (user + item) % 2 else "view", 1.0, 0.0)
        for user in range(40)
        for item in range(30)
        if (user * item) % 3
    ]
    log = RatingLog(tmp_path / "ratings")
    commit(log, [Entry(StreamId(1, 0), "event", events=events), *entries(2000, n_users=30)])
    implicit, explicit = (read_corpus(tmp_path, END, is_implicit=is_implicit) for is_implicit in (True, False))
    assert len(implicit.training) > len(explicit.training)
    assert explicit.training.scale == (1, 5)
    for types, weight in ((DEFAULT_TYPES, 1.0), ({"view": 3.0}, 3.0)):
        corpus = read_corpus(tmp_path, END, types, is_implicit=True)
        given, sums = unpacked(corpus.training.by_user.values)
        assert set(sums[sums > 0].tolist()) == {weight}
        assert set(given[~np.isnan(given)].tolist()) == {1.0, 5.0}


def test_a_half_life_counts_from_the_watermark(data: Path) -> None:
    given = ALS | {"half_life_days": 1}
    loaded = snapshot.load(data / "snapshots", str(run(data, "als-implicit", given)[0].version))
    assert loaded.model.calibration.as_of_s == END.ms / 1000
    assert loaded.manifest.given == given


def test_dislikes_do_not_turn_views_into_low_ratings(tmp_path: Path) -> None:
    kinds = ["view", "view", "cart", "purchase", "dislike"]
    events = [
        TypedEvent(f"u{user}", f"i{item}", kinds[(7 * user + item) % 5], 1.0, 0.0)
        for user in range(40)
        for item in range(30)
        if (user * item) % 3
    ]
    commit(RatingLog(tmp_path / "ratings"), [Entry(StreamId(1, 0), "event", events=events)])
    folder, version = tmp_path / "snapshots", str(run(tmp_path, "als-implicit", ALS)[0].version)
    written = snapshot.load(folder, version)
    assert (written.model.calibration.values, written.model.calibration.middle) == ("counts", 0)


VIEWS = [TypedEvent(f"u{user}", f"i{item}", "view", 1.0, 0.0) for user in range(40) for item in range(25)]
CARTS = [TypedEvent(f"u{user}", f"i{user}", "cart", 1.0, 0.0) for user in range(40, 50)]


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([Entry(StreamId(1, 0), "event", events=[*VIEWS, *CARTS])], "counts"),
        ([Entry(StreamId(1, 0), "event", events=VIEWS)], "counts"),
        ([*entries(2000, n_users=30), Entry(StreamId(5000, 0), "event", events=VIEWS)], "ratings"),
        ([*entries(2000, n_users=30), Entry(StreamId(5000, 0), "event", events=[*VIEWS[:5], *CARTS[:1]])], "ratings"),
        (entries(2000, n_users=30), "ratings"),
    ],
    ids=["two types", "one type", "beside ratings", "few of two types beside ratings", "ratings"],
)
def test_ratings_alone_decide_what_values_are_and_events_are_counts(
    tmp_path: Path, given: list[Entry], values: str
) -> None:
    """By their values alone, ten carts among a thousand views would be the top of a scale, and views dislikes."""
    commit(RatingLog(tmp_path / "ratings"), given)
    corpus = read_corpus(tmp_path, END, is_implicit=True)
    known = calibrate(corpus.training, AlsImplicitParams())
    assert known.values == values
    strengths = corpus.training.by_user.values
    given_stars, sums = unpacked(strengths)
    likes, dislikes = evidence(strengths, known)
    assert (likes[sums > 0] > 0).all()  # an event is no dislike
    assert (dislikes[given_stars == 1] > 0).all()  # and one star stays one
    assert calibrate(corpus.training, AlsImplicitParams(values="ratings")).values == "ratings"


def test_one_wrong_rating_does_no_harm(data: Path) -> None:
    before = snapshot.load(data / "snapshots", str(run(data, "als-implicit", ALS)[0].version)).model
    commit(RatingLog(data / "ratings"), [Entry(StreamId(8000, 0), "rating", [RatingEvent("u0", "i2", -1e6, 0.0)])])
    after = snapshot.load(data / "snapshots", str(run(data, "als-implicit", ALS)[0].version)).model
    assert after.calibration.scale == before.calibration.scale == (1.0, 5.0)
    assert after.middle == pytest.approx(before.middle, abs=0.01)
    estimates = [model.user_factors @ model.item_factors.T for model in (before, after)]
    item = 1  # i2, which u0 liked: rows are in the order of their first ratings
    assert estimates[1][0, item] < estimates[0][0, item] - 0.1
    assert np.abs(estimates[0] - estimates[1])[1:].max() < 0.2


def command(data: Path, params: dict[str, Any] = SMALL, algorithm: str = "culsh") -> list[str]:
    options = {
        "data": data,
        "job": "j",
        "algorithm": algorithm,
        "params": json.dumps(params),
        "watermark": END,
        "backend": "host",
    }
    options |= {"params": json.dumps(params)}
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    return [sys.executable, "-m", "service.jobs.trainer", *arguments]


def lines(output: bytes) -> list[TrainerMessage]:
    """All messages but those that tell a phase."""
    messages = [msgspec.json.decode(line, type=TrainerMessage) for line in output.splitlines()]
    return [message for message in messages if message.phase is None]


@pytest.mark.parametrize("algorithm", ["culsh", "ease"])
def test_no_ratings_fail_with_a_clear_error_and_warnings_are_no_messages(tmp_path: Path, algorithm: str) -> None:
    commit(RatingLog(tmp_path / "ratings"), [Entry(StreamId(8000, 0), "item", items=CONTRADICTORY)])
    done = subprocess.run(command(tmp_path, {}, algorithm), capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    (last,) = lines(done.stdout)
    assert last.outcome == "failed"
    assert "at least one rating" in str(last.error)
    assert b"is left out" in done.stderr


def test_warnings_are_not_in_an_export(tmp_path: Path) -> None:
    commit(RatingLog(tmp_path / "ratings"), [Entry(StreamId(8000, 0), "item", items=CONTRADICTORY)])
    given = {"data": tmp_path, "what": "items", "format": "ndjson", "upto": END}
    options = [str(part) for name, value in given.items() for part in (f"--{name}", value)]
    module = [sys.executable, "-m", "service.extras.exports.exporter"]
    done = subprocess.run([*module, *options], capture_output=True, timeout=60, check=True)
    assert [json.loads(line)["item"] for line in done.stdout.splitlines()] == ["i1", "i2"]
    assert b"is left out" in done.stderr


def test_sigterm_ends_it_and_leaves_nothing(data: Path) -> None:
    params = SMALL | {"n_epochs": 10_000}
    with subprocess.Popen(command(data, params), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = next(filter(None, map(lines, process.stdout)))
        process.terminate()
        rest = process.stdout.read()
    assert first[0].outcome is None
    assert lines(rest)[-1].outcome == "cancelled"
    assert process.returncode == 0
    assert snapshot.versions(data / "snapshots") == []


def test_it_ends_with_its_supervisor_though_all_that_it_says_is_taken(data: Path) -> None:
    """So it is not the broken pipe of its words that ends it: a long phase without any would go on."""
    params = SMALL | {"n_epochs": 10_000}
    with (
        (data / "said").open("wb") as said,
        subprocess.Popen(command(data, params), stdin=subprocess.PIPE, stdout=said) as process,
    ):
        eventually(lambda: (data / "said").stat().st_size > 0, 60)
        assert process.stdin is not None
        process.stdin.close()
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert lines((data / "said").read_bytes())[-1].outcome == "cancelled"
    assert snapshot.versions(data / "snapshots") == []


CANCELLED_IN_A_FINALIZER = """
import os, signal, sys, time
from service.jobs import trainer

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)  # the signal is handled here

def train(*arguments):
    Finalized()
    time.sleep(600)

trainer.train = train
sys.exit(trainer.run(None))
"""


def test_a_cancellation_while_a_finalizer_runs_is_not_lost() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CANCELLED_IN_A_FINALIZER], capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, lines(ended.stdout)[-1].outcome) == (0, "cancelled"), ended.stderr


@pytest.mark.parametrize("algorithm", ["als-implicit", "culsh-implicit", "ease", "neighbors"])
def test_values_are_as_the_request_says_or_the_setting_or_the_data(data: Path, algorithm: str) -> None:
    params = {} if algorithm in ("ease", "neighbors") else {"n_factors": 4, "n_epochs": 1}

    def trained(given: dict[str, object], values: Values) -> Manifest:
        last, _ = run(data, algorithm, params | given, values=values)
        manifest = snapshot.read_manifest(data / "snapshots", str(last.version))
        assert last.calibration == manifest.calibration
        assert manifest.given == params | given  # a setting is not what was asked for
        assert manifest.n_ratings == len(read_corpus(data, END).training)
        return manifest

    assert trained({}, "auto").calibration.values == "ratings"
    assert trained({}, "counts").calibration.values == "counts"
    assert trained({"values": "ratings"}, "counts").calibration.values == "ratings"


@pytest.mark.parametrize(
    ("algorithm", "given"), [("als-implicit", {"alpha": 1, "regularization": 0.5}), ("culsh-implicit", {})]
)
def test_a_request_without_calibration_does_not_ask_the_setting_of_values(
    data: Path, algorithm: str, given: dict[str, object]
) -> None:
    """Its likes replace those of a live model of the other kind: that is what was asked for."""
    plain, asked = {"n_factors": 4, "n_epochs": 3}, {"calibration": "none", **given}
    first, _ = run(data, algorithm, plain, values="ratings")
    live_versions.set_version(data, algorithm, str(first.version))
    last, _ = run(data, algorithm, plain | asked, values="ratings")
    assert last.outcome == "succeeded"
    assert "live snapshot: train with" not in str(last.reason)
    manifest = snapshot.read_manifest(data / "snapshots", str(last.version))
    assert manifest.given == plain | asked
    assert manifest.calibration.values == "counts"
    assert snapshot.load(data / "snapshots", str(last.version)).model.params.is_calibrated is False


def test_the_setting_of_values_does_not_concern_other_algorithms(data: Path) -> None:
    assert run(data, "als", ALS, values="counts")[0].outcome == "succeeded"


def test_a_search_comes_first_where_it_is_asked_for(data: Path) -> None:
    last, told = run(data, "als", {"n_factors": 4, "n_epochs": 4}, tune=True)
    shares = [line.progress for line in told]
    assert shares == sorted(shares)
    assert shares[-5] == pytest.approx(TUNING_SHARE)
    trials = [record for record in last.trials if "round" in record]
    steps = last.trials[len(trials) :]
    assert {trial["round"] for trial in trials} == {1, 2, 3, 4}
    assert [step["step"] for step in steps] == ["weights", "n_factors"]
    kept = [step for step in steps if step["is_kept"]]
    best = kept[-1] if kept else trials[0] | {"score": steps[0]["score"] - steps[0]["gain"]}
    manifest = snapshot.load(data / "snapshots", str(last.version)).manifest
    assert manifest.parameters["regularization"] == best.get("regularization", gpu.AlsParams().regularization)
    assert manifest.given.items() >= {"n_epochs": 4}.items()
    assert last.metrics["rmse"] == pytest.approx(best["score"])


def test_a_search_does_not_make_a_setting_a_parameter_that_was_given(data: Path) -> None:
    last, _ = run(data, "als-implicit", {"n_factors": 4, "n_epochs": 2}, values="counts", tune=True)
    manifest = snapshot.read_manifest(data / "snapshots", str(last.version))
    assert manifest.parameters["values"] == "counts"
    assert "values" not in manifest.given


def test_absurd_ratings_decide_nothing_in_a_comparison() -> None:
    ratings = planted()
    users, items, values = ratings.coo()
    low, high = values.min(), values.max()
    values = values.copy()
    values[0] = 1e6
    poisoned = gpu.Ratings.from_coo(users, items, values)
    found, n_far = usable(Corpus(poisoned, poisoned, [], []), gpu.params_for("sgd", {}))
    assert n_far == 1
    assert found.training.scale == found.held_out.scale == (min(low, values.min()), high)


def test_a_catalog_adds_a_content_map_to_the_snapshot(data: Path) -> None:
    without, _ = run(data, "als-implicit", ALS)
    genres = [ItemChange(f"i{n}", tags={"genre": [("war", "love")[n % 2]]}) for n in range(40)]
    commit(RatingLog(data / "ratings"), [Entry(StreamId(8000, 0), "item", items=genres)])
    with_catalog, _ = run(data, "als-implicit", ALS)
    others, _ = run(data, "nmf", ALS)
    folder = data / "snapshots"
    loaded = snapshot.load(folder, str(with_catalog.version))
    of_items = loaded.content.items
    assert of_items is not None
    assert {*of_items.features.tags} == {("genre", "war"), ("genre", "love")}
    numbers = np.array([int(item[1:]) for item in loaded.item_ids])
    priors, exist = of_items.priors([({"genre": [genre]}, None) for genre in ("war", "love")])
    assert exist.all()
    for parity, prior in enumerate(priors):
        likeness = loaded.model.item_factors @ prior[:-1]
        assert likeness[numbers % 2 == parity].min() > likeness[numbers % 2 != parity].max()
    rewritten = snapshot.rewrite_without(folder, str(with_catalog.version), "u3")
    again = snapshot.load(folder, rewritten.version).content.items
    np.testing.assert_array_equal(again and again.weights, of_items.weights)
    for version in (without.version, others.version):
        assert not (folder / str(version) / snapshot_files.CONTENT_FILE).exists()
        assert snapshot.load(folder, str(version)).content == NO_CONTENT
    first, second = ((folder / str(one.version)) for one in (without, with_catalog))
    for name in (snapshot_files.ARRAYS_FILE, snapshot_files.USERS_FILE, snapshot_files.ITEMS_FILE):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_attributes_of_users_add_a_content_map_to_the_snapshot(data: Path) -> None:
    tagged = [UserChange(f"u{n}", tags={"taste": [("even", "odd")[n % 2]]}) for n in range(N_USERS) if n != 5]
    commit(RatingLog(data / "ratings"), [Entry(StreamId(8000, 0), "user", user_changes=tagged)])
    commit(RatingLog(data / "ratings"), [Entry(StreamId(8001, 0), "forget", subject="u3")])  # rows after it move
    trained, _ = run(data, "als-implicit", ALS)
    loaded = snapshot.load(data / "snapshots", str(trained.version))
    of_users = loaded.content.users
    assert of_users is not None
    assert {*of_users.features.tags} == {("taste", "even"), ("taste", "odd")}
    numbers = np.array([int(item[1:]) for item in loaded.item_ids])
    for parity, taste in enumerate(("even", "odd")):
        (prior,), _ = of_users.priors([({"taste": [taste]}, None)])
        scores = loaded.model.item_factors @ prior[:-1]
        assert scores[numbers % 2 == parity].min() > scores[numbers % 2 != parity].max()
    rewritten = snapshot.rewrite_without(data / "snapshots", str(trained.version), "u4")
    again = snapshot.load(data / "snapshots", rewritten.version).content.users
    np.testing.assert_array_equal(again and again.weights, of_users.weights)


def test_values_of_another_kind_than_in_the_live_model_do_not_go_live_unless_given(tmp_path: Path) -> None:
    counts = [RatingEvent(f"u{n}", f"i{n % 7}", 1.0, 1.0) for n in range(60)]
    commit(RatingLog(tmp_path / "ratings"), [Entry(StreamId(1, 0), "rating", counts)])
    first, _ = run(tmp_path, "als-implicit", ALS)
    assert first.promote
    live_versions.set_version(tmp_path, "als-implicit", str(first.version))
    commit(RatingLog(tmp_path / "ratings"), entries(2000, n_users=30))
    second, _ = run(tmp_path, "als-implicit", ALS)
    assert not second.promote
    assert second.reason == (
        "values look like ratings, and were counts in the live snapshot: train with values=counts or values=ratings"
    )
    for values in ("counts", "ratings"):
        third, _ = run(tmp_path, "als-implicit", ALS | {"values": values})
        assert third.reason is None
        assert third.calibration is not None
        assert third.calibration.values == values


def test_events_beside_ratings_change_no_kind_and_go_live(tmp_path: Path) -> None:
    commit(RatingLog(tmp_path / "ratings"), entries(2000, n_users=30))
    first, _ = run(tmp_path, "als-implicit", ALS)
    live_versions.set_version(tmp_path, "als-implicit", str(first.version))
    for at, events in ((5000, VIEWS[:3]), (6000, CARTS[:1]), (7000, VIEWS)):
        commit(RatingLog(tmp_path / "ratings"), [Entry(StreamId(at, 0), "event", events=events)])
        message, _ = run(tmp_path, "als-implicit", ALS)
        assert message.reason is None
        assert message.calibration is not None
        assert (message.calibration.values, message.calibration.scale) == ("ratings", (1.0, 5.0))
