"""Exports over HTTP, in one process and from fronts, and what they read back as."""

import http.client
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.__main__ import run
from service.cli.files import ratings_file
from service.extras.exports.export_formats import AS_OF
from tests.service.process import Service, descendants
from tests.service.waiting import eventually

N_USERS, N_ITEMS = 300, 40


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("exports") / "data", fronts=1, max_ratings=20_000, max_body_bytes=1 << 24)
    service.rate(*((f"u{u}", f"i{i}", (u + i) % 10 / 2 + 0.1) for u in range(N_USERS) for i in range(N_ITEMS)))
    service.rate(("gone", "i1", 5.0), ("é/\n", "i1", -3.25), ("u1", "i1", 4.1))
    service.client.request("DELETE", "/ratings/u2/i2")
    service.api.send_events(
        [
            {"user": "u1", "item": "i1", "type": "view", "value": 2, "timestamp": 1700000000, "event_id": "a"},
            {"user": "gone", "item": "i1", "type": "cart", "timestamp": 1700000001},
            {"user": "u1", "item": "i2", "type": "view", "timestamp": 1700000002, "event_id": "b"},
            {"user": "ü2", "item": "i2", "type": "view", "timestamp": 1700000003, "event_id": "b"},
        ]
    )
    assert service.client.delete("/users/u1/events/b").json()["removed"]
    service.api.put_items([{"item": "i1", "tags": {"genre": ["x", "y"]}, "numbers": {"price": 9.99}, "until": 2e9}])
    service.api.put_items([{"item": "i2", "embedding": [0.1, -1]}, {"item": "i3", "tags": {"a": ["b"]}}])
    service.client.delete("/items/i3")
    service.api.wait_for(service.client.delete("/admin/users/gone").json()["stream_id"])
    yield service
    service.kill()


def expected() -> dict[tuple[str, str], float]:
    found = {(f"u{u}", f"i{i}"): (u + i) % 10 / 2 + 0.1 for u in range(N_USERS) for i in range(N_ITEMS)}
    del found["u2", "i2"]
    return found | {("é/\n", "i1"): -3.25, ("u1", "i1"): 4.1}


def lines_of(answer: httpx.Response) -> list[dict[str, object]]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_every_format_has_all_ratings_in_their_order(service: Service) -> None:
    answer = service.get("/admin/export")
    lines = lines_of(answer)
    assert {(one["user"], one["item"]): one["rating"] for one in lines} == pytest.approx(expected())
    assert len(lines) == len(expected())
    assert [one["user"] for one in lines[-2:]] == ["é/\n", "u1"]
    assert answer.headers["X-As-Of"] == service.api.get("/health/ready")["as_of"]
    parquet = service.get("/admin/export", format="parquet")
    arrow = service.get("/admin/export", format="arrow")
    tables = pq.read_table(io.BytesIO(parquet.content)), pa.ipc.open_stream(arrow.content).read_all()
    for table in tables:
        assert table.schema.metadata[AS_OF].decode() == answer.headers["X-As-Of"]
        assert table.column("user").to_pylist() == [one["user"] for one in lines]
        assert table.column("timestamp").to_pylist() == [one["timestamp"] for one in lines]
        assert table.column("rating").to_pylist() == pytest.approx([one["rating"] for one in lines])


def test_events_and_items_are_exported_as_they_are_posted(service: Service) -> None:
    events = lines_of(service.get("/admin/export", what="events"))
    assert events == [
        {"user": "u1", "item": "i1", "type": "view", "value": 2.0, "timestamp": 1700000000.0, "event_id": "a"},
        {"user": "ü2", "item": "i2", "type": "view", "value": 1.0, "timestamp": 1700000003.0, "event_id": "b"},
    ]
    items = {one["item"]: one for one in lines_of(service.get("/admin/export", what="items"))}
    assert items["i1"] == {
        "item": "i1", "tags": {"genre": ["x", "y"]}, "numbers": {"price": 9.99}, "available": True, "until": 2e9,
    }  # fmt: skip
    assert items["i2"] == {"item": "i2", "embedding": [0.1, -1.0], "available": True}
    assert "i3" not in items


def test_an_import_of_an_export_gives_the_same_export(service: Service, tmp_path: Path) -> None:
    files = {
        what: tmp_path / name for what, name in (("ratings", "r.ndjson"), ("items", "i.parquet"), ("same", "r.pq"))
    }
    for what, path in files.items():
        options = ["--what", what.replace("same", "ratings"), "--out", str(path)]
        assert run(["export", "--url", str(service.client.base_url), *options]) == 0
    read = [ratings_file.read(files[name]) for name in ("ratings", "same")]
    assert read[0].values.tobytes() == read[1].values.tobytes()
    assert (read[0].users, read[0].items) == (read[1].users, read[1].items)
    other = Service(tmp_path / "other")
    try:
        address = str(other.client.base_url)
        assert run(["import", str(files["ratings"]), "--url", address]) == 0
        assert run(["import", "--items", str(files["items"]), "--url", address]) == 0
        again, items = (sorted(one.get("/admin/export", what="items").text.splitlines()) for one in (other, service))
        assert again == items != []
    finally:
        other.kill()
    assert run(["export", "--data", str(tmp_path / "other"), "--out", str(tmp_path / "f.ndjson")]) == 0
    assert (tmp_path / "f.ndjson").read_bytes() == files["ratings"].read_bytes()


def exporters(service: Service) -> list[psutil.Process]:
    return descendants("service.extras.exports.exporter", psutil.Process(service.process.pid))


def test_a_client_that_goes_away_ends_the_export_and_the_next_one_may_begin(service: Service) -> None:
    for n_chunks in (0, 1):
        if n_chunks:
            with (
                httpx.Client(base_url=service.client.base_url, timeout=60) as client,
                client.stream("GET", "/admin/export") as answer,
            ):
                assert next(answer.iter_raw(100))
                assert service.get("/admin/export").status_code in (200, 409)
        else:
            leaving = http.client.HTTPConnection(service.client.base_url.host, service.client.base_url.port)
            leaving.request("GET", "/admin/export")  # no answer is read
            (exporter,) = eventually(lambda: exporters(service))
            exporter.suspend()  # else it may end before the client goes away
            assert os.getsid(exporter.pid) == exporter.pid
            assert service.get("/admin/export").json()["type"] == "urn:nearfield:problem:export-running"
            leaving.close()
        eventually(lambda: not exporters(service), 60)
        eventually(lambda: service.get("/admin/export", what="events").status_code == 200, 60)


def test_an_export_has_one_state_while_ratings_come(service: Service) -> None:
    before = service.api.get("/health/ready")["as_of"]
    with service.client.stream("GET", "/admin/export") as answer:
        service.rate(("later", "i1", 1.0))
        lines = answer.read().decode().splitlines()
    assert len(lines) == len(expected())
    assert answer.headers["X-As-Of"] == before
    head = service.client.head("/admin/export").headers
    assert (head["Content-Type"], "Content-Length" in head) == ("application/x-ndjson", False)
    assert service.get("/admin/export", format="csv").status_code == 422


def test_lists_take_the_body_of_recommend_and_a_file_of_users(
    service: Service, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert service.api.retrain("als", {"n_factors": 4, "n_epochs": 1}, force=True)["promoted"]
    scenario = {"n": 3, "max_per": {"tag": "genre", "n": 2}, "exclude": ["i0"], "explain": True}
    service.api.wait_for(service.client.put("/admin/scenarios/letter", json=scenario).json()["stream_id"])
    (users := tmp_path / "users.txt").write_text("u7\nnobody\nu1\n")
    out, body = tmp_path / "lists.parquet", {"scenario": "letter", "include_seen": True, "fallback": "none"}
    asked = ["--body", json.dumps(body), "--users", str(users), "--out", str(out)]
    assert run(["lists", "--url", str(service.client.base_url), *asked]) == 0
    shown = capfd.readouterr()
    assert "users 2" in shown.out
    assert "Listing: " in shown.err, "a line for a phase where there is no terminal"
    listed = pq.read_table(out).to_pylist()
    answers = service.client.post("/recommend", json=body | {"users": ["u7", "u1"]}).json()
    assert [(one["user"], one["item"]) for one in listed] == [
        (answer["user"], item["item"]) for answer in answers for item in answer["items"]
    ]
    (job, *_) = service.get("/admin/jobs").json()["jobs"]
    assert job["params"] == body | {"users": 3}
    for wrong, text in (
        ({"scenario": "none"}, "none"),
        ({"max_per": {"tag": "nothing", "n": 1}}, "nothing"),
        ({"n": 2000, "diversity": 0.5}, "expected"),
        ({"users": []}, "users"),
        ({"experiment": "home"}, "experiment"),
        ({"model": "magic"}, "magic"),
    ):
        refused = service.client.post("/admin/lists", json=wrong)
        assert refused.status_code in (404, 422), wrong
        assert text in refused.text


def test_a_damaged_log_is_a_problem_that_names_the_file(service: Service) -> None:
    path = max((service.data / "ratings").glob("*.parquet"), key=lambda one: one.stat().st_size)
    content = path.read_bytes()
    path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    try:
        answer = service.get("/admin/export")
        assert (answer.status_code, answer.json()["title"]) == (500, "Export failed")
        assert path.name in answer.json()["detail"]
    finally:
        path.write_bytes(content)
