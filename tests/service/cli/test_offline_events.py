"""Trainings on files of events learn the same strengths as a service with the same entries."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu.base.errors import InvalidInput
from service.__main__ import run
from service.cli.files.events_file import Event, EventsFile
from service.cli.files.ratings_file import RatingsFile
from service.cli.offline import first_events, saved_model, with_events
from service.engine.state.history import History
from service.settings.event_types import DEFAULT_TYPES
from service.storage.events import Entry, RatingEvent, StreamId, TypedEvent
from tests.gpu.repeat.test_learn import baskets


def events_file(events: list[Event]) -> EventsFile:
    return EventsFile(events, [], "")


@pytest.mark.parametrize("has_ratings", [False, True])
def test_strengths_are_those_of_a_service(has_ratings: bool) -> None:
    draws = random.Random(0)
    types = list(DEFAULT_TYPES)
    events = [
        Event(
            f"u{draws.randrange(9)}",
            f"i{draws.randrange(7)}",
            draws.choice(types),
            draws.choice([None, 2.0, -1.0, 900.0]),
            1e9 + n,
            draws.choice([None, f"e{draws.randrange(20)}"]),
        )
        for n in range(400)
    ]
    pairs = list(itertools.islice(itertools.product(range(12), range(8)), 0, 96, 3)) if has_ratings else []
    users, items = [f"u{user}" for user, _ in pairs], [f"i{item}" for _, item in pairs]
    values, times = [float(draws.randint(1, 5)) for _ in pairs], [1.1e9 + n for n in range(len(pairs))]
    ratings = RatingsFile(users, items, np.array(values, dtype=np.float32), np.array(times, dtype=np.float64), [])
    sent = [TypedEvent(**({"timestamp": 0.0} | event.element)) for event in events]
    rated = list(map(RatingEvent, users, items, values, times))
    history = History()
    history.apply(
        [Entry(StreamId(2 * 10**12, 0), "event", events=sent), Entry(StreamId(2 * 10**12, 1), "rating", rated)]
    )
    table = history.table_of(has_strengths=True)
    expected: dict[tuple[Any, Any], tuple[float, float]] = {}
    for user in range(len(history.users)):
        rows, strengths, seconds, _ = table.row(user)
        for item, strength, time in zip(rows.tolist(), strengths.tolist(), seconds.tolist(), strict=True):
            expected[history.users.id(user), history.items.id(item)] = strength, time
    file = with_events(
        ratings if has_ratings else None, first_events(events_file(events), DEFAULT_TYPES), DEFAULT_TYPES
    )
    assert file.timestamps is not None
    pairs_of_file = zip(file.users, file.items, strict=True)
    assert (
        dict(zip(pairs_of_file, zip(file.values.tolist(), file.timestamps.tolist(), strict=True), strict=True))
        == expected
    )


def test_an_event_without_a_weight_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"expected types of NEARFIELD_EVENTS \(view, .*\), got click, tap"):
        first_events(
            events_file([Event("u", "i", t, None, None, None) for t in ("tap", "view", "click")]), DEFAULT_TYPES
        )


def test_a_model_is_trained_on_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.csv"
    draws = np.random.default_rng(0)
    lines = (f"u{draws.integers(30)},i{draws.integers(20)},{('view', 'purchase')[n % 2]}" for n in range(400))
    path.write_text("user,item,type\n" + "\n".join(lines))
    command = ["train", "--events", str(path), "--test-fraction", "0.1", "--json", "--set", "n_epochs=2"]
    assert run([*command, "--algorithm", "als-implicit", "--out", str(tmp_path / "models")]) == 0
    assert '"done": true' in capsys.readouterr().out
    assert run([*command, "--algorithm", "als"]) == 2
    assert "expected --events with an algorithm that learns them, got als" in capsys.readouterr().err
    assert run(["evaluate", "--model", str(tmp_path / "models"), "--json"]) == 0


def test_events_that_add_up_to_nothing_leave_a_model_that_can_be_read(tmp_path: Path) -> None:
    lines = [f"u{user},i{item},view,{user}{item}" for user in range(6) for item in range(4)]
    (tmp_path / "events.csv").write_text(
        "\n".join(["user,item,type,timestamp", *lines, "v,j,view,1", "v,j,dislike,2", "v,j,view,3"])
    )
    command = ["train", "--events", str(tmp_path / "events.csv"), "--algorithm", "als-implicit", "--set", "n_epochs=1"]
    assert run([*command, "--out", str(tmp_path / "models")]) == 0
    assert "v" not in saved_model(tmp_path / "models").user_ids


def bought(path: Path, returns: float) -> Path:
    """A file of the purchases of `baskets`."""
    came = baskets(returns)
    columns = zip(*(column.tolist() for column in came[:3]), strict=True)
    path.write_text("user,item,type,timestamp\n" + "".join(f"u{u},i{i},purchase,{s}\n" for u, i, s in columns))
    return path


def test_baskets_of_a_file_come_back_and_lists_are_at_least_as_good_as_own_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events, models = bought(tmp_path / "baskets.csv", 0.65), str(tmp_path / "models")
    command = ["train", "--events", str(events), "--algorithm", "als-implicit", "--set", "n_factors=8", "n_epochs=4"]
    assert run([*command, "--split", "time", "--test-fraction", "0.1", "--out", models, "--json"]) == 0
    closing = json.loads(capsys.readouterr().out.splitlines()[-1])
    repeat = closing["repeat"]
    assert repeat["weight"] > 0
    assert repeat["interval"][0] > 0
    assert repeat["remark"] == ""
    assert run(["evaluate", "--model", models, "--json"]) == 0
    out, said = capsys.readouterr()
    result = json.loads(out)
    assert 0.5 < result["trained_on"] / result["n_test"] < 0.85
    assert "they rank too, because users come back" in said
    assert result["ndcg@10"] >= result["counts_ndcg@10"] > result["popular_ndcg@10"]
    assert result["counts_ndcg@10"] > 2 * result["new_ndcg@10"]
    assert run(["evaluate", "--model", models]) == 0
    assert f"counts_ndcg@10 {result['counts_ndcg@10']:.4f}" in capsys.readouterr().out


def test_lists_on_files_leave_out_what_users_had_where_nobody_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events, models = bought(tmp_path / "baskets.csv", 0.0), str(tmp_path / "models")
    command = ["train", "--events", str(events), "--algorithm", "als-implicit", "--set", "n_factors=8", "n_epochs=4"]
    assert run([*command, "--split", "time", "--test-fraction", "0.2", "--folds", "2", "--out", models, "--json"]) == 0
    folds = [json.loads(line)["repeat"] for line in capsys.readouterr().out.splitlines()[:2]]
    assert {fold["weight"] for fold in folds} == {0.0}
    assert run(["evaluate", "--model", models, "--json"]) == 0
    assert "counts_ndcg@10" not in json.loads(capsys.readouterr().out)


def test_events_are_cut_in_time_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.csv"
    command = ["train", "--events", str(path), "--algorithm", "als-implicit", "--split", "time", "--set", "n_epochs=1"]
    lines = [f"u{n % 3},i{n % 4},{('view', 'impression', 'purchase')[n % 3]},{1e9 + n:.0f}\n" for n in range(48)]
    path.write_text("user,item,type,timestamp\n" + "".join(lines))
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("user,item,rating,timestamp\nu0,i0,5,1000000001\nu1,i9,4,1000000040\n")
    with_ratings = [*command, "--ratings", str(ratings), "--test-fraction", "0.5", "--out", str(tmp_path), "--json"]
    assert run(with_ratings) == 0
    closing = json.loads(capsys.readouterr().out.splitlines()[-1])
    # Each of two users has events of weight with all four items before the cut and behind it, and one of them rates a
    # fifth item behind it. The third user is only shown items.
    assert (closing["n_train"], closing["n_test"]) == (8, 9)
    path.write_text("user,item,type,timestamp\n" + "".join([*lines, "u0,i0,view,\n"]))
    assert run([*command, "--test-fraction", "0.5"]) == 2
    assert "Invalid split time" in capsys.readouterr().err
