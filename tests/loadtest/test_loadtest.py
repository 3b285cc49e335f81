"""The load driver against a small real server: schedules, honest latencies, freshness."""

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from loadtest import gauges, report
from loadtest.client import TIMEOUT_S, Client
from loadtest.crowd import Crowd
from loadtest.driver import Driven, Record, drive, percentiles_ms, send
from loadtest.retrain import Retrains
from loadtest.stalls import Stalls
from loadtest.steps import Steps, keeps_up, search
from loadtest.workload import FEED_BATCH, Arrival, Plan, Population, arrivals, write_synthetic
from tests.loadtest import virtual_time

Value = TypeVar("Value")
PEOPLE = Population([f"u/{n}" for n in range(20)], [f"i{n}" for n in range(30)])


class Server:
    """Ratings hide an item from its user's list after `delay_s`; requests take `busy_s`, one at a time.

    A training has ended when it is asked for the second time. `n_at_first` connections were open at the first request.
    """

    def __init__(self, delay_s: float = 0.0, busy_s: float = 0.0) -> None:
        self.delay_s, self.busy_s, self.n_requests = delay_s, busy_s, 0
        self.rated: dict[tuple[str, str], float] = {}
        self.n_jobs = self.n_polls = self.n_connections = self.n_at_first = 0
        self.turn = asyncio.Lock()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_connections += 1
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            await self.serve(reader, writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            self.n_at_first = self.n_at_first or self.n_connections
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
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode())
            await asyncio.sleep(0)
            writer.write(content)

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, object]:
        now = asyncio.get_running_loop().time()
        if target.startswith("/admin/"):
            self.n_jobs += method == "POST"
            self.n_polls += method == "GET"
            state = "succeeded" if method == "GET" and self.n_polls % 2 == 0 else "running"
            return 200, {"id": "j", "state": state, "promoted": self.n_jobs == 1}
        if target.startswith(("/popular", "/health", "/metrics")):
            return 200, {"items": []}
        if method == "POST":
            rating = json.loads(body)
            for one in rating if isinstance(rating, list) else [rating]:
                self.rated[one["user"], one["item"]] = now + self.delay_s
            return 202, {"stream_id": "1-0"}
        url = urlsplit(target)
        user, n = url.path.removeprefix("/recommend/").replace("%2F", "/"), int(parse_qs(url.query)["n"][0])
        seen = {item for (who, item), when in self.rated.items() if who == user and when <= now}
        return 200, {"items": [{"item": item} for item in PEOPLE.items if item not in seen][:n]}


def with_server(
    server: Server, use: Callable[[Client], Awaitable[Value]], run: Callable[..., Any] = virtual_time.run
) -> Value:
    async def main() -> Value:
        listener = await asyncio.start_server(server, "127.0.0.1", 0)
        client = Client(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", key="secret")
        try:
            return await use(client)
        finally:
            await client.close()
            listener.close()
            handlers = asyncio.all_tasks() - {asyncio.current_task()}
            for handler in handlers:
                handler.cancel()
            await asyncio.gather(*handlers, return_exceptions=True)
            await asyncio.sleep(0)

    return run(main())


def test_equal_seeds_give_equal_arrivals_at_the_asked_rate():
    first = list(arrivals(PEOPLE, "mixed", 200, 10, seed=3))
    assert first == list(arrivals(PEOPLE, "mixed", 200, 10, seed=3))
    assert first != list(arrivals(PEOPLE, "mixed", 200, 10, seed=4))
    assert len(first) == pytest.approx(2000, rel=0.1)
    assert sum(one.kind == "write" for one in first) == pytest.approx(1000, rel=0.15)
    assert {one.kind for one in arrivals(PEOPLE, "read", 100, 1, 0)} == {"read"}


def test_a_feed_comes_in_beside_the_reads_in_batches():
    sent = list(arrivals(PEOPLE, "feed", 200, 5, seed=3, ratings_per_s=5000))
    assert sent == sorted(sent, key=lambda one: one.due_s)
    batches: list[Any] = [one.body for one in sent if one.kind == "write"]
    assert len(sent) - len(batches) == pytest.approx(1000, rel=0.1)
    assert len(batches) == pytest.approx(250, rel=0.2)
    assert {len(batch) for batch in batches} == {FEED_BATCH}
    assert len({rating["user"] for rating in batches[0]}) > 10
    assert {one.kind for one in arrivals(PEOPLE, "feed", 200, 1, seed=3)} == {"read"}


def test_shares_of_a_plan_are_others_and_add_up():
    plan = Plan("feed", 900, 1.0, 7, 3000)
    shares = [plan.share(n, 3) for n in range(3)]
    assert sum(share.rate_per_s for share in shares) == 900
    assert sum(share.ratings_per_s for share in shares) == 3000
    paths = [[one.path for one in arrivals(PEOPLE, *share)] for share in shares]
    assert paths[0] != paths[1] != paths[2]


def test_a_crowd_sends_what_one_would():
    async def use(client: Client) -> list[Driven]:
        crowd = Crowd(2, f"http://{client._host}:{client._port}", "secret", PEOPLE)
        try:
            assert crowd._pool.submit(gc.get_freeze_count).result() > 0  # ids are not looked through again and again
            return [await crowd.drive(Plan("feed", 100, 0.5, seed, 5000)) for seed in (1, 2)]
        finally:
            crowd.close()

    server, plan = Server(), Plan("feed", 100, 0.5, 1, 5000)
    found_all = with_server(server, use, run=asyncio.run)  # the crowd are other processes
    assert server.n_at_first == sum(plan.share(n, 2).n_connections for n in range(2))  # nobody begins before the others
    for driven in found_all:
        found = driven.summary()["kinds"]
        assert found["read"]["statuses"].keys() == {"200"}
        assert found["write"]["statuses"].keys() == {"202"}
        assert found["read"]["good"] == pytest.approx(50, rel=0.5)
        assert len(driven.late_s) == found["read"]["good"] + found["write"]["good"]


def test_what_a_service_says_of_itself():
    before = gauges.Gauges({gauges.CPU: 1.0, gauges.LEARNED: 100.0}, 10.0)
    values = {gauges.CPU: 4.0, gauges.LEARNED: 500.0, gauges.BATCHES: 10.0, gauges.BATCHED: 25.0}
    after = gauges.Gauges(values | {'nearfield_device_bytes{of="arrays"}': 7.0}, 12.0)
    found = {"cores": 1.5, "learned_per_s": 200.0, "reads_a_batch": 2.5, "device_arrays_bytes": 7.0}
    assert before.until(after) == found
    assert before.until(gauges.Gauges({}, 12.0)) == {}


def test_learning_times_are_bounds_of_the_histogram():
    counts = {"0.01": (5, 65), "0.02": (5, 104), "0.05": (5, 104), "+Inf": (5, 105)}
    names = {bound: f'{gauges.AGES}{bound}"}}' for bound in counts}
    before, after = ({names[bound]: float(pair[n]) for bound, pair in counts.items()} for n in (0, 1))
    found = gauges.Gauges(before, 0.0).until(gauges.Gauges(after, 1.0))
    assert (found["learned_p50_below_ms"], found["learned_p99_below_ms"]) == (10.0, 20.0)
    assert "learned_p50_below_ms" not in gauges.Gauges(after, 0.0).until(gauges.Gauges(after, 1.0))
    slow = gauges.Gauges({names["0.01"]: 9.0, names["0.05"]: 10.0, names["+Inf"]: 15.0}, 1.0)
    found = gauges.Gauges({}, 0.0).until(slow)  # a third took longer than the last bound
    assert found["learned_p50_below_ms"] == 10.0
    assert "learned_p99_below_ms" not in found


def test_busy_users_are_asked_for_more_often_and_ids_are_encoded():
    paths = [one.path for one in arrivals(PEOPLE, "read", 1000, 5, 0)]
    assert paths.count("/recommend/u%2F0?n=10") > 3 * paths.count("/recommend/u%2F19?n=10") > 0


def test_population_of_a_file_is_ordered_by_number_of_ratings(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\nb,x,1\na,x,2\na,y,3\n")
    assert Population.of_file(tmp_path / "ratings.csv") == Population(["a", "b"], ["x", "y"])


def test_synthetic_ratings_are_always_the_same(tmp_path):
    for name in ("one", "two"):
        write_synthetic(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    people = Population.of_file(tmp_path / "one")
    assert (len(people.users), len(people.items)) == (2000, 1000)


def test_latency_counts_from_the_intended_moment():
    """Twenty requests due at once, 10 ms of work each, one at a time: the last one waited for all others."""
    schedule = [Arrival(0.0, "read", "/recommend/a?n=1", None)] * 20
    driven = with_server(Server(busy_s=0.01), lambda client: drive(client, schedule))
    assert driven.records["read"].latencies_s == pytest.approx(np.arange(1, 21) * 0.01)
    summary = driven.summary()
    assert summary["kinds"]["read"]["statuses"] == {"200": 20}
    assert summary["kinds"]["read"]["latency_ms"]["p50"] == pytest.approx(105)
    assert summary["sent_late_ms"]["max"] == 0


def test_a_driver_that_stands_still_counts_the_time_and_says_so():
    async def use(client: Client) -> Driven:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.Loop)
        loop.call_later(0.1, loop.stand_still, 0.5)
        return await drive(client, [Arrival(due_s, "read", "/recommend/a?n=1", None) for due_s in (0.0, 0.2, 1.0)])

    driven = with_server(Server(), use)
    assert driven.late_s == pytest.approx([0, 0.4, 0])
    assert driven.records["read"].latencies_s == pytest.approx([0, 0.4, 0])


def test_connections_are_open_before_the_first_request():
    async def use(client: Client) -> tuple[int, int, Driven, int]:
        plan = Plan("feed", 400, 0.01, 0, 10_000)
        await client.open(3)
        opened = len(client._open)
        return opened, plan.n_connections, await send(client, PEOPLE, plan), len(client._open)

    opened, wanted, driven, at_end = with_server(Server(), use)
    assert (opened, wanted, at_end) == (3, 50, 50)
    assert sum(driven.records["read"].statuses.values()) > 0


def test_a_failed_connection_is_counted_and_has_no_latency():
    async def drive_nowhere() -> Driven:
        return await drive(Client("http://127.0.0.1:9"), [Arrival(0.0, "read", "/", None)])

    driven = asyncio.run(drive_nowhere())
    expected = {"good": 0, "good_per_s": 0.0, "statuses": {"0": 1}, "latency_ms": {}}
    assert driven.summary()["kinds"] == {"read": expected}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--url", "http://127.0.0.1:9"], "expected a ready service at http://127.0.0.1:9, got no answer"),
        (["--seconds", "-1"], "--seconds: expected a number above 0, got -1"),
        (["--rates", "100,0"], "--rates: expected a number above 0, got 0"),
        (["--drivers", "0"], "--drivers: expected 1 or more, got 0"),
        (["--ratings", "nowhere.csv"], "--ratings: expected a path that exists, got nowhere.csv"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(arguments, complaint, tmp_path):
    command = [sys.executable, "-m", "loadtest", "--out", str(tmp_path / "report"), *arguments]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert complaint in ended.stderr.splitlines()[-1]
    assert not (tmp_path / "report").exists()


def test_an_answer_that_never_comes_is_given_up():
    driven = with_server(
        Server(busy_s=2 * TIMEOUT_S), lambda client: drive(client, [Arrival(0.0, "read", "/x?n=1", None)])
    )
    assert driven.records["read"].statuses == {0: 1}


def step_of(workload: str, server: Server) -> dict:
    async def step(client: Client) -> dict:
        return await Steps(client, PEOPLE, workload, "als", 0).step(50, 1.0)

    return with_server(server, step)


def test_freshness_is_the_time_until_the_rating_shows():
    step = step_of("mixed", Server(delay_s=0.05, busy_s=0.005))
    assert step["freshness"]["probes"] >= 4
    assert step["freshness"]["lost"] == 0
    assert step["freshness"]["learned_ms"]["p50"] >= step["freshness"]["ms"]["p50"]
    assert step["freshness"]["ms"]["p50"] == pytest.approx(50, abs=6)
    assert step["kinds"]["write"]["statuses"].keys() == {"202"}
    assert step["catch_up_s"] < 1
    assert keeps_up(step)
    assert "retrains" not in step


def test_reads_alone_need_no_probes():
    step = step_of("read", Server())
    assert step.keys() == {"rate_per_s", "seconds", "sent_late_ms", "kinds", "service"}
    assert step["kinds"].keys() == {"read"}
    assert step["service"] == {}  # this one tells nothing of itself


def test_trainings_follow_one_another():
    server = Server()
    step = step_of("retrain", server)
    assert len(step["retrains"]) == server.n_jobs > 1
    assert [job["promoted"] for job in step["retrains"][:2]] == [True, False]
    assert {job["state"] for job in step["retrains"]} == {"succeeded"}


def test_a_service_that_refuses_to_train_ends_the_measurement():
    class Refusing(Server):
        def answer(self, method: str, target: str, body: bytes) -> tuple[int, object]:
            return 401, {}

    async def train(client: Client) -> None:
        await Retrains(client, "als").run(1.0)

    with pytest.raises(SystemExit, match="401"):
        with_server(Refusing(), train)


@pytest.mark.parametrize("limit", [60.0, 100.0, 730.0, 1e9])
def test_the_search_ends_just_below_the_limit(limit):
    async def step(rate: float, number: int) -> dict:
        assert number == len(asked)
        asked.append(rate)
        latency = {"p99": 5.0 if rate <= limit else 500.0}
        return {"rate_per_s": rate, "kinds": {"read": {"statuses": {"200": 9}, "latency_ms": latency}}}

    asked: list[float] = []
    best, steps = asyncio.run(search(step))
    assert [one["rate_per_s"] for one in steps] == asked
    assert best == max((rate for rate in asked if rate <= limit), default=0)
    assert limit > 1e6 or best * 1.1 >= limit or limit < 100


def test_what_counts_as_keeping_up():
    good: dict[str, Any] = {"kinds": {"read": {"statuses": {"200": 9}, "latency_ms": {"p99": 5.0}}}, "catch_up_s": 0.01}
    assert keeps_up(good)
    assert keeps_up(good | {"freshness": {"ms": {"p99": 20.0}}})
    assert not keeps_up(good | {"freshness": {"ms": {"p99": 200.0}}})
    assert not keeps_up(good | {"freshness": {"ms": {}}})
    assert not keeps_up(good | {"catch_up_s": 2.0})
    assert not keeps_up(good | {"catch_up_s": None})
    assert not keeps_up({"kinds": {"read": {"statuses": {"200": 9, "503": 1}, "latency_ms": {"p99": 5.0}}}})
    assert not keeps_up({"kinds": {"read": {"statuses": {"0": 1}, "latency_ms": {}}}})
    assert not keeps_up(good, read_ms=4.0)
    assert keeps_up(
        good | {"kinds": good["kinds"] | {"write": good["kinds"]["read"]}, "freshness": {"ms": {"p99": 5.0}}}, 5.0
    )


def test_the_report(tmp_path):
    kinds = {"read": {"statuses": {"200": 9, "503": 2}, "good_per_s": 10.0, "latency_ms": percentiles_ms([0.001])}}
    kinds["read"]["refused_ms"] = {"p99": 4.0}
    late = {"sent_late_ms": {"p99": 1.2}, "machine_late_ms": {"p99.9": 2.5}, "kinds": kinds}
    steps = [{"rate_per_s": rate} | late for rate in (10.0, 20.0)]
    half = {
        "rate_per_s": 15.0,
        "freshness": {"lost": 1, "ms": {"p50": 3.0, "p99": 7.0}, "learned_ms": {"p99": 9.0}},
    } | late
    half["service"] = {"cores": 1.25, "learned_per_s": 9000.0, "device_arrays_bytes": 3.5e9}
    half["retrains"] = [{"state": "succeeded", "promoted": True}, {"state": "failed", "promoted": None}]
    workloads = {"read": {"steps": steps}, "mixed": {"steps": [], "half": half, "maximum_per_s": 30.0}}
    machine: dict[str, Any] = report.environment()
    assert machine["cores"] > 0
    written = report.write(tmp_path / "out", {"seed": "0"}, machine, workloads)
    assert [path.name for path in written] == ["result.json", "read.png", "mixed.png", "report.md"]
    assert written[1].read_bytes().startswith(b"\x89PNG")
    assert json.loads(written[0].read_text())["environment"] == machine
    text = written[3].read_text()
    assert "| 10 | 1.0 | 1.0 |  |  |  |  |  | 2 | 4.0 | 1.2 | 2.5 |  |  |  |  |" in text
    assert "| 15 | 1.0 | 1.0 |  |  | 3.0 | 7.0 | 9.0 | 4 | 4.0 | 1.2 | 2.5 | 1.25 | 9,000 | 3.50 | 2, 1 live |" in text
    assert "up to 30 requests a second" in text


def test_refusals_have_times_of_their_own() -> None:
    record, other = Record(), Record()
    for status, seconds in ((200, 0.5), (503, 0.01), (429, 0.03), (404, 9.0), (0, 9.0)):
        record.add(status, seconds)
    assert "refused_ms" not in other.summary(1.0)
    other.join(record)
    summary = other.summary(1.0)
    assert (summary["latency_ms"]["max"], summary["refused_ms"]["p50"], summary["refused_ms"]["max"]) == (500, 20, 30)


def test_a_machine_that_stops_shows_in_the_process_that_looks_at_the_clock() -> None:
    stalls = Stalls()
    assert stalls.process.pid is not None
    stalls.begin()
    os.kill(stalls.process.pid, signal.SIGSTOP)
    time.sleep(0.2)
    os.kill(stalls.process.pid, signal.SIGCONT)
    late_s = stalls.end()
    assert max(late_s) >= 0.15
    assert max(late_s) not in stalls.end(), "what was told is forgotten"
    stalls.close()
    assert stalls.process.exitcode == 0
