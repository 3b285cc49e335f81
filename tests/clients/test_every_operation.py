"""Each operation of the Python client once, against a real service: it succeeds, and its answer is read whole."""

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from nearfield_client import Nearfield
from nearfield_client.generated import models
from nearfield_client.generated.api import admin
from nearfield_client.generated.models import Job, KeyBody, ListsBody, Retrain, WebhookBody
from nearfield_client.model import plain
from nearfield_client.operation import Operation

from clients import generate
from tests.service.process import Service
from tests.service.waiting import eventually

KEYS = {"api_key": "key-of-every-client", "admin_key": "key-of-the-admins"}
MODEL, OTHER, N_USERS, N_ITEMS = "main", "other", 30, 8
HOOK = WebhookBody("https://93.184.216.34/hook", events=["train.succeeded"])  # nothing is sent to it
NOIR = models.ListItemsFilter.from_dict({"tag.genre": "noir"})
BOOST = models.Boost(models.Filter(tag="genre", in_=["noir"]), 0.5)
TAGS = models.PostedItemTags.from_dict({"genre": ["noir"]})
ITEM = models.PostedItem("i0", tags=TAGS)
COUNTRY = models.PostedUserTags.from_dict({"country": ["de"]})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nearfield]:
    service = Service(tmp_path_factory.mktemp("every") / "data", backend="host", log_level="error", **KEYS)
    with Nearfield(str(service.client.base_url), KEYS["admin_key"]) as client:
        with client.ratings() as batch:
            for number in range(N_USERS * N_ITEMS // 2):
                batch.add(models.PostedRating(f"u{number % N_USERS}", f"i{number * 7 % N_ITEMS}", 1.0 + number % 5))
        with client.items() as items:
            items.add(ITEM)
        yield client
    service.stop()


def done(client: Nearfield, job: Job) -> Job:
    """A job, after its success."""

    def now() -> Job | None:
        state = admin.get_job.sync(job.id, client=client)
        return state if state.state == "succeeded" else None

    return eventually(now)


@pytest.fixture(scope="module")
def given(client: Nearfield) -> dict[str, tuple[Any, ...]]:
    """Operation -> its arguments: texts in the path, and a mapping of the others. Most of those that read need none."""
    params = models.RetrainParams.from_dict({"n_factors": 4})
    for name in (MODEL, OTHER):
        training = Retrain("als-implicit", params=params, name=name, activate=True)
        trained = done(client, admin.retrain.sync(client=client, body=training))
    eventually(lambda: sum(one.live for one in admin.list_models.sync(client=client).models) == 2)
    lists = done(client, admin.make_lists.sync(client=client, body=ListsBody(users="all", n=3)))
    hook = admin.make_webhook.sync(client=client, body=HOOK)
    key = admin.make_key.sync(client=client, body=KeyBody("old", "read"))
    rotation = models.ScenarioBodyRotation(half_life="1d")
    scenario = models.ScenarioBody(n=5, boosts=[BOOST], rotate=rotation, filter_=BOOST.filter_)
    several = models.RecommendBody(
        n=2, include_seen=True, boosts=[BOOST], pins=[models.Pin("i3", 1)], max_per=models.MaxPer("genre", 2)
    )
    arms = [models.ArmBody(name, 50) for name in (MODEL, OTHER)]
    return {
        "post_ratings": ({"body": [models.PostedRating("u0", "i1", 4.0)], "x_source": "queue", "x_offset": 3},),
        "post_events": ({"body": models.PostedEvent("u0", "i2", "view")},),
        "delete_rating": ("u3", "i1"),
        "delete_event": ("u0", "e1"),
        "post_items": ({"body": ITEM},),
        "patch_items": ({"body": [models.PatchedItem("i1", tags=TAGS)]},),
        "patch_item": ("i2", {"body": models.ItemPatch(available=True)}),
        "delete_item": ("i7",),
        "get_item": ("i0",),
        "post_users": ({"body": models.PostedUser("u0", tags=COUNTRY)},),
        "put_user": ("u1", {"body": models.UserAttributes(tags=COUNTRY)}),
        "patch_user": ("u1", {"body": models.UserAttributes(tags=COUNTRY)}),
        "get_user": ("u1",),
        "delete_user": ("u2",),
        "list_items": ({"filter_": NOIR, "n": 2},),
        "list_item_neighbors": ("i0", {"n": 2}),
        "list_item_users": ("i0", {"n": 2}),
        "list_set_neighbors": ({"body": models.SetBody(["i0", "i1"], n=2)},),
        "list_user_neighbors": ("u0", {"n": 2}),
        "estimate_rating": ("u0", "i0"),
        "list_user_ratings": ("u1",),
        "list_user_events": ("u0",),
        "list_item_ratings": ("i1",),
        "recommend_user": ("u0", {"n": 2, "explain": True, "include_seen": True, "exclude": ["i1", "i2"]}),
        "recommend_user_filtered": ("u0", {"body": several}),
        "recommend_several": ({"body": models.UsersBody(["u0", "u1"], n=2)},),
        "get_quality": (MODEL,),
        "activate_model": (trained.version,),
        "end_model": (MODEL,),
        "retrain": ({"body": Retrain("als-implicit", force=True)},),
        "get_job": (trained.id,),
        "cancel_job": (trained.id,),
        "hide_item": ("i5",),
        "show_item": ("i5",),
        "forget_user": ("u29",),
        "merge_user": ("u1", {"body": models.MergeBody("u2")}),
        "put_scenario": ("home", {"body": scenario}),
        "get_scenario": ("home",),
        "delete_scenario": ("home",),
        "put_experiment": (
            "trial",
            {"body": models.ExperimentBody(arms)},
        ),
        "get_experiment": ("trial",),
        "delete_experiment": ("trial",),
        "remove_source": ("queue",),
        "undo_source": ("queue",),
        "make_lists": ({"body": ListsBody(n=3)},),
        "get_export": (lists.id,),
        "export": ({"what": "ratings", "format_": "ndjson"},),
        "export_user": ("u0",),
        "make_webhook": ({"body": HOOK},),
        "remove_webhook": (hook.id,),
        "make_key": ({"body": KeyBody("new", "read", expires=4e9)},),
        "revoke_key": (key.id,),
    }


def operations() -> list[tuple[str, Operation[..., Any]]]:
    """All of them: what makes something first, what ends it last, users of a thing before the thing."""
    described = [one for methods in generate.document()["paths"].values() for one in methods.values()]
    modules = {one["operationId"]: f"nearfield_client.generated.api.{one['tags'][0]}" for one in described}
    order = {"POST": 0, "PUT": 1, "PATCH": 2, "GET": 3, "DELETE": 4}
    made = [(name, getattr(importlib.import_module(module), name)) for name, module in reversed(modules.items())]
    return sorted(made, key=lambda one: order[one[1].method])


def test_each_operation_succeeds(client: Nearfield, given: dict[str, tuple[Any, ...]]) -> None:
    tried = operations()
    assert {name for name, _ in tried} >= given.keys()
    for name, operation in tried:
        arguments = given.get(name, ())
        others: dict[str, Any] = next((one for one in arguments if isinstance(one, dict)), {})
        response = operation.sync_detailed(*(one for one in arguments if isinstance(one, str)), client=client, **others)
        assert 200 <= response.status_code < 300, (name, response.content)
        if response.parsed is None:
            assert name in {"get_metrics", "export", "export_user", "get_export"}, "it has no JSON"
            assert response.content
        else:
            assert without_nulls(plain(response.parsed)) == without_nulls(json.loads(response.content)), name


def without_nulls(document: Any) -> Any:
    """A model says None for a field that is null and for one that is not there."""
    if isinstance(document, dict):
        return {name: without_nulls(value) for name, value in document.items() if value is not None}
    return list(map(without_nulls, document)) if isinstance(document, list) else document
