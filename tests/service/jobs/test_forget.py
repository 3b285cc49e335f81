import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from gpu.algorithms import ALGORITHMS
from service.engine.errors import UnknownUser
from service.engine.queries import Estimate, Neighbors, Popular, Query, Recommend, UserRatings
from service.engine.queries.catalog_queries import GetUser
from service.engine.state.history import History
from service.jobs.forget import Places, forget
from service.storage.events import Merge, StreamId, encode_merge, encode_users
from service.storage.snapshots import live_versions, snapshot
from service.storage.streams.redis_server import RedisServer
from service.storage.user_changes import UserChange
from tests.service.keys import RATINGS
from tests.service.logs import ratings_of
from tests.service.planted import SMALL, events
from tests.service.waiting import eventually
from tests.service.whole import Whole

USER, COUNTRY = "u3-who-is-to-be-forgotten", "country-of-who-is-to-be-forgotten"


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[RedisServer]:
    """The server of the folder in which the service is."""
    server = RedisServer(tmp_path)
    server.start()
    with redis.Redis.from_url(server.url) as client:
        client.config_set("rdbcompression", "no")  # so that grep can see what is there
    yield server
    server.stop()


def kept_aside(whole: Whole, server: RedisServer) -> list[Path]:
    """What killed processes left, each naming the user: an hour was not enough for them to be cleaned."""
    snapshots = whole.data / "snapshots"
    left = [
        snapshots / ".culsh-20260101T000000-beef.77.tmp" / "users.parquet",
        snapshots / ".culsh-20260101T000000-dead.gone" / "users.parquet",
        whole.log.folder / ".tmp-77-0000000000000001.00000000_1.0.parquet",
        server.folder / "temp-rewriteaof-77.aof",
        server.folder / "temp-rewriteaof-bg-77.aof",
        server.folder / "appendonlydir" / "appendonly.aof.900.incr.aof",
    ]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_text(USER)
    with redis.Redis.from_url(server.url) as client:
        dead = {"id": "dead", "kind": "forget", "state": "failed", "user": USER, "created_ms": "1"}
        client.hset("nearfield:job:dead", mapping=dead)
        client.zadd("nearfield:jobs", {"dead": 0})
    return left


def test_a_forgotten_user_leaves_every_place(embedded: RedisServer, tmp_path: Path) -> None:
    """The places are those that docs/data.md lists."""
    with Whole(embedded.url, tmp_path) as whole:
        ratings = json.loads(json.dumps([[e.user, e.item, e.rating] for e in events()]).replace('"u3"', f'"{USER}"'))
        for start in range(0, len(ratings), 500):
            whole.rate(*map(tuple, ratings[start : start + 500]))
        before = {name: whole.train(name, **SMALL) for name in ("culsh", "culsh-implicit")}
        whole.train("culsh", **SMALL)  # the first culsh is kept as the one before
        whole.stream.reject(StreamId(1, 1), {b"v": b"1", b"ratings": b'[{"user": "%s"}]' % USER.encode()}, "bad")
        left = kept_aside(whole, embedded)
        whole.append(encode_users([UserChange(USER, tags={"country": [COUNTRY]})]))
        assert COUNTRY in str(whole.ask(GetUser(USER)))
        position = whole.subject("forget", USER)
        for query in (UserRatings(user=USER), GetUser(USER)):
            with pytest.raises(UnknownUser):
                whole.ask(query)
        whole.rate(("u4", "i1", 5.0))  # beside the last ratings of the user in a node of the stream
        job = whole.ended(whole.jobs.submit_forgetting(USER, position))
        assert (job.state, job.error, job.progress) == ("succeeded", None, 1.0)
        assert "next training" in str(job.reason)

        assert [path for path in left if path.exists()] == []
        found = subprocess.run(
            ["grep", "-rl", "--exclude=*.parquet", USER, whole.data], capture_output=True, check=False, text=True
        )
        assert found.stdout == ""  # jobs, bad entries and the file of Redis among them
        assert not [batch for batch in whole.log.read() if COUNTRY in str(batch.to_pylist())]
        assert subprocess.run(["grep", "-rl", COUNTRY, whole.data], capture_output=True, check=False).stdout == b""
        assert ratings_of(whole.log, USER) == []
        folder = whole.data / "snapshots"
        versions = snapshot.versions(folder)
        assert len(versions) == 3
        assert before["culsh"] not in versions
        assert not any(snapshot.holds_user(folder, version, USER) for version in versions)
        with redis.Redis.from_url(embedded.url) as client:
            assert not [key for key in client.scan_iter() if USER.encode() in (client.dump(key) or b"")]
            assert client.xlen(RATINGS) == 1
        eventually(lambda: set(whole.hotswap.served().values()) <= set(versions))
        assert whole.recommend("u5").personalized
        assert whole.stream.rejected() == []
        assert whole.stream.trimmed_id() == position


def test_who_comes_back_keeps_what_came_after(whole: Whole) -> None:
    whole.send(events()[:300])
    position = whole.subject("forget", "u1")
    whole.rate(("u1", "i1", 5.0))  # a new user of the same name
    assert whole.ended(whole.jobs.submit_forgetting("u1", position)).state == "succeeded"
    assert [one.item for one in whole.ask(UserRatings(user="u1")).ratings] == ["i1"]


def test_who_became_part_of_a_user_is_forgotten_with_the_user(whole: Whole) -> None:
    whole.send(events()[:300])
    whole.rate(("visitor-0", "i1", 5.0), ("visitor-1", "i2", 4.0), ("visitor-2", "i3", 3.0))
    version = whole.train("als", n_factors=4, n_epochs=1)
    for user, into in (("visitor-0", "visitor-1"), ("visitor-1", "u1"), ("visitor-2", "u2")):
        whole.append(encode_merge(Merge(user, into)))
    whole.rate(("visitor-1", "i4", 2.0))  # a new user of that name
    position = whole.subject("forget", "u1")
    whole.settle()
    before = whole.shown("u2")
    assert whole.ended(whole.jobs.submit_forgetting("u1", position)).state == "succeeded"
    assert [one.item for user in ("visitor-0", "visitor-1", "u1") for one in ratings_of(whole.log, user)] == ["i4"]
    assert [one.item for one in ratings_of(whole.log, "visitor-2")] == ["i3"]
    folder = whole.data / "snapshots"
    assert version not in snapshot.versions(folder)
    for name in snapshot.versions(folder):
        held = [user for user in ("visitor-0", "visitor-1", "u1") if snapshot.holds_user(folder, name, user)]
        assert held == []
    assert whole.shown("u2") == before
    history = History()
    history.load(whole.log)
    assert [history.users.row(user) is None for user in ("visitor-0", "u1", "visitor-2")] == [True] * 3
    row = history.users.row("u2")
    assert row is not None
    assert "i3" in history.items.ids(history.table.row(row)[0].tolist())


def test_forgetting_can_be_repeated(whole: Whole) -> None:
    whole.send(events()[:300])
    position = whole.subject("forget", "u1")
    for _ in range(2):
        assert whole.ended(whole.jobs.submit_forgetting("u1", position)).state == "succeeded"
    whole.rate(("u2", "i0", 1.0))
    assert whole.recommend("u1").fallback == "popular"


def test_one_revision_of_a_snapshot_stays(whole: Whole) -> None:
    """A job that was killed after it had written a revision left the one before, which then was live beside it."""
    whole.send(events())
    version, folder = whole.train("als", n_factors=4), whole.data / "snapshots"
    snapshot.rewrite_without(folder, version, "u1")
    position = whole.subject("forget", "u1")
    assert whole.ended(whole.jobs.submit_forgetting("u1", position)).state == "succeeded"
    (left,) = snapshot.versions(folder)
    assert not snapshot.holds_user(folder, left, "u1")
    assert live_versions.read(whole.data) == {"als": left}
    assert [info.live for info in whole.hotswap.models()] == [True]


def test_what_a_killed_process_of_the_same_number_left_is_no_obstacle(whole: Whole) -> None:
    """In a container each start gives a process the same number."""
    whole.send(events()[:300])
    version = whole.train("als", n_factors=4, n_epochs=1)
    (whole.data / "snapshots" / f".{version}.1.{os.getpid()}.tmp").mkdir()
    position = whole.subject("forget", "u1")
    assert whole.ended(whole.jobs.submit_forgetting("u1", position)).state == "succeeded"


def test_nothing_is_forgotten_before_the_log_has_it(whole: Whole) -> None:
    """The log may have lost its last segment since the job has looked: one that could not be synced is taken back."""
    whole.send(events()[:300])
    position = whole.subject("forget", "u1")
    assert whole.log.last_id() < position
    jobs: Any = None  # which is used after the first step
    next(forget(Places(whole.data, whole.data, whole.log, whole.stream, jobs, lambda: None), "job", "u1", position))
    assert whole.log.last_id() >= position


@pytest.mark.parametrize("step", ["rewrite_without", "remove_temporaries", "clear_rejected", "rewrite_aof"])
def test_a_forgetting_whose_worker_is_killed_is_gone_on_with(
    whole: Whole, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed before each step in turn: the next worker knows what to do, also where the name is gone already."""
    whole.send(events()[:300])
    places = {"rewrite_without": whole.log, "remove_temporaries": whole.log.files}
    place = places.get(step, whole.stream)
    done = getattr(place, step)
    killed: list[str] = []

    def once(*arguments: object) -> object:
        if killed:
            return done(*arguments)
        killed.append(step)
        (running,) = client.smembers("nearfield:jobs:running")
        assert isinstance(running, str)
        client.delete(f"nearfield:job:{running}:lease")  # as ten seconds later
        raise RuntimeError("killed")

    monkeypatch.setattr(place, step, once)
    position = whole.subject("forget", "u1")
    job = whole.ended(whole.jobs.submit_forgetting("u1", position))
    assert (job.state, job.error, killed) == ("succeeded", None, [step])
    assert "u1" not in client.hgetall(f"nearfield:job:{job.id}").values()
    assert ratings_of(whole.log, "u1") == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_restart_after_a_forgetting_gives_what_was_there_before(
    redis_url: str, tmp_path: Path, algorithm: str
) -> None:
    """Equal in every bit, explanations and ties too: also of items that the forgotten were the first to name."""
    params = SMALL if algorithm.startswith("culsh") else {"n_factors": 8, "n_epochs": 3}
    params = {} if algorithm in ("ease", "neighbors", "next") else params
    first_named = [("gone", f"x{n}", 1.0 + n % 5) for n in range(6)]
    everybody = [(event.user, event.item, float(event.rating or 0)) for event in events()]
    with Whole(redis_url, tmp_path) as whole:
        whole.rate(*first_named)
        whole.rate(*[("second", f"{kind}{n}", 2.0 + n % 3) for n in range(5, -1, -1) for kind in "yxi"])
        for start in range(0, len(everybody), 500):
            whole.rate(*everybody[start : start + 500])
        whole.rate(*[(f"u{n}", f"{kind}{n % 6}", 1.0 + n % 5) for n in range(60) for kind in "xy"])
        whole.train(algorithm, **params)
        whole.rate(*[("third", f"z{n}", 5.0) for n in range(4)])
        whole.rate(*[(f"u{n}", f"z{n % 4}", 1.0 + n % 4) for n in range(0, 60, 3)])
        for user in ("gone", "third", "u7"):
            position = whole.subject("forget", user)
            assert whole.ended(whole.jobs.submit_forgetting(user, position)).state == "succeeded"
        (version,) = live_versions.read(whole.data).values()
        eventually(lambda: whole.hotswap.served() == {algorithm: version})
        whole.rate(("u7", "z1", 4.0), ("u8", "w", 4.0))
        before = answers(whole)
    with Whole(redis_url, tmp_path) as again:
        eventually(lambda: again.hotswap.served() == {algorithm: version})
        after = answers(again)
    assert [what for what in before if before[what] != after[what]] == []


def answers(whole: Whole) -> dict[str, object]:
    """Whatever can be asked, once nothing waits to be refitted."""
    whole.settle()
    users = [*(f"u{n}" for n in range(60)), "second", "gone", "third"]
    items = [f"{kind}{n}" for kind in "ixyz" for n in range(6)]
    asked: dict[str, Query] = {"popular": Popular(n=100)}
    for user in users:
        asked[f"list of {user}"] = Recommend(user=user, n=60, explain=True, include_seen=True)
        asked[f"list of {user}, new to them"] = Recommend(user=user, n=60)
        asked[f"neighbors of {user}"] = Neighbors(kind="user", id=user, n=20)
        asked |= {f"estimate of {user} and {item}": Estimate(user=user, item=item) for item in items[::3]}
    asked |= {f"neighbors of {item}": Neighbors(kind="item", id=item, n=20) for item in items}
    found: list[object] = []
    for start in range(0, len(asked), 50):
        found += whole.ask_all(list(asked.values())[start : start + 50])
    return dict(zip(asked, map(repr, found), strict=True))
