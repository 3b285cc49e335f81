"""A service under more than it can take: it refuses at once, says when to come back, and is as fast as before then."""

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from loadtest.client import Answer, Client
from tests.service.planted import events
from tests.service.process import Service
from tests.service.waiting import quickest_s

MAX_WAITING = 20
N_REQUESTS = 1500


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("overload") / "data", max_waiting=MAX_WAITING, worker=False)
    rated = [{"user": event.user, "item": event.item, "rating": event.rating} for event in events()]
    for first in range(0, len(rated), 1000):
        service.client.post("/ratings", json=rated[first : first + 1000]).raise_for_status()
    yield service
    service.stop()


def all_at_once(service: Service, path: str, body: object = None) -> list[Answer]:
    """The answers to many requests, each on a connection of its own."""

    async def ask() -> list[Answer]:
        client = Client(str(service.client.base_url))
        answers = [client.get(path) if body is None else client.post(path, body) for _ in range(N_REQUESTS)]
        found = list(await asyncio.gather(*answers))
        await client.close()
        return found

    return asyncio.run(ask())


def check_refusals(answers: list[Answer], good: int) -> int:
    """Every answer is a good one or a refusal as promised; returns how many were refused."""
    counts = Counter(answer.status for answer in answers)
    assert counts.keys() <= {good, 503}
    assert counts[good] >= MAX_WAITING
    for answer in answers:
        if answer.status == 503:
            assert b"\r\nretry-after: 1\r\n" in answer.head.lower()
            assert b"application/problem+json" in answer.head
            assert json.loads(answer.body)["type"].endswith(":overloaded")
    return counts[503]


def median_s(service: Service, path: str) -> float:
    times = []
    for _ in range(50):
        started = time.perf_counter()
        service.client.get(path).raise_for_status()
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]


def test_reads_beyond_the_bound_are_refused_and_the_next_ones_are_as_fast_as_before(service: Service) -> None:
    before_s = median_s(service, "/recommend/u1")
    assert check_refusals(all_at_once(service, "/recommend/u1"), 200) > 0
    most_s = 5 * before_s + 0.01
    assert quickest_s(lambda: median_s(service, "/recommend/u1"), most_s) < most_s


def test_writes_beyond_the_bound_are_refused_and_the_others_are_learned(service: Service) -> None:
    answers = all_at_once(service, "/ratings", {"user": "overload", "item": "i1", "rating": 3})
    check_refusals(answers, 202)
    last = max(
        (a.json()["stream_id"] for a in answers if a.status == 202), key=lambda text: [*map(int, text.split("-"))]
    )
    assert service.get("/users/overload/ratings", wait_for=last).json()["ratings"][0]["rating"] == 3


def test_clients_that_do_not_finish_or_do_not_read_do_not_delay_others(service: Service) -> None:
    path = "/recommend/u1?n=40"
    slow = [socket.create_connection(("127.0.0.1", service.client.base_url.port or 0)) for _ in range(50)]
    for number, connection in enumerate(slow):
        message = b"GET /recommend/u1?n=40 HTTP/1.1\r\nHost: localhost\r\n"
        connection.sendall(message if number % 5 else 40 * (message + b"\r\n"))
    assert quickest_s(lambda: median_s(service, path), 0.1) < 0.1
    for connection in slow:
        connection.close()
    assert service.client.get("/health/ready").status_code == 200


def test_a_restart_under_load_loses_nothing_that_was_acknowledged(service: Service) -> None:
    async def post_until_gone() -> list[int]:
        client, kept = Client(str(service.client.base_url)), []
        for number in range(100_000):
            answer = await client.post("/ratings", {"user": "restart", "item": f"i{number}", "rating": 4})
            if answer.status != 202:
                break
            kept.append(number)
            if number == 100:
                service.crash()
        await client.close()
        return kept

    kept = asyncio.run(post_until_gone())
    service.client.close()
    service.start()
    pages = [
        service.client.get("/users/restart/ratings", params={"n": 1000, "offset": at})
        for at in range(0, len(kept), 1000)
    ]
    rated = [one for page in pages for one in page.json()["ratings"]]
    assert {f"i{number}" for number in kept} <= {one["item"] for one in rated}


def test_a_long_list_and_far_pages_are_answered(service: Service) -> None:
    ranked = [line["item"] for line in service.client.get("/recommend/nobody?n=1000").json()["items"]]
    assert ranked
    paged = service.client.get("/recommend/nobody?n=1000&offset=3").json()["items"]
    assert [line["item"] for line in paged] == ranked[3:]
    many = {"candidates": [f"nothing-{number}" for number in range(9_990)] + ranked[:2], "n": 10}
    shown = service.client.post("/recommend/nobody", json=many).json()["items"]
    assert [line["item"] for line in shown] == ranked[:2]
    answers = service.client.post("/recommend", json={"users": [f"x{n}" for n in range(1000)], "n": 100}).json()
    assert [answer["user"] for answer in answers] == [f"x{n}" for n in range(1000)]
    assert all([line["item"] for line in answer["items"]] == ranked[:100] for answer in answers)


def test_a_batch_of_more_results_than_fit_into_an_answer_is_refused(service: Service) -> None:
    answer = service.client.post("/recommend", json={"users": [f"x{n}" for n in range(1000)], "n": 101})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "Invalid n: expected at most 100 for 1,000 users, got 101"
