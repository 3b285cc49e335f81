"""A service of several processes: they answer as one, and each may die or hang."""

import contextlib
import functools
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import msgspec
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.processes.link import HUNG, SILENT_S
from service.telemetry.metrics import CACHED_S
from tests.service.process import descendants
from tests.service.processes.service import FRONTS, FrontService, answers, gone, refused
from tests.service.waiting import eventually, learned, quickest_s

LONGEST_REFUSAL_S = 10 * SILENT_S  # on a busy machine; the clients wait for a minute
AGAIN_S = 60.0  # on a busy machine; an engine without models needs three seconds
RATING = {"user": "u", "item": "x", "rating": 3}
POPULAR, LIVE, READY = "/popular", "/health/live", "/health/ready"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontService]:
    running = FrontService(tmp_path_factory.mktemp("fronts") / "data")
    yield running
    running.kill()


def requests_counted(service: FrontService, route: str) -> float:
    """Requests of a route that all processes have counted together; the page is not that of the call before."""
    time.sleep(CACHED_S)
    families = text_string_to_metric_families(service.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    found = [one for one in samples if one.name == "nearfield_requests_total" and one.labels["route"] == route]
    return sum(sample.value for sample in found)


def test_a_rating_through_one_front_is_seen_through_the_other(service: FrontService) -> None:
    with service.through("front-1") as one, service.through("front-2") as other:
        prefixes = {client.get(LIVE).headers["x-request-id"].split("-")[0] for client in (one, other)}
        assert len(prefixes) == 2
        for writer, reader, item in ((one, other, "a"), (other, one, "b")):
            answer = writer.post("/ratings", json={"user": "ann", "item": item, "rating": 4})
            assert answer.status_code == 202, answer.text
            ask = functools.partial(reader.get, f"/users/ann/ratings?wait_for={answer.json()['stream_id']}")
            assert learned(ask).json()["ratings"][0]["item"] == item
        assert other.get("/recommend/ann").status_code == 200
        assert other.get("/estimate/ann/a").status_code == one.get("/estimate/ann/a").status_code == 404


def test_connections_that_come_at_once_are_shared_among_the_fronts(service: FrontService) -> None:
    ends = [socket.create_connection((service.client.base_url.host, service.client.base_url.port)) for _ in range(40)]
    fronts: Counter[str] = Counter()
    for end in ends:
        with end, end.makefile("rb") as answer:
            end.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            (line,) = (one for one in answer if one.lower().startswith(b"x-request-id:"))
            fronts[line.split(b":")[1].split(b"-")[0].decode()] += 1
    assert len(fronts) == 2
    assert min(fronts.values()) >= 5


def test_every_log_line_names_its_process(service: FrontService) -> None:
    service.get(POPULAR)
    lines = [msgspec.json.decode(line) for line in service.log().splitlines()]
    assert {"engine", "archiver", *FRONTS} >= {line["process"] for line in lines} >= {"engine"}
    names = {process.name() for process in psutil.Process(service.process.pid).children()}
    assert names == {"nf-engine", "nf-archiver", *(f"nf-{name}" for name in FRONTS)}


def test_a_front_that_dies_costs_its_own_connections_alone_and_no_count(service: FrontService) -> None:
    with service.through("front-1") as one, service.through("front-2") as other:
        for client in (one, other, other):
            assert client.get(POPULAR).status_code == 200
        before = requests_counted(service, POPULAR)
        pid = service.signal("front-1", signal.SIGKILL)
        with contextlib.suppress(httpx.TransportError):  # or the client saw the end first, and opened a new connection
            one.post("/ratings", json=RATING)
        assert other.get(POPULAR).status_code == 200
        eventually(lambda: service.pid("front-1") != pid, AGAIN_S)
    service.reconnect()
    with service.through("front-1") as again:
        eventually(functools.partial(answers, again, READY), AGAIN_S)
        assert again.post("/ratings", json=RATING).status_code == 202
    eventually(lambda: requests_counted(service, POPULAR) == before + 1)
    assert '"died": "front-1", "cause": "signal SIGKILL"' in service.log()


def test_an_engine_that_dies_is_refused_with_503_and_comes_back_with_all_ratings(service: FrontService) -> None:
    last = service.rate(("ann", "before", 5.0))
    with service.through("front-1") as one, service.through("front-2") as other:
        counted = requests_counted(service, LIVE)
        pid = service.signal("engine", signal.SIGKILL)
        eventually(functools.partial(answers, other, POPULAR, 503), AGAIN_S)
        refused(one.get("/health/ready"))
        eventually(functools.partial(answers, one, READY), AGAIN_S)
        assert service.pid("engine") != pid
        assert requests_counted(service, LIVE) >= counted, "with those of the front that died before"
        for client in (one, other):  # ready means that every front may write, and knows it
            assert client.post("/ratings", json=RATING).status_code == 202
        answer = learned(lambda: other.get(f"/users/ann/ratings?wait_for={last}"))
        items = {one["item"] for one in answer.json()["ratings"]}
        assert {"a", "b", "before"} <= items


def test_a_hung_engine_is_refused_in_time_and_goes_on_later(service: FrontService) -> None:
    with service.through("front-1") as one, service.through("front-2") as other, ThreadPoolExecutor(8) as pool:
        service.signal("engine", signal.SIGSTOP)
        try:
            begun_s = time.monotonic()
            lists = [pool.submit(client.get, POPULAR) for client in (one, other)]
            forgetting = pool.submit(httpx.delete, f"{service.client.base_url}/admin/users/ghost", timeout=60)
            for answer in (*lists, forgetting):
                assert "silent" in refused(answer.result()).json()["detail"]
            assert time.monotonic() - begun_s < LONGEST_REFUSAL_S

            def refused_s() -> float:
                begun_s = time.monotonic()
                for client in (one, other):
                    assert refused(client.post("/ratings", json=RATING)).json()["detail"] == HUNG
                    assert refused(client.get(READY)).json()["reason"] == HUNG
                return time.monotonic() - begun_s

            assert quickest_s(refused_s, SILENT_S) < SILENT_S, "they wait for no answer any more"
        finally:
            service.signal("engine", signal.SIGCONT)
        for client in (one, other):
            eventually(functools.partial(answers, client, READY), AGAIN_S)
            assert client.post("/ratings", json=RATING).status_code == 202
        assert not one.get("/admin/jobs").json()["jobs"], "what was refused was done"


def test_a_hung_front_takes_no_metrics_of_the_others_with_it(service: FrontService) -> None:
    with service.through("front-2") as other:
        service.signal("front-1", signal.SIGSTOP)
        try:
            time.sleep(CACHED_S)
            assert "nearfield_ready 1.0" in other.get("/metrics").text
        finally:
            service.signal("front-1", signal.SIGCONT)


def test_signals_of_a_terminal_and_repeated_ones_end_in_order(service: FrontService) -> None:
    """The last test of this service: requests in flight are answered, and all processes are gone."""
    family = service.family()
    assert len(family) == 6, "parent, engine, archiver, two fronts and Redis"
    far = "/popular?wait_for=9000000000000-0"
    with service.through("front-1") as one, service.through("front-2") as other, ThreadPoolExecutor(2) as pool:
        in_flight = [pool.submit(client.get, far) for client in (one, other)]
        time.sleep(0.5)  # it is answered after two seconds
        for child in psutil.Process(service.process.pid).children():
            child.send_signal(signal.SIGINT)  # as Ctrl-C sends it to all
        service.process.send_signal(signal.SIGINT)
        for _ in range(3):
            service.process.send_signal(signal.SIGTERM)
        assert {answer.result().json()["type"] for answer in in_flight} == {"urn:nearfield:problem:not-seen-yet"}
    assert service.process.wait(60) == 0
    gone(family)


def test_the_limits_of_a_client_hold_over_all_fronts(tmp_path: Path) -> None:
    per_s = 10
    service = FrontService(tmp_path / "data", rate_limit_per_s=per_s, max_new_ids_per_hour=6)
    try:
        with service.through("front-1") as one, service.through("front-2") as other:

            def introduce(client: httpx.Client, n: int) -> httpx.Response:
                return client.post("/ratings", json=[{"user": f"u{n}", "item": f"i{n}", "rating": 3}])

            answers = [introduce(client, n) for n, client in enumerate((one, other, one, other, other))]
            assert [answer.status_code for answer in answers] == [202, 202, 202, 429, 429]
            assert answers[3].json()["type"] == "urn:nearfield:problem:too-many-new-ids"
            assert int(answers[3].headers["retry-after"]) > 60
            time.sleep(1.0)  # until the other limit allows all that it ever allows at once
            begun_s = time.monotonic()
            codes = []
            for client in (one, other) * 30:  # a refusal closes the connection, and another front may take the next one
                codes.append(client.get(POPULAR).status_code)
            most = per_s * (1 + time.monotonic() - begun_s) + 1
            assert set(codes) == {200, 429}
            assert per_s <= codes.count(200) <= most
    finally:
        service.kill()


def test_nobody_is_left_when_the_parent_is_killed(tmp_path: Path) -> None:
    service = FrontService(tmp_path / "data")
    try:
        service.rate(*((f"u{n % 30}", f"i{n % 17}", float(n % 5)) for n in range(300)))
        job = service.api.start_training("sgd", {"n_epochs": 10_000, "n_factors": 64})
        eventually(lambda: service.get(f"/admin/jobs/{job['id']}").json()["state"] == "running", AGAIN_S)
        trainer = eventually(lambda: trainer_of(service), AGAIN_S)
        family = service.family()
        assert trainer in family
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait(60)
        service.client.close()
        gone(family)
        service.start()
        assert len(service.get("/users/u1/ratings").json()["ratings"]) == len({n % 17 for n in range(1, 300, 30)})
        assert service.stop() == 0
    finally:
        service.kill()


def trainer_of(service: FrontService) -> psutil.Process | None:
    return next(iter(descendants("service.jobs.trainer", psutil.Process(service.process.pid))), None)
