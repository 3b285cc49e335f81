"""The Python client against a real service."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_type

import pytest
from nearfield_client import AsyncNearfield, Nearfield, NearfieldError, each
from nearfield_client.generated.api.admin import get_stats, list_ratings
from nearfield_client.generated.api.items import get_item, list_items
from nearfield_client.generated.api.lookups import list_item_ratings, list_user_ratings, list_users
from nearfield_client.generated.api.operation import get_metrics, get_ready
from nearfield_client.generated.api.recommendations import list_popular, recommend_several, recommend_user
from nearfield_client.generated.models import (
    ListedUser,
    ListItemsFilter,
    ListPopularFilter,
    PopularItems,
    PostedItem,
    PostedRating,
    Recommendation,
    UsersBody,
)

from clients import generate
from tests.service.process import Service

KEYS = {"api_key": "key-of-every-client", "admin_key": "key-of-the-admins"}
N_USERS, N_ITEMS = 30, 8


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    service = Service(tmp_path_factory.mktemp("clients") / "data", backend="host", log_level="error", **KEYS)
    yield str(service.client.base_url)
    service.stop()


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Nearfield]:
    """With the key of the admins; the service knows some ratings and items."""
    with Nearfield(address, KEYS["admin_key"]) as client:
        with client.ratings() as batch:
            for number in range(N_USERS * N_ITEMS // 2):
                user, item = f"u{number % N_USERS}", f"i{(number * 7) % N_ITEMS}"
                batch.add(PostedRating(user, item, float(1 + number % 5)))
        with client.items() as items:
            items.add({"item": "i0", "tags": {"genre": ["noir"]}})
            items.add(PostedItem("i1", published="never"))
        assert (items.accepted, items.n_rejected, items.rejected[0].position) == (1, 1, 1)
        assert "published" in items.rejected[0].error
        yield client


def test_what_was_written_is_read(client: Nearfield) -> None:
    with client.ratings() as batch:
        batch.add({"user": "ann", "item": "new", "rating": 5})
    assert client.position.latest == batch.stream_id
    ratings = list_user_ratings.sync("ann", client=client)
    assert [(one.item, one.rating) for one in ratings.ratings] == [("new", 5.0)]
    with client.events() as events:
        events.add({"user": "ann", "item": "i1", "type": "purchase"})
    listed = recommend_user.sync("ann", client=client, n=N_ITEMS + 1)
    assert {"new", "i1"}.isdisjoint(one.item for one in listed.items)


def test_another_client_waits_for_a_position_that_it_is_told(address: str, client: Nearfield) -> None:
    with client.ratings() as batch:
        batch.add({"user": "told", "item": "i1", "rating": 5})
    with Nearfield(address, KEYS["api_key"]) as other:
        assert batch.stream_id is not None
        other.wait_for(batch.stream_id)
        assert list_user_ratings.sync("told", client=other).n_ratings == 1


@pytest.mark.parametrize("name", ["a/b", ".", "..", "%2F", "x?y=1&z", "名前"])
def test_any_id_can_be_named(client: Nearfield, name: str) -> None:
    with client.ratings() as batch:
        batch.add({"user": name, "item": "i1", "rating": 3.0})
    assert list_user_ratings.sync(name, client=client).user == name


def test_listings_are_read_page_by_page(client: Nearfield) -> None:
    everyone = [one.user for one in each(list_users.sync, client=client, n=7)]
    assert len(everyone) == len(set(everyone))
    assert {f"u{number}" for number in range(N_USERS)} <= set(everyone)
    noir = ListItemsFilter.from_dict({"tag.genre": "noir"})
    assert [one.item for one in each(list_items.sync, client=client, n=1, filter_=noir)] == ["i0"]
    stored = {(one.user, one.item) for one in each(list_ratings.sync, client=client, n=11)}
    assert len(stored) == get_stats.sync(client=client).ratings
    raters = [one.user for one in each(list_item_ratings.sync, "i0", client=client, n=4)]
    assert sorted(raters) == sorted({user for user, item in stored if item == "i0"})


def test_a_list_is_read_page_by_page(client: Nearfield) -> None:
    whole = recommend_user.sync("stranger", client=client, n=6).items
    pages = each(recommend_user.sync, "stranger", client=client, n=2)
    assert [next(pages).item for _ in whole] == [one.item for one in whole]


def test_several_users_are_asked_for_at_once(client: Nearfield) -> None:
    lists = recommend_several.sync(client=client, body=UsersBody(["u0", "u1"], n=2))
    assert isinstance(lists, list)
    assert [(one.user, len(one.items)) for one in lists if isinstance(one, Recommendation)] == [("u0", 2), ("u1", 2)]


def test_most_programs_need_methods_only(client: Nearfield) -> None:
    written = [
        client.rate("mia", "i2", 5, timestamp=1_700_000_000),
        client.event("mia", "i3", "purchase"),
        client.put_item("film", title="A film", tags={"genre": ["noir"]}, numbers={"year": 1947}),
        client.patch_items([{"item": "film", "numbers": {"year": None}, "title": "Another"}]),
    ]
    assert [(one.accepted, one.rejected) for one in written] == [(1, [])] * 4
    assert client.position.latest == written[-1].stream_id
    assert [one.item for one in client.user_events("mia").events] == ["i3"]
    film = get_item.sync("film", client=client)
    assert (film.title, film.tags.to_dict(), film.numbers.to_dict()) == ("Another", {"genre": ["noir"]}, {})
    listed = client.recommend("mia", n=3, exclude=["i4"])
    assert (listed.user, len(listed.items)) == ("mia", 3)
    assert {"i2", "i3", "i4"}.isdisjoint(one.item for one in listed.items)
    noir = ListPopularFilter.from_dict({"tag.genre": "noir"})
    assert {one.item for one in client.popular(filter_=noir).items} <= {"i0", "film"}
    with pytest.raises(NearfieldError) as refused:
        client.similar("nothing")
    assert refused.value.slug == "unknown-model"
    with pytest.raises(TypeError, match="unexpected keyword argument 'name'"):
        client.patch_items([{"item": "film", "name": "A third"}])


def test_the_methods_of_an_async_client_are_the_same(address: str, client: Nearfield) -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        return {name: list(inspect.signature(of).parameters) for name, of in vars(kind).items() if name[0] != "_"}

    assert methods(AsyncNearfield) == methods(Nearfield)

    async def use() -> None:
        async with AsyncNearfield(address, KEYS["admin_key"]) as one:
            await one.rate("tom", "i2", 4)
            await one.event("tom", "i3", "view")
            await one.put_item("short", title="A short")
            await one.patch_items([{"item": "short", "title": "A shorter"}])
            assert "i2" not in [listed.item for listed in (await one.recommend("tom")).items]
            assert [counted.item for counted in (await one.user_events("tom")).events] == ["i3"]
            assert (await one.popular(n=2)).items == client.popular(n=2).items
            with pytest.raises(NearfieldError):
                await one.similar("nothing")

    asyncio.run(use())
    assert get_item.sync("short", client=client).title == "A shorter"


def test_refusals_are_errors(address: str, client: Nearfield) -> None:
    with pytest.raises(NearfieldError, match="404 Unknown item: item 'nothing'") as refused:
        get_item.sync("nothing", client=client)
    assert refused.value.slug == "unknown-item"
    with Nearfield(address) as nobody:
        assert get_ready.sync(client=nobody).status == "ready"
        with pytest.raises(NearfieldError, match="401 Not authorized: Invalid key"):
            list_popular.sync(client=nobody)
        with pytest.raises(NearfieldError, match="401"), nobody.ratings() as batch:
            batch.add({"user": "ann", "item": "i1", "rating": 1})


def test_texts_are_read_as_they_are(client: Nearfield) -> None:
    assert b"nearfield_ready 1.0" in get_metrics.sync_detailed(client=client).content


def test_an_operation_shows_what_it_takes() -> None:
    signature = inspect.signature(recommend_user.sync)
    assert list(signature.parameters)[:3] == ["user", "client", "wait_for"]
    assert signature.parameters["n"].default is None
    assert "n: How many results." in (recommend_user.sync.__doc__ or "")
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        recommend_user.sync("ann", client=Nearfield("http://nowhere"), size=3)  # type: ignore[call-arg]


if TYPE_CHECKING:

    async def what_mypy_finds_in_the_code_of_a_user(client: Nearfield) -> None:
        assert_type(list_popular.sync(client=client), PopularItems)
        assert_type(await list_popular.asyncio(client=client), PopularItems)
        assert_type(list_popular.sync_detailed(client=client).parsed, PopularItems)
        assert_type(recommend_user.sync("ann", client=client, n=3), Recommendation)
        assert_type(each(list_users.sync, client=client), Iterator[ListedUser])
        list_popular.sync(client=client, n="3")  # type: ignore[arg-type]
        recommend_user.sync(client=client)  # type: ignore[call-arg, misc]
        recommend_user.sync("ann", client=client, fallback="random")  # type: ignore[arg-type]
        recommend_several.sync(client=client, body=PostedRating("ann", "i1", 5.0))  # type: ignore[arg-type]
        PostedRating(item="i1", rating=5.0)  # type: ignore[call-arg]


def test_the_examples_of_its_readme_run(address: str) -> None:
    text = (generate.PYTHON / "README.md").read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == 8
    known: dict[str, object] = {}
    for example in examples:
        exec(example.replace("http://localhost:8000", address).replace("the key", KEYS["admin_key"]), known)
    assert isinstance(known["client"], Nearfield)
    known["client"].get_httpx_client().close()
    assert isinstance(known["n_users"], int) and known["n_users"] > 2_500
