"""What the audit log has of requests: each action of an admin, each refusal, and no secret."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from service.api.door import audit
from tests.service.extras.console.visitor import ADMIN_KEY, Visitor
from tests.service.process import Service

READ_KEY, WRONG_KEY, SPARE_KEY = "key-of-those-who-read", "nf_wrong-key-of-a-stranger", "second-key-of-the-admins"
USER = "ann-who-wants-to-be-forgotten"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("audit") / "data"
    settings = {"admin_key": f"{ADMIN_KEY},{SPARE_KEY}", "read_key": READ_KEY, "data_sets": "films", "backend": "host"}
    service = Service(data, fronts=2, log_format="json", trusted_proxies="127.0.0.0/8", **settings)
    yield service
    service.kill()


@pytest.fixture
def admin(service: Service) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "X-Forwarded-For": "192.0.2.7"}
    with httpx.Client(base_url=service.client.base_url, headers=headers, timeout=60) as client:
        yield client


def entries(admin: httpx.Client, n: int = 1, path: str = "") -> list[dict[str, Any]]:
    """The newest entries, oldest first."""
    answer = admin.get(f"{path}/admin/audit", params={"n": n})
    assert answer.status_code == 200
    found = answer.json()["entries"]
    return list(reversed(found))


def shown(entry: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(entry[name] for name in ("action", "outcome", "via", "status", "object", "key"))


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("PUT", "/admin/items/a%2Fb/hidden", None, ("hide_item", "done", 202, "item a/b")),
        ("DELETE", "/admin/items/a%2Fb/hidden", None, ("show_item", "done", 202, "item a/b")),
        ("POST", "/admin/models/als-1-x/activate", None, ("activate_model", "failed", 404, "version als-1-x")),
        ("DELETE", "/admin/jobs/0123456789ab", None, ("cancel_job", "failed", 404, "job 0123456789ab")),
        ("POST", "/admin/retrain", {"algorithm": "no"}, ("retrain", "failed", 422, None)),
        ("DELETE", f"/admin/keys/{WRONG_KEY}", None, ("revoke_key", "failed", 404, "key nf_…")),
        ("POST", f"/admin/users/{USER}/merge", {"from": USER + "2"}, ("merge_user", "failed", 404, None)),
        ("GET", "/admin/exports/0123456789ab", None, ("get_export", "failed", 404, "job 0123456789ab")),
        ("POST", "/admin/nothing", {}, ("unknown", "failed", 405, None)),
    ],
)
def test_each_action_is_noted_before_its_answer(
    admin: httpx.Client, method: str, path: str, body: Any, expected: tuple[Any, ...]
) -> None:
    answer = admin.request(method, path, json=body, headers={"X-Request-ID": "of-this-test"})
    (entry,) = entries(admin)
    action, outcome, status, about = expected
    assert answer.status_code in (status, 404)
    assert shown(entry) == (action, outcome, "api", answer.status_code, about, "admin_key")
    assert (entry["address"], entry["request_id"], entry["data_set"]) == ("192.0.2.7", "of-this-test", "default")


def test_what_was_made_is_named_and_no_user_is(admin: httpx.Client, service: Service) -> None:
    assert admin.post("/ratings", json={"user": USER, "item": "film", "rating": 5}).status_code == 202
    key = admin.post("/admin/keys", json={"name": "x", "scope": "read"}).json()
    job = admin.delete(f"/admin/users/{USER}").json()["job"]
    export = admin.get("/admin/export", params={"what": "ratings"})
    assert export.status_code == 200
    assert admin.delete(f"/admin/keys/{key['id']}").status_code == 200
    assert [shown(one)[0::4] for one in entries(admin, 4)] == [
        ("make_key", f"key {key['id']}"),
        ("forget_user", f"job {job}"),
        ("export", "ratings as ndjson"),
        ("revoke_key", f"key {key['id']}"),
    ]
    assert USER not in (service.data / "audit").glob("*.ndjson").__next__().read_text()


def test_refusals_are_noted_with_the_key_if_it_is_ours(admin: httpx.Client) -> None:
    for key in (None, WRONG_KEY, READ_KEY):
        headers = {} if key is None else {"X-API-Key": key}
        with httpx.Client(base_url=admin.base_url, headers=headers, timeout=60) as stranger:
            for path in ("/admin/jobs", "/admin/jobs/x?secret=1"):
                assert stranger.get(path).status_code == (403 if key == READ_KEY else 401)
            assert stranger.delete("/admin/models/als").status_code == (403 if key == READ_KEY else 401)
    found = [shown(one) for one in entries(admin, 9)]
    for number, (key, status) in enumerate([(None, 401), (None, 401), ("read_key", 403)]):
        assert found[3 * number : 3 * number + 3] == [
            ("list_jobs", "refused", "api", status, None, key),
            ("get_job", "refused", "api", status, "job x", key),
            ("end_model", "refused", "api", status, "name als", key),
        ]


def test_reads_are_not_noted(admin: httpx.Client) -> None:
    before = entries(admin, 5)
    for path in (
        "/admin/jobs",
        "/admin/exports",
        "/admin/keys",
        "/admin/stats",
        "/admin/audit",
        "/recommend/u",
        "/console/overview",
    ):
        admin.get(path)
    assert entries(admin, 5) == before


def test_the_console_is_noted_with_the_key_of_its_session(admin: httpx.Client) -> None:
    with Visitor(str(admin.base_url)) as visitor:
        assert visitor.sign_in(WRONG_KEY).status_code == 401
        assert visitor.sign_in(READ_KEY).status_code == 403
        assert visitor.sign_in(SPARE_KEY).status_code == 303
        assert visitor.submit("cancel", job="0123456789ab").status_code == 404
        assert visitor.post("/console/cancel", data={"job": "1"}).status_code == 403
        assert visitor.submit("logout").status_code == 303
        assert visitor.post("/console/activate", data={"version": "x"}).status_code == 303
    assert [shown(one) for one in entries(admin, 7)] == [
        ("sign_in", "refused", "console", 401, None, None),
        ("sign_in", "refused", "console", 403, None, "read_key"),
        ("sign_in", "done", "console", 303, None, "admin_key:2"),
        ("cancel_job", "failed", "console", 404, "job 0123456789ab", "admin_key:2"),
        ("cancel_job", "refused", "console", 403, None, "admin_key:2"),
        ("sign_out", "done", "console", 303, None, "admin_key:2"),
        ("activate_model", "refused", "console", 303, None, None),
    ]


def test_a_data_set_has_an_audit_log_of_its_own(admin: httpx.Client) -> None:
    assert admin.put("/d/films/admin/items/i1/hidden").status_code == 202
    (entry,) = entries(admin, 1, "/d/films")
    assert (entry["data_set"], *shown(entry)[:2]) == ("films", "hide_item", "done")
    assert entries(admin)[0]["data_set"] == "default"


def test_both_logs_have_the_same_lines_and_no_secret(admin: httpx.Client, service: Service) -> None:
    admin.put("/admin/items/last/hidden")
    (entry,) = entries(admin)
    lines = [json.loads(line) for line in service.errors.read_text().splitlines() if line.startswith("{")]
    audited = [line for line in lines if line["event"] == "audit"]
    last = audited[-1]
    assert {name: last.get(name) for name in entry if name not in ("at", "left_out")} == {
        name: value for name, value in entry.items() if name not in ("at", "left_out")
    }
    text = json.dumps(audited) + "".join(path.read_text() for path in (service.data / "audit").glob("*.ndjson"))
    for secret in (ADMIN_KEY, SPARE_KEY, READ_KEY, WRONG_KEY, "secret=1", "nearfield_console"):
        assert secret not in text


def test_pages_follow_each_other_and_wrong_cursors_are_refused(admin: httpx.Client) -> None:
    for number in range(3):
        admin.put(f"/admin/items/i{number}/hidden")
    first = admin.get("/admin/audit", params={"n": 2}).json()
    second = admin.get("/admin/audit", params={"n": 1, "cursor": first["next"]}).json()
    assert [one["object"] for one in (*first["entries"], *second["entries"])] == ["item i2", "item i1", "item i0"]
    stem, _, byte = first["next"].partition(":")
    for cursor in (
        "x",
        "../x:1",
        "2026-13-0001:0",
        "2025-00-0001:0",
        f"{stem}:-1",
        f"{stem}:{int(byte) + 1}",
        f"{stem}:1e3",
    ):
        answer = admin.get("/admin/audit", params={"cursor": cursor})
        assert (answer.status_code, "Invalid cursor" in answer.json()["detail"]) == (422, True)
    for wrong in ({"n": 0}, {"n": 5000}, {"m": 1}):
        assert admin.get("/admin/audit", params=wrong).status_code == 422
    with httpx.Client(base_url=admin.base_url, headers={"X-API-Key": READ_KEY}, timeout=60) as reader:
        assert reader.get("/admin/audit").status_code == 403


def test_a_flood_of_refusals_leaves_no_more_than_its_budget(service: Service, admin: httpx.Client) -> None:
    """It can neither fill the disk nor push other entries out of the log."""
    size = sum(path.stat().st_size for path in (service.data / "audit").glob("*.ndjson"))
    with httpx.Client(base_url=admin.base_url, timeout=60) as stranger:
        for _ in range(3 * audit.BURST):
            stranger.get("/admin/jobs/" + "x" * 200)
    grown = sum(path.stat().st_size for path in (service.data / "audit").glob("*.ndjson")) - size
    assert 0 < grown < 2.1 * audit.BURST * 800, "of two fronts"
    admin.put("/admin/items/after/hidden")
    assert entries(admin)[0]["object"] == "item after"
