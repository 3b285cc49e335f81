"""`nearfield tune --events`: parameters and weights of types that suit a file of events."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.__main__ import run
from service.cli.files.events_file import Event, EventsFile
from service.cli.offline import Data
from service.cli.options import Split
from service.settings.event_types import DEFAULT_TYPES, parse_event_types, text_of

SMALL = ["--algorithm", "als-implicit", "--backend", "host", "--set", "n_factors=16", "--set", "n_epochs=2"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users view any items, and buy those of their kind, of ten."""
    path, rng, n = tmp_path_factory.mktemp("tune") / "events.csv", np.random.default_rng(0), 9000
    is_bought, users, items = rng.random(n) < 0.4, rng.integers(0, 200, n), rng.integers(0, 300, n)
    items = np.where(is_bought, items // 10 * 10 + users % 10, items)
    kinds = np.where(is_bought, "purchase", "view")
    days = np.sort(rng.integers(0, 40, n))
    rows = zip(users, items, kinds, days, strict=True)
    lines = [f"u{u},i{i},{kind},{1_700_000_000 + 86_400 * day}" for u, i, kind, day in rows]
    path.write_text("\n".join(["user,item,type,timestamp", *lines]))
    return path


def test_the_type_that_tells_a_taste_gets_more_weight(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARFIELD_EVENTS", "view=1,purchase=0.1,dislike=-2,impression=seen")
    assert run(["tune", "--events", str(file), *SMALL, "--json"]) == 0
    *trials, closing = map(json.loads, capsys.readouterr().out.splitlines())
    assert [line["trial"] for line in trials] == list(range(1, closing["n_trials"] + 1))
    assert all(line["trial"] <= line["of"] for line in trials)
    tried = [line["events"] for line in trials if "events" in line]
    weights = [f"view=1,purchase={weight},dislike=-2,impression=seen" for weight in ("0.1", "0.01", "0.03", "0.3", "1")]
    assert tried == weights
    steps: dict[str, Any] = {step["step"]: step for step in closing["steps"]}
    assert "half_life_days" in steps, "what is held out is newer"
    of_type = steps["events purchase"]
    assert of_type["is_kept"]
    assert of_type["gain"] > of_type["standard_error"] > 0
    assert closing["events"] == f"view=1,purchase={of_type['weight']:g},dislike=-2,impression=seen"
    assert of_type["weight"] in (0.3, 1.0)
    assert closing["best_ndcg@10"] >= of_type["score"] == max(line["score"] for line in trials if "events" in line)
    assert "not tested" in closing["repeat"]["remark"]


def test_the_table_ends_with_what_to_set(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "--events", str(file), *SMALL, "--split", "random"]) == 0
    shown = capsys.readouterr().out
    *_, score, past, events, options = shown.splitlines()
    assert "\n| events purchase " in shown
    assert score.endswith("trainings")
    assert past.startswith("what users had before: ")
    assert parse_event_types(events.removeprefix("NEARFIELD_EVENTS=")).keys() == DEFAULT_TYPES.keys()
    assert options.startswith("--set ")


def test_bad_usage_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, message in {
        ("--algorithm", "ease"): "expected --ratings or --events, got none",
        ("--algorithm", "als", "--events", str(file)): "expected --events with an algorithm that learns them, got als",
        ("--algorithm", "ease", "--events", str(file), "--test", str(file), "--split", "time"): "--test or --split",
    }.items():
        assert run(["tune", *options]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("split", ["random", "time"])
def test_other_weights_change_strengths_alone(split: Split) -> None:
    rng, kinds = np.random.default_rng(1), ("view", "cart", "purchase", "dislike", "impression")
    events = [
        Event(f"u{rng.integers(9)}", f"i{rng.integers(8)}", kinds[rng.integers(5)], None, float(n), None)
        for n in range(200)
    ]
    file = EventsFile(events, [], "")
    types, others = (  # by none of both does a pair add up to 0
        parse_event_types(f"{text},dislike=-2.3,impression=seen")
        for text in ("view=1,cart=3,purchase=10", "view=2,cart=3,purchase=0.5")
    )
    asked, wanted = (next(Data.parts(None, (file, one), None, 0.3, 0, split, 1)) for one in (types, others))
    weighed = asked.weighed(others)
    assert weighed.test is asked.test
    assert strengths_of(weighed) == strengths_of(wanted)
    assert strengths_of(weighed) != strengths_of(asked)


def strengths_of(data: Data) -> dict[tuple[str, str], tuple[float, float]]:
    """Strength and time of each pair that is trained on."""
    assert data.times is not None
    (users, items), (rows, columns, values) = data.ids(), data.train.coo()
    pairs = ((users[row], items[column]) for row, column in zip(rows, columns, strict=True))
    return dict(zip(pairs, zip(values.tolist(), data.times.seconds.tolist(), strict=True), strict=True))


def test_weights_are_written_as_they_are_read() -> None:
    assert parse_event_types(text_of(DEFAULT_TYPES)) == DEFAULT_TYPES
