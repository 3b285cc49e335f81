"""The export of one user, over HTTP and by the command: all that forgetting this user removes, and nothing else."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from service.__main__ import run
from service.base.recommendation_ids import RecommendationIds, ShownList
from service.base.signing import Signer
from service.jobs import export_rows
from service.storage.events import Entry, RatingEvent, StreamId, TypedEvent
from service.storage.log.rating_log import RatingLog
from tests.service.logs import commit
from tests.service.process import Service
from tests.service.waiting import eventually

USER, VISITOR = "--ann, who asks/é\n", "visitor-of-ann"
TIME = 1_700_000_000.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("person") / "data", fronts=1)
    service.rate(*((f"u{u}", f"i{i}", 3.0) for u in range(20) for i in range(20)))
    service.rate((VISITOR, "i1", 2.0), ("u1", "i1", 1.0))
    service.api.send_events(
        [{"user": VISITOR, "item": "i2", "type": "view", "value": 2, "timestamp": TIME, "event_id": "a"}]
    )
    merge = f"/admin/users/{encoded()}/merge", {"from": VISITOR}
    eventually(
        lambda: service.client.post(merge[0], json=merge[1]).status_code == 202
    )  # 404 until the visitor is known
    service.rate((USER, "i3", 4.1))
    service.rate((USER, "i3", 5.0))
    service.client.request("DELETE", f"/ratings/{encoded()}/i3")
    assert service.client.put(f"/users/{encoded()}", json={"tags": {"country": ["se"]}}).status_code == 202
    assert service.client.delete(f"/users/{encoded()}/events/a").status_code == 202
    service.rate((VISITOR, "i4", 1.0))  # after the merge: another visitor
    yield service
    service.kill()


def encoded() -> str:
    return "--ann%2C%20who%20asks%2F%C3%A9%0A"


def lines_of(service: Service) -> list[dict[str, Any]]:
    answer = service.get(f"/admin/users/{encoded()}/export")
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_all_that_is_kept_of_a_user_is_there_until_the_user_is_forgotten(service: Service, tmp_path: Path) -> None:
    lines = lines_of(service)
    positions = [one.pop("position") for one in lines]
    assert positions == sorted(positions)
    times = [one.pop("timestamp") for one in lines if one["kind"] in ("rating", "deletion")]
    assert len(times) == 4
    assert lines == [
        {"kind": "rating", "user": VISITOR, "item": "i1", "rating": 2.0},
        {
            "kind": "event", "user": VISITOR, "item": "i2", "type": "view", "value": 2.0, "timestamp": TIME,
            "event_id": "a",
        },
        {"kind": "merge", "user": USER, "merged": VISITOR},
        {"kind": "rating", "user": USER, "item": "i3", "rating": 4.1},
        {"kind": "rating", "user": USER, "item": "i3", "rating": 5.0},
        {"kind": "deletion", "user": USER, "item": "i3"},
        {"kind": "user", "user": USER, "attributes": {"user": USER, "tags": {"country": ["se"]}}},
        {"kind": "retract", "user": USER, "event_id": "a"},
    ]  # fmt: skip
    parquet = tmp_path / "person.parquet"
    assert run(["export", "--url", str(service.client.base_url), "--user", USER, "--out", str(parquet)]) == 0
    assert pq.read_table(parquet).column("position").to_pylist() == positions
    from_folder = tmp_path / "person.ndjson"
    assert run(["export", "--data", str(service.data), "--user", USER, "--out", str(from_folder)]) == 0
    assert [json.loads(line)["position"] for line in from_folder.read_text().splitlines()] == positions
    entry = service.client.get("/admin/audit", params={"n": 2}).text
    assert ("export_user" in entry, "ann" in entry) == (True, False)

    def files_with_the_name() -> str:
        command = ["grep", "-rl", "--exclude=*.parquet", "ann, who asks", str(service.data)]
        return subprocess.run(command, capture_output=True, check=False, text=True).stdout

    assert files_with_the_name()
    job = service.client.delete(f"/admin/users/{encoded()}").json()
    assert service.get(f"/admin/users/{encoded()}/export", wait_for=job["stream_id"]).status_code == 404
    eventually(lambda: service.api.get(f"/admin/jobs/{job['job']}")["state"] == "succeeded", 60)
    assert not files_with_the_name()
    log = RatingLog.of(service.data)
    assert not [row for batch in log.read() for row in batch.to_pylist() if row["user"] == USER and row["item"]]
    out = tmp_path / "none.ndjson"
    assert run(["export", "--url", str(service.client.base_url), "--user", USER, "--out", str(out)]) == 1
    assert run(["export", "--data", str(service.data), "--user", "nobody", "--out", str(out)]) == 2
    assert not out.exists()


def test_a_user_whom_nobody_knows_is_a_404_and_needs_the_admin_key(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", fronts=1, api_key="k" * 16, admin_key="a" * 16)
    try:
        statuses = [
            service.client.get("/admin/users/nobody/export", headers=headers).status_code
            for headers in ({}, {"X-API-Key": "k" * 16}, {"X-API-Key": "a" * 16})
        ]
        assert statuses == [401, 403, 404]
    finally:
        service.kill()


def test_events_of_experiments_say_what_was_shown(tmp_path: Path) -> None:
    shown = RecommendationIds(Signer(lambda: b"k" * 32)).of(ShownList("trial", "1-0", "als", "als-1", "2-0"), "ann")
    events = [TypedEvent("ann", "i1", "view", 1.0, TIME, None, one) for one in (shown, "of another producer", None)]
    log = RatingLog(tmp_path)
    commit(log, [Entry(StreamId(5, 0), "event", events=events), Entry(StreamId(5, 1), "rating", [RATING])])
    rows = [row for batch in export_rows.rows_of_user(log, "ann", StreamId(5, 0)).batches for row in batch.to_pylist()]
    assert [(row["experiment"], row["arm"], row["recommendation_id"]) for row in rows] == [
        ("trial", "als", shown),
        (None, None, "of another producer"),
        (None, None, None),
    ]


RATING = RatingEvent("ann", "i1", 5.0, TIME)  # after the position of the export
