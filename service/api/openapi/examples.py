"""Examples of the OpenAPI document, which /docs sends and shows. A test sends every request to a service.

/docs fills in the values of path parameters. It only shows those of queries, because filled-in values would be sent.
"""

from __future__ import annotations

import json
from typing import Any

from service.api.openapi import operation_examples
from service.api.openapi.model_examples import (
    ITEM,
    JOB,
    MODEL,
    OF_MODELS,
    OTHER_ITEM,
    POSITION,
    REQUEST_ID,
    RETRAIN,
    STATS,
    USER,
    VERSION,
)

PROBLEM = "application/problem+json"

PARAMETERS: dict[str, Any] = {
    "user": USER,
    "item": ITEM,
    "job": JOB,
    "version": VERSION,
    "wait_for": POSITION,
    "n": 5,
    "offset": 10,
    "exclude": [OTHER_ITEM],
    "include_seen": True,
    "min_ratings": 3,
    "model": MODEL,
    "explain": True,
    "fallback": "popular",
    "explore": 0.1,
    "explore_below": 5,
    "X-Source": "kafka:ratings/0",
    "X-Offset": 1300,
    "source": "kafka:ratings/0",
    "half_life": "7d",
    "filter": {"tag.genre": "western", "max.price": "20"},
    "available": True,
    "cursor": "",
    "name": "home",
    "experiment": "summer",
    "key": operation_examples.KEY_ID,
    "webhook": operation_examples.WEBHOOK_ID,
    "scenario": "home",
    "diversity": 0.3,
    "rotate": "6h",
    "what": "ratings",
    "format": "ndjson",
    "below": 0,
    "above": 4,
    "hidden": True,
}

_boost = {"filter": {"tag": "genre", "in": ["western"]}, "add": 0.2}
_pin = {"item": OTHER_ITEM, "at": 1}
_rotation = {"half_life": "6h", "by": 0.3}
_rules = {
    "boosts": [_boost],
    "pins": [_pin],
    "max_per": {"tag": "genre", "n": 3},
    "diversity": 0.3,
    "rotate": _rotation,
}
_rating = {"user": USER, "item": ITEM, "rating": 4.5}
# Bodies by operation, each by the name that /docs lists.
BODIES: dict[str, dict[str, Any]] = {
    "post_ratings": {
        "one rating": _rating,
        "several ratings": [
            {"user": USER, "item": OTHER_ITEM, "rating": 5, "timestamp": 1700000000},
            {"user": USER, "item": "synthetic-noir-001", "rating": 1, "timestamp": "2023-11-14T22:13:20Z"},
        ],
    },
    "post_items": {
        "one item": {"item": ITEM, "tags": {"genre": ["western"]}, "numbers": {"price": 9.99}},
        "several items": [{"item": ITEM, "available": False}, {"item": OTHER_ITEM, "until": 1900000000}],
    },
    "patch_items": {
        "one item": {"item": ITEM, "numbers": {"price": 7.99}},
        "several items": [{"item": ITEM, "numbers": {"price": 7.99}}, {"item": OTHER_ITEM, "tags": {"mood": None}}],
    },
    "make_lists": {
        "for all users": {"n": 50, "users": "all"},
    },
    "patch_item": {
        "set a number, remove a tag": {"numbers": {"price": 7.99}, "tags": {"mood": None}},
    },
    "post_events": {
        "one event": {"user": USER, "item": ITEM, "type": "purchase"},
        "several events": [
            {"user": USER, "item": OTHER_ITEM, "type": "view", "value": 2, "timestamp": 1700000000},
            {"user": USER, "item": "synthetic-noir-001", "type": "dislike", "event_id": "click-7"},
        ],
    },
    "recommend_user_filtered": {
        "filters": {"n": 5, "exclude": [OTHER_ITEM], "min_ratings": 1},
        "a filter": {"n": 5, "filter": {"not": {"tag": "genre", "in": ["noir"]}}},
        "rules": {"n": 5, **_rules},
        "candidates": {"n": 1, "candidates": [OTHER_ITEM, "synthetic-noir-001"], "include_seen": True},
        "as if the user had rated so": {
            "n": 5,
            "ratings": [{"item": OTHER_ITEM, "rating": 5}, {"item": ITEM, "rating": None}],
        },
    },
    **operation_examples.BODIES,
    "put_scenario": {
        "a filter": {"n": 20, "filter": {"tag": "genre", "in": ["western"]}},
        "rules": _rules,
    },
    "list_set_neighbors": {"several items": {"items": [ITEM, OTHER_ITEM], "n": 5}},
    "merge_user": {"an anonymous user": {"from": "synthetic-viewer-0002"}},
    "recommend_several": {
        "several users": {"users": [USER, "synthetic-viewer-0001"], "n": 5},
        "an anonymous user, by ratings that are not stored": {"ratings": [{"item": ITEM, "rating": 5}], "n": 5},
    },
    "retrain": RETRAIN,
}

_scored = {"item": OTHER_ITEM, "score": 0.8713}
_reason = {"item": ITEM, "contribution": 0.4231}
_explained = {**_scored, "reasons": [_reason]}
_by_model = {"model": MODEL, "model_version": VERSION, "as_of": POSITION}
_stored = {"item": ITEM, "rating": 4.5, "timestamp": 1700000000.0}
_rated_by = {"user": USER, "rating": 4.5, "timestamp": 1700000000.0}
_item_rating = {"item": ITEM, "rating": 4.5}
_listed = {
    "item": ITEM,
    "tags": {"genre": ["western"]},
    "numbers": {"price": 9.99},
    "available": True,
    "published": None,
    "until": None,
    "hidden": False,
    "n_ratings": 17,
}
_rejection = {"index": 1, "error": "Invalid rating: expected a number, got text"}
_fault = {"place": "query.n", "error": "expected 1 or more, got '0'"}


def _problem(status: int, slug: str, title: str, detail: str, **members: Any) -> dict[str, Any]:
    kind = f"urn:nearfield:problem:{slug}"
    return {"type": kind, "title": title, "status": status, "detail": detail, "request_id": REQUEST_ID, **members}


PROBLEMS = {
    400: _problem(400, "malformed-body", "Malformed body", "Invalid body: expected an object or an array, got str"),
    401: _problem(
        401, "not-authorized", "Not authorized", "Invalid X-API-Key: expected a key of this service, got none"
    ),
    403: _problem(
        403, "forbidden", "Forbidden", "Invalid X-API-Key: expected a key that may write, got one that may read"
    ),
    404: _problem(404, "unknown-user", "Unknown user", f"user {USER!r} has no ratings"),
    410: _problem(
        410, "gone", "Gone", f"the cursor's model {VERSION} is not live any more: begin again with `cursor=`"
    ),
    409: _problem(
        409,
        "job-running",
        "A job is already running",
        f"A retrain is already running (job {JOB}): wait for it or cancel it",
        job=JOB,
    ),
    413: _problem(
        413, "body-too-large", "Body too large", "Invalid body: expected at most 1,048,576 bytes, got 2,000,000"
    ),
    414: _problem(414, "url-too-long", "URL too long", "Invalid URL: expected a request line of at most 16,384 bytes"),
    415: _problem(
        415,
        "unsupported-media-type",
        "Unsupported media type",
        "Invalid Content-Type: expected application/json or application/x-ndjson, got text/plain",
    ),
    422: _problem(
        422, "invalid-request", "Invalid request", f"Invalid {_fault['place']}: {_fault['error']}", errors=[_fault]
    ),
    429: _problem(429, "too-many-requests", "Too many requests", "Over 50 requests per second; try again in 1 s"),
    500: _problem(
        500, "internal-error", "Internal error", "The service failed; its log has the reason under this request_id."
    ),
    503: _problem(503, "overloaded", "Overloaded", "1,024 requests are already waiting"),
}

_list_file = {"job": JOB, "bytes": 52_310, "created_ms": 1795232220712}

COMPONENTS: dict[str, Any] = {
    **operation_examples.COMPONENTS,
    **OF_MODELS,
    "Accepted": {"accepted": 1, "rejected": [_rejection], "stream_id": POSITION, "took_ms": 0.518},
    "Alive": {"status": "live"},
    "AnonymousBody": BODIES["recommend_several"]["an anonymous user, by ratings that are not stored"],
    "Boost": _boost,
    "DocumentDetails": {"name": "home", "body": {"n": 20}, "stream_id": POSITION, "as_of": POSITION},
    "Fault": _fault,
    "Filter": _boost["filter"],
    "ListFile": _list_file,
    "ListFiles": {"exports": [_list_file]},
    "ListsBody": BODIES["make_lists"]["for all users"],
    "Forgotten": {"stream_id": POSITION, "job": JOB, "note": "the rating log keeps one entry that names the user"},
    "ItemDetails": {**_listed, "embedding": None, "as_of": POSITION},
    "ItemList": {"items": [_listed], "next": "0123456789abcdef", "as_of": POSITION},
    "ListedDocument": {"name": "home", "stream_id": POSITION},
    "ListedItem": _listed,
    "ListedRating": {"user": USER, **_stored},
    "LogStats": STATS["log"],
    "ModelStats": STATS["models"][0],
    "ListedUser": {"user": USER, "n_ratings": 17},
    "UserList": {"users": [{"user": USER, "n_ratings": 17}], "next": None, "as_of": POSITION},
    "MergeBody": BODIES["merge_user"]["an anonymous user"],
    "SetBody": BODIES["list_set_neighbors"]["several items"],
    "NeighborsOfSet": {"neighbors": [_scored], **_by_model, "warnings": []},
    "ItemPatch": BODIES["patch_item"]["set a number, remove a tag"],
    "ItemNeighbors": {"item": ITEM, "neighbors": [_scored], **_by_model},
    "ItemRating": _item_rating,
    "ExtraRating": {"item": ITEM, "rating": None},
    "JsonValue": 32,
    "MaxPer": _rules["max_per"],
    "Rotation": _rules["rotate"],
    "Pin": _pin,
    "PopularItems": {"items": [{"item": ITEM, "score": 126.7709}], "as_of": POSITION, "warnings": []},
    "PostedEvent": BODIES["post_events"]["one event"],
    "PatchedItem": BODIES["patch_items"]["one item"],
    "PostedItem": BODIES["post_items"]["one item"],
    "PostedRating": _rating,
    "ProblemDocument": PROBLEMS[422],
    "Rating": _stored,
    "RatingEstimate": {
        "user": USER,
        "item": OTHER_ITEM,
        "estimate": 4.27,
        "personalized": True,
        "model": "culsh",
        "model_version": "culsh-20261121T033717-b687",
        "as_of": POSITION,
        "warnings": [],
    },
    "RatingOfItem": _rated_by,
    "RatingPage": {"ratings": [{"user": USER, **_stored}], "next": None, "as_of": POSITION},
    "RatingsOfItem": {"item": ITEM, "n_ratings": 1, "ratings": [_rated_by], "as_of": POSITION},
    "RatingsOfUser": {"user": USER, "n_ratings": 1, "ratings": [_stored], "as_of": POSITION},
    "Ready": {"status": "ready", "as_of": POSITION, "left_out": []},
    "Reason": _reason,
    "RecommendBody": BODIES["recommend_user_filtered"]["filters"],
    "Recommendation": {
        "user": USER,
        "items": [_explained],
        "personalized": True,
        **_by_model,
        "warnings": [],
        "took_ms": 0.361,
        "request_id": REQUEST_ID,
    },
    "Rejection": _rejection,
    "ScenarioBody": BODIES["put_scenario"]["a filter"],
    "ScenarioList": {"scenarios": [{"name": "home", "stream_id": POSITION}], "as_of": POSITION},
    "ScoredItem": _explained,
    "ScoredUser": {"user": "synthetic-viewer-0126", "score": 0.846},
    "Stats": STATS,
    "StreamStats": STATS["stream"],
    "UserNeighbors": {
        "user": USER,
        "neighbors": [{"user": "synthetic-viewer-0126", "score": 0.846}],
        **_by_model,
    },
    "UsersBody": BODIES["recommend_several"]["several users"],
    "Written": {"stream_id": POSITION},
}
TEXTS = {
    "/admin/export": '{"user":"ann","item":"synthetic-western-000","rating":4.5,"timestamp":1700000000.0}\n',
    "/admin/exports/{job}": "PAR1",
    "/metrics": "# HELP nearfield_ready 1 while ready.\n# TYPE nearfield_ready gauge\nnearfield_ready 1.0\n",
}


def add_examples(document: dict[str, Any]) -> None:
    """Give every schema, parameter, body and answer of an OpenAPI document its example."""
    for name, schema in document["components"]["schemas"].items():
        schema["examples"] = [COMPONENTS[name]]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                _add_to_parameter(parameter)
            if "requestBody" in operation:
                _add_to_body(operation["requestBody"]["content"], BODIES[operation["operationId"]])
            for status, answer in operation["responses"].items():
                for kind, content in answer.get("content", {}).items():
                    content["example"] = PROBLEMS[int(status)] if kind == PROBLEM else _answer(content, path)


def _add_to_body(content: dict[str, Any], named: dict[str, Any]) -> None:
    content["application/json"]["examples"] = {name: {"value": value} for name, value in named.items()}
    if "application/x-ndjson" in content:
        several = {name: value for name, value in named.items() if isinstance(value, list)}
        lines = {name: "".join(json.dumps(one) + "\n" for one in value) for name, value in several.items()}
        content["application/x-ndjson"]["examples"] = {name: {"value": text} for name, text in lines.items()}


def _add_to_parameter(parameter: dict[str, Any]) -> None:
    value = PARAMETERS[parameter["name"]]
    if parameter["required"]:
        parameter["example"] = value
    else:
        parameter["schema"]["examples"] = [value]


def _answer(content: dict[str, Any], path: str) -> Any:
    """The example of an answer: that of its schema's component, of the first one if there are several."""
    schema = content.get("schema", {})
    if not schema:
        return TEXTS[path]
    schema = schema.get("anyOf", [schema])[0]
    if schema.get("type") == "array":
        return [_answer({"schema": schema["items"]}, path)]
    return COMPONENTS[schema["$ref"].rpartition("/")[2]]
