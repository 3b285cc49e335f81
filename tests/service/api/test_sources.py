"""Sources of batches over HTTP: what is skipped and said, what is refused, and how an admin lets one start again."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from service.api.door.auth import Keys
from service.settings.settings import Settings
from service.storage import key_file
from service.storage.log.rating_log import RatingLog
from service.telemetry.metrics import MAX_SKIPPING, Metrics
from tests.service.local import Local, serving
from tests.service.waiting import eventually

ADMIN, BRIDGE, OTHER = "key-of-the-admins", "key-of-the-bridge", "key-of-the-others"
KEYS: dict[str, Any] = {"admin_key": ADMIN, "write_key": BRIDGE, "api_key": OTHER}
FAR = 2**63 - 1


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("sources") / "data", **KEYS) as local:
        yield local


def post(app: Local, source: str, offset: int, item: str, key: str = BRIDGE, path: str = "/ratings") -> Any:
    """The answer to a batch of one element."""
    element = {"user": source, "item": item} | ({"rating": 4} if path == "/ratings" else {"type": "view"})
    headers = {"X-Source": source, "X-Offset": str(offset), "X-API-Key": key}
    return app.request("POST", path, json=[element], headers=headers)


def told(answer: Any) -> tuple[int, int]:
    assert answer.status_code == 202, answer.text
    return answer.json()["accepted"], answer.json()["skipped"]


def as_admin(app: Local, method: str, path: str) -> Any:
    return app.request(method, path, headers={"X-API-Key": ADMIN})


def rated(app: Local, user: str) -> list[str]:
    found = app.request("GET", f"/users/{quote(user, '')}/ratings", headers={"X-API-Key": OTHER}).json()
    return sorted(one["item"] for one in found["ratings"])


def marks(app: Local, source: str) -> dict[str | None, int]:
    listed = as_admin(app, "GET", "/admin/sources?n=1000").json()["sources"]
    return {one["key"]: one["offset"] for one in listed if one["source"] == source}


@pytest.mark.parametrize("path", ["/ratings", "/events"])
def test_a_queue_that_starts_again_is_told_that_its_batches_do_not_count(app: Local, path: str) -> None:
    source = f"again{path}"
    answers = [told(post(app, source, offset, f"m{offset}", path=path)) for offset in (50, 51, 0, 1)]
    assert answers == [(1, 0), (1, 0), (1, 1), (1, 1)]
    lines = [f'nearfield_skipped_{counted}_total{{source="{source}"}} 2.0' for counted in ("batches", "elements")]
    eventually(lambda: all(line in app.get("/metrics").text for line in lines))  # a page may be some moments old
    assert (
        "skipped"
        not in app.request(
            "POST", "/ratings", json={"user": "u", "item": "i", "rating": 1}, headers={"X-API-Key": BRIDGE}
        ).json()
    )


def test_batches_that_are_sent_twice_at_once_count_once(app: Local) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: told(post(app, "at once", n // 8, f"m{n // 8}")), range(40)))
    assert sum(accepted - skipped for accepted, skipped in answers) == len(rated(app, "at once")) > 0
    assert {accepted for accepted, _ in answers} == {1}


def test_no_key_silences_another_one(app: Local) -> None:
    assert told(post(app, "k/0", 5, "a")) == (1, 0)
    assert told(post(app, "k/0", FAR, "b", key=OTHER)) == (1, 0)
    assert told(post(app, "k/0", 6, "c")) == (1, 0)
    assert marks(app, "k/0") == {"write_key": 6, "api_key": FAR}
    assert rated(app, "k/0") == ["a", "b", "c"]


def test_an_offset_far_ahead_is_refused_and_changes_nothing(app: Local) -> None:
    assert told(post(app, "far", 5, "a")) == (1, 0)
    for offset in (FAR, 100_000_006):
        answer = post(app, "far", offset, "b")
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:nearfield:problem:offset-too-far"
        assert "expected at most 100,000,005, which is 100,000,000 above the last one, 5" in answer.json()["detail"]
        assert "DELETE /admin/sources/" in answer.json()["detail"]
    assert marks(app, "far") == {"write_key": 5}
    assert told(post(app, "far", 6, "c")) == (1, 0)
    assert told(post(app, "far", 100_000_006, "d")) == (1, 0)
    assert rated(app, "far") == ["a", "c", "d"]


def test_an_admin_lets_a_source_start_again(app: Local) -> None:
    source, path = "kafka:c/t/0", "/admin/sources/kafka%3Ac%2Ft%2F0"
    for key in (BRIDGE, OTHER):
        assert told(post(app, source, 70, "a", key=key)) == (1, 0)
    assert told(post(app, source, 0, "b")) == (1, 1)
    assert as_admin(app, "DELETE", f"{path}?key=write_key").status_code == 202
    assert marks(app, source) == {"api_key": 70}
    assert told(post(app, source, 0, "c")) == (1, 0)
    assert told(post(app, source, 0, "d", key=OTHER)) == (1, 1)
    assert [one["key"] for one in as_admin(app, "DELETE", path).json()["removed"]] == ["write_key", "api_key"]
    assert marks(app, source) == {}
    assert as_admin(app, "DELETE", path).json()["removed"] == []
    assert told(post(app, source, 0, "e", key=OTHER)) == (1, 0)
    assert app.request("DELETE", path, headers={"X-API-Key": BRIDGE}).status_code == 403
    assert app.request("GET", "/admin/sources", headers={"X-API-Key": OTHER}).status_code == 403


def test_a_key_names_so_many_sources_and_no_more(app: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    made = as_admin_json(app, "POST", "/admin/keys", {"name": "of a tenant", "scope": "write"})
    monkeypatch.setattr("service.engine.state.sources.MAX_OF_KEY", 2)
    assert told(post(app, "t0", FAR, "a", key=made["key"])) == (1, 0)
    assert told(post(app, "t1", 0, "a", key=made["key"])) == (1, 0)
    answer = post(app, "t2", 0, "a", key=made["key"])
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:nearfield:problem:too-many-sources")
    assert told(post(app, "t1", 1, "b", key=made["key"])) == (1, 0)
    assert marks(app, "t1") == {made["id"]: 1}
    assert as_admin(app, "DELETE", "/admin/sources/t0").status_code == 202
    assert told(post(app, "t2", 0, "a", key=made["key"])) == (1, 0)


def as_admin_json(app: Local, method: str, path: str, document: object) -> Any:
    return app.request(method, path, json=document, headers={"X-API-Key": ADMIN}).json()


def test_marks_and_removals_outlive_restarts_forgetting_merged_segments_and_copies(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(data, **KEYS) as app:
        for n in range(4):
            assert told(post(app, f"s{n}", 9, "a")) == (1, 0)
        assert as_admin(app, "DELETE", "/admin/sources/s0").status_code == 202
        assert told(post(app, "s0", 1, "b")) == (1, 0)
        assert as_admin(app, "DELETE", "/admin/sources/s1?key=write_key").status_code == 202
        job = as_admin(app, "DELETE", "/admin/users/s2").json()["job"]
        eventually(lambda: as_admin(app, "GET", f"/admin/jobs/{job}").json()["state"] == "succeeded")
    log = RatingLog(data / "ratings")
    log.compact()
    shutil.copytree(data / "ratings", copy / "ratings")
    for folder in (data, copy):
        with serving(folder, **KEYS) as app:
            found = [marks(app, f"s{n}") for n in range(4)]
            assert found == [{"write_key": 1}, {}, {"write_key": 9}, {"write_key": 9}]
            assert [told(post(app, f"s{n}", 1, "c")) for n in range(4)] == [(1, 1), (1, 0), (1, 1), (1, 1)]


def test_a_setting_keeps_its_sources_when_its_value_changes(tmp_path: Path) -> None:
    old, new = "old-key-of-the-bridge", "new-key-of-the-bridge"
    keys = Keys(Settings(data=tmp_path, write_key=f"{old},{new}", admin_key=ADMIN))
    made, text = key_file.make(tmp_path, "a bridge", "write", None)
    keys.made.refresh()
    assert [keys.name_of(key) for key in (old.encode(), new.encode(), None)] == ["write_key", "write_key", ""]
    assert keys.name_of(text.encode()) == made.id


def test_the_series_of_sources_are_bounded() -> None:
    metrics = Metrics()
    for n in range(MAX_SKIPPING + 5):
        metrics.count_skipped(f"source {n}", 3)
    lines = [line for line in metrics.text().decode().splitlines() if line.startswith("nearfield_skipped_elements_tot")]
    assert len(lines) == MAX_SKIPPING + 1
    assert 'nearfield_skipped_elements_total{source="other"} 15.0' in lines
