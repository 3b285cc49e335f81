"""Which requests the Python client sends again, how often, and what it sends with reads."""

import asyncio
import json
import re
from collections.abc import Iterator
from email.utils import formatdate

import httpx
import pytest
from nearfield_client import AsyncNearfield, Nearfield, NearfieldError
from nearfield_client.generated.api.admin import retrain
from nearfield_client.generated.api.ratings import post_events, post_ratings
from nearfield_client.generated.api.recommendations import list_popular, recommend_user_filtered
from nearfield_client.generated.models import Job, PostedEvent, PostedRating, RecommendBody, Retrain
from nearfield_client.positions import NEVER_WAIT, WAITING_POSTS

from clients import generate
from tests.clients.scripted import Given, Scripted, problem, scripted_server

RATING = PostedRating("ann", "i1", 4.0)
EVENT = PostedEvent("ann", "i1", "view")
TRAINING = Retrain("sgd")
ACCEPTED = Given(202, {"accepted": 1, "rejected": [], "stream_id": "7-0", "took_ms": 1.0})
POPULAR = Given(200, {"items": [], "as_of": "7-0", "warnings": []})
BROKEN = Given(0)
LOST = problem(503, "stream-unavailable", Retry_After="0")
BUSY = problem(503, "overloaded", Retry_After="0")
LIMITED = problem(429, "too-many-requests", Retry_After="0")


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    with scripted_server() as scripted:
        yield scripted


@pytest.fixture
def client(server: Scripted) -> Iterator[Nearfield]:
    with Nearfield(server.url, patience_s=2.0) as client:
        yield client


@pytest.mark.parametrize("refusal", [LIMITED, BUSY])
def test_what_was_not_applied_is_sent_again(server: Scripted, client: Nearfield, refusal: Given) -> None:
    server.will_answer(refusal, ACCEPTED)
    assert post_events.sync(client=client, body=EVENT).accepted == 1
    assert [one.path for one in server.asked] == ["/events"] * 2
    assert server.asked[0] == server.asked[1]


@pytest.mark.parametrize("unknown", [LOST, BROKEN])
def test_what_may_have_been_applied_is_sent_again_if_that_changes_nothing(
    server: Scripted, client: Nearfield, unknown: Given
) -> None:
    server.will_answer(unknown, ACCEPTED)
    assert post_ratings.sync(client=client, body=[RATING]).accepted == 1
    server.will_answer(unknown, ACCEPTED)
    assert post_events.sync(client=client, body=EVENT, x_source="queue", x_offset=5).accepted == 1
    server.will_answer(unknown, POPULAR)
    assert list_popular.sync(client=client).items == []
    server.will_answer(unknown, ACCEPTED)
    with client.events() as batch:
        batch.add(EVENT)
    assert server.bodies[0] == server.bodies[1]
    assert server.bodies[0][0]["event_id"]


def test_what_may_have_been_applied_is_else_not_sent_again(server: Scripted, client: Nearfield) -> None:
    server.will_answer(LOST, ACCEPTED)
    with pytest.raises(NearfieldError, match="503 stream-unavailable: wait") as refused:
        post_events.sync(client=client, body=EVENT)
    assert refused.value.slug == "stream-unavailable"
    assert len(server.asked) == 1
    server.will_answer(BROKEN, ACCEPTED)
    with pytest.raises(NearfieldError, match="No answer: Server disconnected") as unknown:
        post_events.sync(client=client, body=EVENT)
    assert (unknown.value.status, unknown.value.retry_after, unknown.value.problem) == (None, None, None)
    assert isinstance(unknown.value.__cause__, httpx.RemoteProtocolError)
    assert len(server.asked) == 1
    server.will_answer(LOST)
    with pytest.raises(NearfieldError):
        retrain.sync(client=client, body=TRAINING)


def test_what_is_no_answer_of_the_service_is_an_error_too(server: Scripted, client: Nearfield) -> None:
    documents: tuple[object, ...] = (None, [], "text", {"title": "no problem"})
    for document in documents:
        server.will_answer(Given(418, document))
        with pytest.raises(NearfieldError, match=r"418 I'm a Teapot: expected a problem document .*, got") as refused:
            list_popular.sync(client=client)
        assert (refused.value.status, refused.value.slug, refused.value.problem) == (418, "", None)


def test_an_error_says_what_the_service_says(server: Scripted, client: Nearfield) -> None:
    server.will_answer(problem(503, "overloaded", Retry_After="700"))
    with pytest.raises(NearfieldError, match=r"^503 overloaded: wait$") as refused:
        list_popular.sync(client=client)
    error = refused.value
    assert (error.status, error.title, error.detail, error.slug) == (503, "overloaded", "wait", "overloaded")
    assert error.retry_after == 700
    assert error.problem is not None and error.problem.request_id == "1"


JOB = {
    **dict.fromkeys(("phase", "algorithm", "name", "calibration", "promoted", "version", "backend", "reason", "error")),
    "schedule": None,
    **{"id": "j1", "kind": "train", "progress": 0.5, "shadow": False, "created_ms": 1},
    **{"metrics": {}, "params": {}, "trials": []},
}


def test_a_job_is_waited_for(server: Scripted, client: Nearfield) -> None:
    def job(state: str, **more: object) -> Given:
        return Given(200, JOB | {"state": state} | more)

    begun = Job.from_dict(JOB | {"state": "queued"})
    server.will_answer(job("running"), job("succeeded", version="v1"))
    assert client.wait(begun).version == "v1"
    assert [one.path for one in server.asked] == ["/admin/jobs/j1"] * 2
    server.will_answer()
    assert client.wait(Job.from_dict(JOB | {"state": "succeeded"})).id == "j1"

    async def fails() -> None:
        async with AsyncNearfield(server.url) as one:
            server.will_answer(job("succeeded"))
            assert (await one.wait(begun)).state == "succeeded"
            server.will_answer(job("failed", error="no ratings"))
            await one.wait(begun)

    with pytest.raises(NearfieldError, match=r"^Job failed: no ratings$"):
        asyncio.run(fails())
    server.will_answer(job("cancelled"))
    with pytest.raises(NearfieldError, match=r"^Job cancelled: j1$"):
        client.wait(begun)


def test_the_key_is_sent_as_the_client_was_told(server: Scripted) -> None:
    for client, header in (
        (Nearfield(server.url, "secret"), ("X-API-Key", "secret")),
        (Nearfield(server.url, "secret", "Bearer", "Authorization"), ("Authorization", "Bearer secret")),
        (Nearfield(server.url, headers={"X-Trace": "1"}).with_headers({"X-More": "2"}), ("X-More", "2")),
    ):
        with client:
            assert client.get_httpx_client().headers[header[0]] == header[1]
        assert "secret" not in repr(client)


def test_patience_bounds_the_pauses(server: Scripted) -> None:
    with Nearfield(server.url, patience_s=0.6) as client:
        server.will_answer(*[LIMITED] * 4)
        with pytest.raises(NearfieldError, match="429"):
            list_popular.sync(client=client)
        assert len(server.asked) == 3, "a pause counts as a quarter of a second at least"
        soon, late = formatdate(0, usegmt=True), formatdate(4e9, usegmt=True)
        server.will_answer(problem(503, "overloaded", Retry_After=soon), problem(503, "overloaded", Retry_After=late))
        with pytest.raises(NearfieldError):
            list_popular.sync(client=client)
        assert len(server.asked) == 2, "a date that is too far away is not waited for"


def test_an_address_without_service_is_tried_again_until_patience_ends() -> None:
    with (
        Nearfield("http://127.0.0.1:9", patience_s=0.3) as client,
        pytest.raises(NearfieldError, match=r"^No answer: "),
    ):
        retrain.sync(client=client, body=TRAINING)


def test_reads_wait_for_the_newest_position_of_writes(server: Scripted, client: Nearfield) -> None:
    server.will_answer(POPULAR, ACCEPTED, POPULAR, POPULAR, POPULAR)
    list_popular.sync(client=client)
    post_ratings.sync(client=client, body=RATING)
    client.wait_for("6-9")
    list_popular.sync(client=client, n=2)
    client.wait_for("10-0")
    list_popular.sync(client=client)
    list_popular.sync(client=client, wait_for="8-0")
    assert [one.path for one in server.asked if one.method == "GET"] == [
        "/popular",
        "/popular?n=2&wait_for=7-0",
        "/popular?wait_for=10-0",
        "/popular?wait_for=8-0",
    ]


def test_reads_by_post_wait_too_and_only_what_is_set_is_sent(server: Scripted, client: Nearfield) -> None:
    client.wait_for("7-0")
    server.will_answer(problem(404, "unknown-user"))
    with pytest.raises(NearfieldError, match="404"):
        recommend_user_filtered.sync("..", client=client, body=RecommendBody(scenario="home"))
    assert server.asked[0].path == "/recommend/%2E%2E"
    assert json.loads(server.asked[0].body) == {"wait_for": "7-0", "scenario": "home"}


def test_exactly_the_reads_that_can_wait_do() -> None:
    schemas = generate.document()["components"]["schemas"]
    for path, operations in generate.document()["paths"].items():
        concrete = re.sub(r"{\w+}", "x", path)
        if "get" in operations:
            can_wait = "wait_for" in {one["name"] for one in operations["get"].get("parameters", ())}
            assert can_wait is (NEVER_WAIT.match(concrete) is None), path
        if "post" in operations:
            text = str(operations["post"].get("requestBody", ""))
            bodies = [schema for name, schema in schemas.items() if f"/{name}'" in text]
            can_wait = any("wait_for" in body["properties"] for body in bodies) and "merge" not in path
            assert can_wait is (WAITING_POSTS.match(concrete) is not None), path


def test_asynchronous_functions_do_the_same(server: Scripted) -> None:
    async def ask() -> int:
        async with Nearfield(server.url) as client:
            client.wait_for("7-0")
            return len((await list_popular.asyncio(client=client)).items)

    server.will_answer(BUSY, POPULAR)
    assert asyncio.run(ask()) == 0
    assert [one.path for one in server.asked] == ["/popular?wait_for=7-0"] * 2


def test_bodies_are_bounded(server: Scripted, client: Nearfield) -> None:
    server.will_answer(*[ACCEPTED] * 8)
    with client.ratings() as batch:
        for number in range(2500):
            batch.add({"user": "ann", "item": f"i{number}", "rating": 1})
    assert [len(body) for body in server.bodies] == [1000, 1000, 500]
    server.will_answer(*[ACCEPTED] * 8)
    with client.items() as batch:
        for number in range(4):
            batch.add({"item": f"i{number}", "tags": {"text": ["é" * 200_000]}})
    assert [len(one.body) < 1 << 20 for one in server.asked] == [True, True]
    server.will_answer(*[ACCEPTED] * 8)
    with client.events() as batch:
        for number in range(130):
            batch.add({"user": "ann", "item": f"i{number}", "type": "view", "event_id": str(number)})
    assert [len(body) for body in server.bodies] == [64, 64, 2]


def test_a_batch_posts_nothing_after_an_error(server: Scripted, client: Nearfield) -> None:
    server.will_answer()
    with pytest.raises(ZeroDivisionError), client.ratings() as batch:
        batch.add(RATING)
        raise ZeroDivisionError
    assert server.asked == []
