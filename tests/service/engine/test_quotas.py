"""Quotas of a data set: what adds is refused, what is there stays and may be deleted, and the figures are shown."""

from pathlib import Path
from typing import Any

import pytest

from service.__main__ import run
from service.cli.client import Client
from service.cli.importer import ImportFailed
from service.engine.quotas import NEAR, QuotaExceeded, Quotas, bytes_of
from service.engine.state.history import History
from service.extras.kafka.kafka_bridge import Bridge
from service.settings.settings import Settings
from service.storage.events import (
    Entry,
    Fields,
    RatingEvent,
    StreamId,
    TypedEvent,
    encode_events,
    encode_items,
    encode_ratings,
    encode_subject,
    encode_users,
    parse_entry,
)
from service.storage.item_changes import ItemChange
from service.storage.user_changes import UserChange
from tests.service.extras.kafka.test_kafka_bridge import TOPIC, Consumer, Kafka, Partition
from tests.service.local import Local, serving
from tests.service.process import Service
from tests.service.waiting import eventually

RATINGS = [RatingEvent("ann", "a", 5.0, 1.0), RatingEvent("ann", "b", 4.0, 1.0), RatingEvent("bob", "a", 3.0, 1.0)]


def quotas_of(tmp_path: Path, entry: Fields | None = None, **quotas: float) -> Quotas:
    """The quotas of a data set with three ratings of two users and two items, and what `entry` adds."""
    history = History()
    entries = [Entry(StreamId(1, 0), "rating", RATINGS)]
    history.apply(entries + ([] if entry is None else [parse_entry(StreamId(2, 0), entry)]))
    found = Quotas(Settings(data=tmp_path).quotas | quotas, history, tmp_path, lambda: 7.0)
    found.measure()
    return found


def test_a_small_shop_meets_no_quota(tmp_path: Path) -> None:
    quotas = quotas_of(tmp_path)
    quotas.check_new(["eve"], ["c"])
    assert quotas.refusal() is None
    assert not quotas.are_ids_near
    shown = {quota.name: quota.held for quota in quotas.shown()}
    assert shown.pop("memory_gb") > 0
    assert shown == {"ratings": 3, "users": 2, "items": 2, "disk_gb": 0, "training_minutes": 7}
    assert all(quotas.used(name) < NEAR for name in Settings(data=tmp_path).quotas)


@pytest.mark.parametrize("name", ["ratings", "memory_gb", "disk_gb"])
def test_at_a_quota_writes_have_an_error_that_says_what_is_held_and_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(bytes(5_000_000))
    held = {quota.name: quota.held for quota in quotas_of(tmp_path).shown()}[name]
    assert quotas_of(tmp_path, None, **{name: 2 * held}).refusal() is None
    refusal = quotas_of(tmp_path, None, **{name: held / 2}).refusal()
    assert refusal is not None
    assert refusal.status == 507
    for part in ("holds ", " of at most ", "nothing was written; ", f"raise the setting quota_{name}"):
        assert part in str(refusal)


def test_events_of_unrated_pairs_count_as_ratings(tmp_path: Path) -> None:
    event = encode_events(
        [TypedEvent("bob", "b", "view", timestamp=2.0), TypedEvent("ann", "a", "view", timestamp=2.0)]
    )
    assert quotas_of(tmp_path, event).held("ratings") == 4


def test_only_new_users_and_items_count_against_their_quotas(tmp_path: Path) -> None:
    quotas = quotas_of(tmp_path, users=3, items=2)
    assert quotas.are_ids_near
    assert quotas.refusal() is None
    quotas.check_new(["ann", "eve"], ["a", "b"])
    with pytest.raises(QuotaExceeded, match=r"holds 2 of at most 3 users.* has 2 new ones.*forget users"):
        quotas.check_new(["ann", "eve", "fay"], [])
    with pytest.raises(QuotaExceeded, match="2 of at most 2 items, and the request has 1 new ones"):
        quotas.check_new([], ["c"])


def test_the_disk_of_further_data_sets_is_theirs(tmp_path: Path) -> None:
    (tmp_path / "sets" / "shop").mkdir(parents=True)
    (tmp_path / "ratings" / "sets").mkdir(parents=True)
    for path, size in (("sets/shop/a", 1000), ("ratings/a", 20), ("ratings/sets/b", 3)):
        (tmp_path / path).write_bytes(bytes(size))
    assert bytes_of(tmp_path) == 23
    assert bytes_of(tmp_path / "sets" / "shop") == 1000


@pytest.mark.parametrize(
    ("fields", "adds"),
    [
        (encode_ratings(RATINGS), True),
        (encode_ratings([RatingEvent('"rating":null', "a", None, 1.0)]), False),
        (encode_ratings([RatingEvent("ann", "a", None, 1.0), RATINGS[0]]), True),
        (encode_events([TypedEvent("ann", "a", "view", timestamp=1.0)]), True),
        (encode_items([ItemChange("a", tags={"t": ["x"]})]), True),
        (encode_items([ItemChange("a", op="delete")]), False),
        (encode_users([UserChange("ann", tags={"t": ["x"]})]), True),
        (encode_users([UserChange("ann")]), False),
        (encode_subject("forget", "ann"), False),
        (encode_subject("hide", "a"), False),
    ],
    ids=str,
)
def test_what_takes_away_adds_nothing(fields: Fields, adds: bool) -> None:
    assert parse_entry(StreamId(1, 0), fields).adds == adds


def is_full(local: Local, body: object) -> bool:
    answer = local.post("/ratings", body)
    assert answer.status_code in (202, 507), answer.text
    if answer.status_code == 507:
        assert answer.json()["type"].endswith("quota-exceeded")
    return answer.status_code == 507


def test_a_full_service_keeps_what_it_has_and_takes_more_after_a_deletion(tmp_path: Path) -> None:
    with serving(tmp_path / "data", worker=False, quota_ratings=4) as local:
        again = {"user": "ann", "item": "a", "rating": 5}
        local.rate(("ann", "a", 5.0), ("ann", "b", 4.0), ("bob", "a", 3.0))
        assert not is_full(local, again)
        position = local.rate(("bob", "b", 2.0), ("bob", "c", 1.0))  # begins below the quota, so it is whole
        eventually(lambda: is_full(local, again))
        assert local.post("/events", {"user": "ann", "item": "a", "type": "view"}).status_code == 507
        assert local.post("/items", {"item": "a", "tags": {"kind": ["film"]}}).status_code == 507
        assert local.request("PUT", "/users/ann", json={"tags": {"kind": ["adult"]}}).status_code == 507
        assert len(local.get("/users/bob/ratings", wait_for=position).json()["ratings"]) == 3
        stats = {quota["name"]: quota for quota in local.get("/admin/stats").json()["quotas"]}
        assert (stats["ratings"]["held"], stats["ratings"]["quota"]) == (5, 4)
        assert 'nearfield_quota_used_ratio{quota="ratings"} 1.25' in local.get("/metrics").text
        assert local.request("DELETE", "/items/c").status_code == 202
        assert local.request("DELETE", "/users/ann").status_code == 202
        for item in "bc":
            assert local.request("DELETE", f"/ratings/bob/{item}").status_code == 202
        eventually(lambda: not is_full(local, again))
    with serving(tmp_path / "data", worker=False, quota_ratings=4) as local:
        assert len(local.get("/users/ann/ratings").json()["ratings"]) == 2


def test_a_service_with_all_its_users_takes_ratings_of_these(tmp_path: Path) -> None:
    with serving(tmp_path / "data", worker=False, quota_users=2) as local:
        local.rate(("ann", "a", 5.0), ("bob", "a", 3.0))
        eventually(lambda: local.endpoint.state.counts_ids)
        local.get("/popular")  # the front has heard the state before this answer
        assert is_full(local, {"user": "eve", "item": "a", "rating": 5})
        assert not is_full(local, {"user": "bob", "item": "new", "rating": 5})
        assert local.request("PUT", "/users/eve", json={"tags": {"kind": ["adult"]}}).status_code == 507
        assert local.request("DELETE", "/admin/users/bob").status_code == 202
        eventually(lambda: not is_full(local, {"user": "eve", "item": "a", "rating": 5}))


def test_an_import_and_a_bridge_from_kafka_end_at_a_quota_and_lose_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, kafka = tmp_path / "first.csv", tmp_path / "second.csv", Kafka()
    first.write_text("user,item,rating\n" + "".join(f"ann,a{n},5\n" for n in range(10)))
    second.write_text("user,item,rating\n" + "".join(f"bob,b{n},4\n" for n in range(5)))
    kafka.add(3)
    service = Service(tmp_path / "data", fronts=1, worker=False, quota_ratings=10)
    address = str(service.client.base_url)

    def bridge(client: Client) -> Bridge:
        consumer: Any = Consumer(kafka)
        made = Bridge(consumer, client, "/ratings", Partition)
        consumer.subscribe([TOPIC], made._assigned, made._revoked)
        return made

    def held() -> dict[str, float]:
        return {quota["name"]: quota["held"] for quota in service.api.get("/admin/stats")["quotas"]}

    try:
        assert run(["import", str(first), "--url", address]) == 0
        eventually(lambda: held()["ratings"] == 10)
        again = {"user": "ann", "item": "a0", "rating": 5}
        eventually(lambda: service.client.post("/ratings", json=again).status_code == 507)
        assert run(["import", str(second), "--url", address]) == 1
        assert "507 Quota exceeded: The data set holds 10 of at most 10 ratings" in capsys.readouterr().err
        with Client(address) as client:
            with pytest.raises(ImportFailed, match="507 Quota exceeded"):
                bridge(client).step()
            assert kafka.committed_by_place[0].offset == 3
            assert held()["ratings"] == 10
            assert service.client.delete("/admin/users/ann").status_code == 202
            eventually(lambda: held()["ratings"] == 0)
            eventually(lambda: run(["import", str(second), "--url", address]) == 0)
            bridge(client).step()
        assert kafka.committed_by_place[0].offset == 4
        eventually(lambda: held()["ratings"] == 6)
    finally:
        service.stop()
