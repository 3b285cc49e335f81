"""Lists of all users, and rebuilt states: both are what a service answers at that position."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from gpu.base.backend import HOST
from service.base.errors import InvalidRequest
from service.engine.queries import Recommend
from service.engine.queries.catalog_queries import ListUsers
from service.engine.queries.filter_tree import HasTag, text_of
from service.engine.rebuilt import history_at, rebuild
from service.jobs import lister
from service.jobs.jobs import Due
from service.settings.event_types import DEFAULT_TYPES
from service.storage.documents import Document
from service.storage.events import StreamId, encode_document, encode_users
from service.storage.snapshots import snapshot
from service.storage.user_changes import UserChange
from tests.service.planted import SMALL, events
from tests.service.waiting import eventually
from tests.service.whole import Whole


def lists_of(table: Any) -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for user, rank, item, score in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found.setdefault(user, []).append((item, score))
        assert rank == len(found[user])
    return found


def answered(whole: Whole, users: list[str], **options: Any) -> dict[str, list[tuple[str, float]]]:
    answers = whole.ask(Recommend(users=users, **options))
    return {one.user: [(item.item, item.score) for item in one.items] for one in answers}


def caught_up(whole: Whole) -> None:
    whole.settle()


@pytest.mark.parametrize("algorithm", ["als-implicit", "culsh"])
def test_lists_and_replay_give_the_answers_of_the_service_at_that_position(whole: Whole, algorithm: str) -> None:
    whole.send(events()[:1500])
    params = {"n_factors": 8, "n_epochs": 3} if algorithm == "als-implicit" else SMALL
    whole.train(algorithm, **params)
    whole.rate(("new", "i3", 5.0), ("new", "i5", 4.0), ("u1", "only", 2.0))
    whole.subject("forget", "u7")
    position = whole.rate(("u2", "i2", 1.0))
    whole.subject("hide", "i4")
    position = whole.rate(("u2", "i4", 1.0))
    caught_up(whole)
    users = [one.user for one in whole.ask(ListUsers(n=100)).users]
    assert {"new", "u1", "u2"} <= set(users)
    expected = answered(whole, users, n=7)

    done = whole.ended(whole.jobs.submit_lists(Recommend(n=7), '{"n": 7, "users": "all"}'))
    assert (done.kind, done.state, done.error) == ("lists", "succeeded", None)
    assert done.params == {"n": 7, "users": "all"}
    assert done.metrics == {"users": float(len(users))}
    table = pq.read_table(whole.data / "exports" / f"{done.id}.parquet")
    assert table.schema.metadata[b"nearfield.as_of"].decode() == str(position)
    assert lists_of(table) == expected

    version = whole.hotswap.served()[algorithm]
    whole.send(events()[1500:1600])
    whole.rate(("u1", "i1", 5.0), ("u2", "i2", 5.0), ("new", "i1", 1.0))
    caught_up(whole)
    assert answered(whole, users, n=7) != expected
    loaded = snapshot.load(whole.data / "snapshots", version)
    eventually(lambda: whole.log.last_id() >= position)
    rebuilt = rebuild(loaded, history_at(whole.log, position, DEFAULT_TYPES), position, HOST)
    batches = lister.lists(rebuilt, Recommend(n=7), users)
    assert lists_of(next(batches)) == expected
    with pytest.raises(InvalidRequest, match="at most"):
        history_at(whole.log, StreamId(2**45, 0), DEFAULT_TYPES)
    with pytest.raises(InvalidRequest, match="was trained"):
        rebuild(loaded, history_at(whole.log, StreamId(1, 0), DEFAULT_TYPES), StreamId(1, 0), HOST)


def test_lists_may_be_for_a_segment_of_the_users(whole: Whole) -> None:
    whole.send(events()[:600])
    whole.train("als", n_factors=4, n_epochs=1)
    whole.append(encode_users([UserChange(user, tags={"segment": ["a"]}) for user in ("u3", "u5", "unrated")]))
    done = whole.ended(whole.jobs.submit_lists(Recommend(n=3), user_filter=text_of(HasTag("segment", ("a",)))))
    assert (done.state, done.metrics) == ("succeeded", {"users": 3.0})
    found = lists_of(pq.read_table(whole.data / "exports" / f"{done.id}.parquet"))
    assert found == answered(whole, ["u3", "u5", "unrated"], n=3)


def test_lists_by_a_scenario_take_it_from_the_position_of_the_job(whole: Whole) -> None:
    whole.send(events()[:600])
    for name in ("als", "als-implicit"):
        whole.train(name, n_factors=4, n_epochs=1)
    body = {"n": 4, "model": "als", "pins": [{"item": "i3", "at": 2}], "explain": True, "with": "title"}
    whole.append(encode_document(Document("scenario", "weekly", json.dumps(body))))
    done = whole.ended(whole.jobs.submit_scenario("weekly", Due("0123456789ab", "30 5 * * 1 lists weekly")))
    assert (done.state, done.error, done.name) == ("succeeded", None, "als")
    assert (done.id, done.schedule) == ("0123456789ab", "30 5 * * 1 lists weekly")
    assert (done.kind, done.params) == ("lists", {"scenario": "weekly"})
    found = lists_of(pq.read_table(whole.data / "exports" / f"{done.id}.parquet"))
    assert found == answered(whole, list(found), n=4, model="als", pins=(("i3", 2),))
    assert len(found) == done.metrics["users"]

    whole.append(encode_document(Document("scenario", "weekly", '{"n": 2}')))
    done = whole.ended(whole.jobs.submit_scenario("weekly", Due("0123456789ac", "")))
    assert done.name == "als-implicit", "the preferred one"
    found = lists_of(pq.read_table(whole.data / "exports" / f"{done.id}.parquet"))
    assert found == answered(whole, list(found), n=2)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (None, "UnknownScenario: "),
        ('{"experiment": "home"}', "expected one without an experiment"),
        ('{"n": "many"}', "expected a body that this version takes, got that of 'weekly'"),
        ('{"model": "sgd"}', r"expected a live one \(als\), got 'sgd'"),
    ],
)
def test_a_scenario_that_makes_no_lists_fails_the_job(whole: Whole, body: str | None, error: str) -> None:
    whole.send(events()[:200])
    whole.train("als", n_factors=4, n_epochs=1)
    whole.append(encode_document(Document("scenario", "weekly", body)))
    done = whole.ended(whole.jobs.submit_scenario("weekly", Due("0123456789ab", "")))
    assert done.state == "failed"
    assert re.search(error, done.error or "")


def test_files_are_pruned_and_leave_with_a_forgotten_user(whole: Whole, tmp_path: Path) -> None:
    whole.send(events()[:600])
    whole.train("als-implicit", n_factors=8, n_epochs=1)
    folder = whole.data / "exports"
    for n in range(6):
        folder.mkdir(exist_ok=True)
        (folder / f"{n:012x}.parquet").write_bytes(b"x")
    whole.ended(whole.jobs.submit_lists(Recommend(n=3, model="als-implicit")))
    assert len(list(folder.iterdir())) == 5
    done = whole.ended(whole.jobs.submit_forgetting("u3", whole.subject("forget", "u3")))
    assert (done.state, list(folder.iterdir())) == ("succeeded", [])
    failed = whole.ended(whole.jobs.submit_lists(Recommend(n=3, filter=text_of(HasTag("nothing", ("x",))))))
    assert failed.state == "failed"
    assert "nothing" in (failed.error or "")
    assert np.isclose(failed.progress, 0)


def test_lists_take_rules_and_some_users(whole: Whole) -> None:
    whole.send(events()[:900])
    whole.train("als-implicit", n_factors=8, n_epochs=2)
    rules: dict[str, Any] = {"n": 5, "diversity": 0.5, "pins": (("i3", 2),), "exclude": ("i1",), "include_seen": True}
    expected = answered(whole, ["u3", "nobody", "u1"], **rules)
    done = whole.ended(whole.jobs.submit_lists(Recommend(users=["u3", "nobody", "u1"], **rules)))
    table = pq.read_table(whole.data / "exports" / f"{done.id}.parquet")
    assert lists_of(table) == expected
    assert list(expected) == ["u3", "nobody", "u1"]
    assert [expected[user][1][0] for user in ("u1", "u3")] == ["i3", "i3"]
    assert done.metrics == {"users": 3.0}
    query = Recommend(users=["nobody", "u1"], fallback="none", **rules)
    done = whole.ended(whole.jobs.submit_lists(query))
    table = pq.read_table(whole.data / "exports" / f"{done.id}.parquet")
    assert lists_of(table) == {"u1": expected["u1"]}
    assert "query" not in whole.table.get(done.id)
    assert not list((whole.data / "work").iterdir())
