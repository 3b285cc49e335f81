"""The load driver against a small real server: schedules, honest latencies, freshness."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from loadtest import freshness, report
from loadtest.client import Client
from loadtest.driver import drive, percentiles_ms
from loadtest.workload import Arrival, Population, arrivals

PEOPLE = Population([f"u/{n}" for n in range(20)], [f"i{n}" for n in range(30)])


class Server:
    """Ratings hide an item from its user's list after `delay_s`; requests take `busy_s`, one at a time."""

    def __init__(self, delay_s: float = 0.0, busy_s: float = 0.0) -> None:
        self.delay_s, self.busy_s, self.rated, self.n_requests = delay_s, busy_s, {}, 0
        self.turn = asyncio.Lock()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            method, target, _ = head.decode().split(" ")
            length = 0
            while (line := await reader.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            body = await reader.readexactly(length)
            async with self.turn:
                await asyncio.sleep(self.busy_s)
            self.n_requests += 1
            status, document = self.answer(method, target, body)
            content = json.dumps(document).encode()
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
        writer.close()

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, object]:
        now = asyncio.get_running_loop().time()
        if method == "POST":
            rating = json.loads(body)
            self.rated[rating["user"], rating["item"]] = now + self.delay_s
            return 202, {"stream_id": "1-0"}
        url = urlsplit(target)
        user, n = url.path.removeprefix("/recommend/").replace("%2F", "/"), int(parse_qs(url.query)["n"][0])
        seen = {item for (who, item), when in self.rated.items() if who == user and when <= now}
        return 200, {"items": [{"item": item} for item in PEOPLE.items if item not in seen][:n]}


def with_server(server: Server, use: Callable[[Client], Awaitable[object]]) -> object:
    async def main() -> object:
        listener = await asyncio.start_server(server, "127.0.0.1", 0)
        client = Client(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", key="secret")
        try:
            return await use(client)
        finally:
            await client.close()
            listener.close()

    return asyncio.run(main())


def test_equal_seeds_give_equal_arrivals_at_the_asked_rate():
    first = list(arrivals(PEOPLE, "mixed", 200, 10, seed=3))
    assert first == list(arrivals(PEOPLE, "mixed", 200, 10, seed=3))
    assert first != list(arrivals(PEOPLE, "mixed", 200, 10, seed=4))
    assert len(first) == pytest.approx(2000, rel=0.1)
    assert sum(one.kind == "write" for one in first) == pytest.approx(1000, rel=0.15)
    assert {one.kind for one in arrivals(PEOPLE, "read", 100, 1, 0)} == {"read"}


def test_busy_users_are_asked_for_more_often_and_ids_are_encoded():
    paths = [one.path for one in arrivals(PEOPLE, "read", 1000, 5, 0)]
    assert paths.count("/recommend/u%2F0?n=10") > 3 * paths.count("/recommend/u%2F19?n=10") > 0


def test_population_of_a_file_is_ordered_by_number_of_ratings(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\nb,x,1\na,x,2\na,y,3\n")
    assert Population.of_file(tmp_path / "ratings.csv") == Population(["a", "b"], ["x", "y"])


def test_latency_counts_from_the_intended_moment():
    """Twenty requests due at once, 10 ms of work each, one at a time: the last one waited for all others."""
    schedule = [Arrival(0.0, "read", "/recommend/a?n=1", None)] * 20
    records, seconds = with_server(Server(busy_s=0.01), lambda client: drive(client, schedule))
    latencies = records["read"].latencies_s
    assert max(latencies) > 0.19
    assert np.median(latencies) == pytest.approx(0.105, abs=0.06)
    assert records["read"].summary(seconds)["statuses"] == {"200": 20}


def test_a_failed_connection_is_counted_and_has_no_latency():
    async def drive_nowhere() -> object:
        return await drive(Client("http://127.0.0.1:9"), [Arrival(0.0, "read", "/", None)])

    records, seconds = asyncio.run(drive_nowhere())
    assert records["read"].summary(seconds) == {"good": 0, "good_per_s": 0.0, "statuses": {"0": 1}, "latency_ms": {}}


def test_freshness_is_the_time_until_the_rating_shows():
    async def measure(client: Client) -> object:
        return await freshness.measure(client, PEOPLE, 50, 50, seconds=1.0, seed=0)

    result = with_server(Server(delay_s=0.05), measure)
    assert result["probes"] >= 4
    assert result["probes_lost"] == 0
    assert 50 <= result["freshness_ms"]["p50"] < 90
    assert result["write"]["statuses"].keys() == {"202"}


def test_the_picture_and_the_machine(tmp_path):
    kinds = {"read": {"good_per_s": 10.0, "latency_ms": percentiles_ms([0.001, 0.002])}}
    machine = report.environment()
    assert machine["cores"] > 0
    assert machine["commit"] or machine["commit"] == ""
    steps = [{"rate_per_s": rate, "kinds": kinds} for rate in (10.0, 20.0)]
    report.plot({"workload": "read", "environment": machine, "steps": steps}, tmp_path / "read.png")
    assert (tmp_path / "read.png").read_bytes().startswith(b"\x89PNG")
