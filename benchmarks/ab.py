"""`python -m benchmarks ab`: an experiment on a file's newest ratings, read from the service's own figures.

The service imports the oldest ratings and trains both arms on them. The newest ones are played in time order, in
batches: for each rating its user asks for a list of the experiment, an event `impression` brings the id of the list
back, an event `hit` too if the list has the rated item and the rating is a like, and then the rating is posted. So the
rates are shares of users with a hit. Beside them are the tests of both models before they learned the same ratings.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.prequential import Timeline
from benchmarks.report import say
from benchmarks.running import BenchFailed, post, serving
from service.cli.client import Client
from service.cli.files import ratings_file

EXPERIMENT, BATCH = "ab", 50  # ratings of one batch
SETTINGS = {"NEARFIELD_EVENTS": "impression=seen,hit=seen", "NEARFIELD_BACKEND": "host"}


@dataclass(frozen=True)
class Row:
    """One arm: users with impressions, the share of them with a hit and its interval, and the tests of its model.

    `difference` is the share minus that of the first arm, with its interval.
    """

    model: str
    users: int
    hits: int
    hit_share: float
    interval: str
    difference: str
    tests: int
    hit_rate: float
    popularity_hit_rate: float


def run(ratings: Path, models: Sequence[str], like: float, trained: float) -> Iterator[Row]:
    """A row for each of `models`, algorithms by name; ratings from `like` on are likes."""
    timeline = Timeline.of(ratings_file.read(ratings))
    n_trained = int(trained * len(timeline.values))
    users, items = timeline.users.ids(timeline.user_rows.tolist()), timeline.items.ids(timeline.item_rows.tolist())
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data", env=SETTINGS) as (client, _):
        post(client, users[:n_trained], items[:n_trained], timeline.values[:n_trained])
        for model in models:
            say(f"training {model} on {n_trained:,} ratings")
            _train(client, model)
        arms = [{"model": model, "share": 100 / len(models)} for model in models]
        client.wait_for(_put(client, arms))
        for first in range(n_trained, len(users), BATCH):
            part = slice(first, first + BATCH)
            _play(client, users[part], items[part], timeline.values[part].tolist(), like)
        report = client.get(f"/admin/experiments/{EXPERIMENT}")
        tests = {model: client.get(f"/admin/models/{model}/quality")["all"] for model in models}
    compared = {one["model"]: one for one in report["differences"] if one["type"] == "hit"}
    for arm in report["arms"]:
        yield _row(arm, compared.get(arm["model"]), tests[arm["model"]])


def _train(client: Client, model: str) -> None:
    job = client.post("/admin/retrain", {"algorithm": model, "force": True})
    ended = client.ended_job(job["id"])
    if not ended["promoted"]:
        raise BenchFailed(f"Invalid end of job {job['id']}: expected a promoted model, got {ended}")


def _put(client: Client, arms: list[dict[str, Any]]) -> str:
    answer = client.http.put(f"/admin/experiments/{EXPERIMENT}", json={"arms": arms})
    answer.raise_for_status()
    stream_id: str = answer.json()["stream_id"]
    return stream_id


def _play(client: Client, users: Sequence[str], items: Sequence[str], values: Sequence[float], like: float) -> None:
    """Ask for lists, tell what they led to, and rate."""
    answer = client.http.post("/recommend", json={"users": list(users), "n": 10, "experiment": EXPERIMENT})
    answer.raise_for_status()
    events = []
    for shown, item, value in zip(answer.json(), items, values, strict=True):
        event = {"user": shown["user"], "item": item, "recommendation_id": shown["recommendation_id"]}
        events.append({**event, "type": "impression"})
        if value >= like and item in {one["item"] for one in shown["items"]}:
            events.append({**event, "type": "hit"})
    client.send_events(events)
    triples = zip(users, items, values, strict=True)
    sent = client.rate([{"user": user, "item": item, "rating": value} for user, item, value in triples])
    client.wait_for(sent["stream_id"])


def _row(arm: dict[str, Any], compared: dict[str, Any] | None, tests: dict[str, Any]) -> Row:
    hit = arm["types"].get("hit", {"users": 0, "rate": 0.0, "low": 0.0, "high": 1.0})
    interval = f"{hit['low']:.3f}-{hit['high']:.3f}"
    difference = "-"
    if compared is not None:
        difference = f"{compared['difference']:+.3f} ({compared['low']:+.3f} to {compared['high']:+.3f})"
    counted = arm["model"], arm["users"], hit["users"], hit["rate"], interval, difference
    return Row(*counted, tests["n"], tests["value"], tests["baseline"])
