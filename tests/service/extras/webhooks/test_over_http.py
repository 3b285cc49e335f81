"""Webhooks as users meet them: one service that is killed and started again, and a target on loopback."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.extras.webhooks.receiver import HANGS, Received, Receiver, receiving
from tests.service.process import Service
from tests.service.waiting import eventually


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("webhooks") / "data", fronts=1, webhook_networks="127.0.0.0/8")
    yield service
    service.kill()


@pytest.fixture(autouse=True)
def without_webhooks(service: Service) -> Iterator[None]:
    yield
    for webhook in listed(service):
        assert service.client.delete(f"/admin/webhooks/{webhook['id']}").status_code == 200


def listed(service: Service) -> list[dict[str, Any]]:
    return service.get("/admin/webhooks").json()["webhooks"]


def made(service: Service, url: str, **body: Any) -> dict[str, Any]:
    answer = service.client.post("/admin/webhooks", json={"url": url, **body})
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


def forgotten(service: Service) -> str:
    """The id of a job that ends soon."""
    return service.client.delete("/admin/users/nobody").json()["job"]


def told(receiver: Receiver, path: str, job: str, timeout_s: float = 60.0) -> list[Received]:
    """All requests to a path about a job, of which there is at least one."""
    return eventually(lambda: [one for one in receiver.at[path] if one.message["job"]["id"] == job], timeout_s)


def test_an_end_is_told_until_it_is_accepted(service, receiver):
    webhook = made(service, receiver.answer("/first-fails", 500))
    assert listed(service) == [
        {name: webhook[name] for name in ("id", "url", "events", "created_ms")}
        | {"waiting": 0, "next_ms": None, "delivered": 0, "given_up": 0, "last": None}
    ]
    job = forgotten(service)
    (first, second) = eventually(lambda: len(receiver.at["/first-fails"]) > 1 and receiver.at["/first-fails"])
    assert first.body == second.body
    assert first.message == {
        "type": "forget.succeeded",
        "data_set": "default",
        "job": service.get(f"/admin/jobs/{job}").json(),
    }
    for one in (first, second):
        assert one.headers["content-type"] == "application/json"
        assert one.headers["webhook-id"] == f"{webhook['id']}-{job}"
        assert abs(int(one.headers["webhook-timestamp"]) - time.time()) < 60
        assert one.is_signed_by(webhook["secret"])
        assert not one.is_signed_by("whsec_" + "A" * 43 + "=")
    assert int(second.headers["webhook-timestamp"]) >= int(first.headers["webhook-timestamp"]) + 1
    eventually(lambda: listed(service)[0]["delivered"])
    (shown,) = listed(service)
    assert (shown["waiting"], shown["next_ms"], shown["given_up"]) == (0, None, 0)
    assert {name: shown["last"][name] for name in ("job", "attempt", "outcome", "error")} == {
        "job": job, "attempt": 2, "outcome": "delivered", "error": None
    }  # fmt: skip
    assert webhook["secret"] not in str(shown)
    assert 'nearfield_webhook_attempts_total{outcome="failed"} 1.0' in eventually(
        lambda: (
            (page := service.get("/metrics").text) and 'webhook_attempts_total{outcome="delivered"}' in page and page
        )
    )


def test_only_the_events_that_were_asked_for_are_told(service, receiver):
    of_trainings = made(service, receiver.answer("/trainings"), events=["train.cancelled", "train.cancelled"])
    assert of_trainings["events"] == ["train.cancelled"]
    made(service, receiver.answer("/all"))
    forget = forgotten(service)
    training = service.api.start_training("als", {})["id"]
    service.client.delete(f"/admin/jobs/{training}")
    (cancelled,) = told(receiver, "/trainings", training)
    assert cancelled.message["type"] == "train.cancelled"
    for job in (forget, training):
        told(receiver, "/all", job)
    assert len(receiver.at["/trainings"]) == 1


def test_a_target_that_hangs_delays_nobody_else(service, receiver):
    hanging = made(service, receiver.answer("/hangs", HANGS))
    redirecting = made(service, receiver.answer("/redirects", *[302] * 9))
    closed = made(service, "http://127.0.0.1:1025/closed")
    made(service, receiver.answer("/good"))
    receiver.answer("/elsewhere")
    told(receiver, "/good", forgotten(service))
    assert service.get("/health/ready").status_code == 200
    assert {one["id"]: one["last"] for one in listed(service)}[hanging["id"]] is None  # its attempt has not ended
    told(receiver, "/good", forgotten(service))
    (first,) = told(receiver, "/hangs", receiver.at["/hangs"][0].message["job"]["id"])
    assert first.is_signed_by(hanging["secret"])

    def errors() -> dict[str, str]:
        return {one["id"]: one["last"]["error"] for one in listed(service) if one["last"] and one["last"]["error"]}

    eventually(lambda: len(errors()) == 3)
    found = errors()
    assert found[hanging["id"]] == "no answer within 5 s"
    assert found[redirecting["id"]] == "expected a status of 2xx, got 302"
    assert found[closed["id"]].startswith("ConnectError: ")
    assert receiver.at["/elsewhere"] == []
    assert {one["id"]: one["waiting"] for one in listed(service)}[hanging["id"]] == 2


def test_what_was_to_be_told_survives_a_kill(service, receiver):
    webhook = made(service, receiver.answer("/down", *[503] * 99))
    job = forgotten(service)
    told(receiver, "/down", job)
    service.kill()
    receiver.answer("/down")
    service.start()
    (told_again,) = told(receiver, "/down", job)
    assert told_again.headers["webhook-id"] == f"{webhook['id']}-{job}"
    assert told_again.is_signed_by(webhook["secret"])
    eventually(lambda: listed(service)[0]["waiting"] == 0)


def test_a_removed_webhook_is_told_nothing(service, receiver):
    webhook = made(service, receiver.answer("/gone", *[500] * 99))
    told(receiver, "/gone", forgotten(service))
    removed = service.client.delete(f"/admin/webhooks/{webhook['id']}")
    assert removed.json() == {name: webhook[name] for name in ("id", "url", "events", "created_ms")}
    made(service, receiver.answer("/after"))
    n_told = len(receiver.at["/gone"])
    told(receiver, "/after", forgotten(service))
    assert len(receiver.at["/gone"]) - n_told <= 1  # an attempt that had begun
    again = service.client.delete(f"/admin/webhooks/{webhook['id']}")
    assert (again.status_code, again.json()["type"]) == (404, "urn:nearfield:problem:unknown-webhook")
