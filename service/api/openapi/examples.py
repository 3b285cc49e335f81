"""Examples of the OpenAPI document, which /docs sends and shows. A test sends every request to a service.

/docs fills in the values of path parameters. It only shows those of queries, because filled-in values would be sent.
Extras add theirs to `PARAMETERS`, `BODIES`, `COMPONENTS` and `TEXTS`.
"""

from __future__ import annotations

import json
from typing import Any

PROBLEM = "application/problem+json"
USER, ITEM, OTHER_ITEM = "ann", "synthetic-western-000", "synthetic-western-008"
POSITION, REQUEST_ID = "1795232220650-0", "e4497f540c68-a"
KEY, JOB, MODEL, VERSION = "5f0e9d3c7a12", "884ff6e1abac", "als-implicit", "als-implicit-20261121T033717-b687"
_metrics = {"ndcg@10": 0.3127, "baseline_ndcg@10": 0.1406}

PARAMETERS: dict[str, Any] = {
    "user": USER,
    "item": ITEM,
    "event_id": "click-7",
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
    "repeat": "allow",
    "seen_types": ["rating", "purchase"],
    "explore": 0.1,
    "explore_below": 5,
    "X-Source": "kafka:ratings/0",
    "X-Offset": 1300,
    "source": "kafka:ratings/0",
    "dry_run": True,
    "half_life": "7d",
    "filter": {"tag.genre": "western", "max.price": "20"},
    **{f"{name} filter": {"tag.country": "de", "min.visits": "10"} for name in ("list_users", "list_item_users")},
    "available": True,
    "cursor": "",
    "name": "home",
    "experiment": "summer",
    "key": KEY,
    "scenario": "home",
    "diversity": 0.3,
    "rotate": "6h",
    "below": 0,
    "above": 4,
    "hidden": True,
    "search": "Synthetic W",
    "with": "title",
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
        "what people see": {"item": ITEM, "title": "Synthetic Western", "url": "https://shop.example/western"},
    },
    "patch_items": {
        "one item": {"item": ITEM, "numbers": {"price": 7.99}},
        "several items": [{"item": ITEM, "numbers": {"price": 7.99}}, {"item": OTHER_ITEM, "tags": {"mood": None}}],
    },
    "patch_item": {
        "set a number, remove a tag": {"numbers": {"price": 7.99}, "tags": {"mood": None}},
    },
    "post_users": {
        "one user": {"user": USER, "tags": {"country": ["de"]}, "numbers": {"visits": 34}},
        "several users": [{"user": USER, "tags": {"country": ["de"]}}, {"user": "synthetic-viewer-0001", "tags": {}}],
    },
    "put_user": {"all attributes": {"tags": {"country": ["de"], "segment": ["trial"]}, "numbers": {"visits": 34}}},
    "patch_user": {"set a tag, remove a number": {"tags": {"segment": ["paying"]}, "numbers": {"visits": None}}},
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
    "make_key": {
        "a key that may read": {"name": "shop front", "scope": "read"},
        "a key that expires": {"name": "audit", "scope": "admin", "expires": "2030-01-01T00:00:00Z"},
        "a key for one data set": {"name": "import", "scope": "write", "data_sets": ["default"]},
    },
    "put_scenario": {
        "a filter": {"n": 20, "filter": {"tag": "genre", "in": ["western"]}},
        "rules": _rules,
    },
    "list_set_neighbors": {"several items": {"items": [ITEM, OTHER_ITEM], "n": 5}},
    "merge_user": {"an anonymous user": {"from": "synthetic-viewer-0002"}},
    "recommend_several": {
        "several users": {"users": [USER, "synthetic-viewer-0001"], "n": 5},
        "an anonymous user, by ratings that are not stored": {"ratings": [{"item": ITEM, "rating": 5}], "n": 5},
        "an anonymous user, by events": {"events": [{"item": ITEM, "type": "purchase"}], "n": 5},
    },
    "retrain": {
        "usual": {"algorithm": MODEL},
        "with parameters": {"algorithm": "culsh", "params": {"n_factors": 32}, "force": True},
        "a shadow under a name": {"algorithm": MODEL, "name": "home-b", "shadow": True},
    },
}

_scored = {"item": OTHER_ITEM, "score": 0.8713}
_reason = {"item": ITEM, "contribution": 0.4231}
_explained = {**_scored, "reasons": [_reason]}
_listed_user = {"user": USER, "tags": {"country": ["de"]}, "numbers": {"visits": 34.0}, "n_ratings": 17}
_by_model = {"model": MODEL, "model_version": VERSION, "as_of": POSITION}
_stored = {"item": ITEM, "rating": 4.5, "timestamp": 1700000000.0}
_summed = {"item": ITEM, "strength": 11.0, "timestamp": 1700000000.0}
_rated_by = {"user": USER, "rating": 4.5, "timestamp": 1700000000.0}
_item_rating = {"item": ITEM, "rating": 4.5}
_listed = {
    "item": ITEM,
    "tags": {"genre": ["western"]},
    "numbers": {"price": 9.99},
    "available": True,
    "published": None,
    "until": None,
    "title": "Synthetic Western",
    "url": None,
    "image": None,
    "hidden": False,
    "n_ratings": 17,
}
_key = {
    "id": KEY,
    "name": "shop front",
    "scope": "read",
    "data_sets": None,
    "created_ms": 1795232220635,
    "ends_with": "x7Qa",
    "expires": None,
    "last_used": "2026-11-21T03:37:17Z",
}
_entry = {
    "at": "2026-11-21T03:37:17.042Z",
    "action": "revoke_key",
    "outcome": "done",
    "via": "api",
    "status": 200,
    "object": f"key {KEY}",
    "key": "admin_key",
    "account": None,
    "address": "127.0.0.1",
    "request_id": "e4497f540c68-a",
    "data_set": "default",
    "left_out": 0,
}
_source = {"source": "kafka:ratings/0", "key": "write_key", "offset": 1300, "stream_id": "1795232220639-0"}
_trend = {
    "weight": 0.42,
    "half_life_days": 7.0,
    "n_pairs": 4352,
    "gain": 0.031,
    "interval": [0.019, 0.044],
    "remark": "",
}
_repeat = {
    "weight": 0.0,
    "half_life_days": 0.0,
    "share": 0.011,
    "n_pairs": 3414,
    "gain": 0.0,
    "interval": [0.0, 0.0],
    "remark": "users hardly choose again what they had",
}
_calibration = {
    "values": "ratings",
    "middle": 3.0,
    "scale": [1.0, 5.0],
    "is_damped": False,
    "typical": 0.6,
    "alpha": 12.5,
    "regularization": 0.02,
    "density": 0.0964,
    "unit": 1.0,
    "origin": 0.0,
    "prior": 1.0,
    "as_of_s": 0.0,
    "usual_weight": 1.0,
    "event_weight": 1.0,
    "event_scale": [1.0, 10.0],
    "event_damped": False,
    "event_typical": 1.4,
    "trend": _trend,
    "repeat": _repeat,
}
_job = {
    "id": JOB,
    "kind": "train",
    "state": "succeeded",
    "progress": 1.0,
    "phase": None,
    "metrics": _metrics,
    "algorithm": MODEL,
    "name": MODEL,
    "shadow": False,
    "params": {},
    "calibration": _calibration,
    "trials": [],
    "promoted": True,
    "version": VERSION,
    "backend": "host: there is no CUDA device",
    "reason": None,
    "error": None,
    "created_ms": 1795232220712,
    "schedule": None,
}
_model = {
    "version": VERSION,
    "algorithm": MODEL,
    "live": True,
    "metrics": _metrics,
    "watermark": POSITION,
    "parameters": {"n_factors": 64, "n_epochs": 15},
    "calibration": _calibration,
    "rating_scale": [1.0, 5.0],
    "revision": 0,
    "error": None,
    "name": MODEL,
    "shadow": False,
}
_result = {"n": 1000, "value": 0.612, "baseline": 0.431}
_point = {"as_of": POSITION, "model_version": VERSION, "n": 100, "value": 0.61, "baseline": 0.42}
_stats: dict[str, Any] = {
    "users": 150,
    "items": 60,
    "ratings": 2412,
    "events": 2,
    "hidden": 1,
    "deleted": 0,
    "log": {"segments": 3, "rows": 2418, "bytes": 61440, "last_id": POSITION},
    "stream": {"entries": 31, "bytes": 180224, "last_id": POSITION},
    "models": [
        {
            "model": MODEL,
            "model_version": VERSION,
            "age_s": 61.3,
            "ratings_since": 12,
            "refits_waiting": 0,
            "revision": 0,
        },
    ],
    "as_of": POSITION,
    "lag_s": 0.0,
    "uptime_s": 81.62,
    "version": "0.1.0",
    "quotas": [{"name": "ratings", "held": 2412, "quota": 1_000_000_000}],
}
_rejection = {"index": 1, "error": "Invalid rating: expected a number, got text"}
_fault = {"place": "query.n", "error": "expected 1 or more, got '0'"}


def problem_like(status: int, slug: str, title: str, detail: str, **members: Any) -> dict[str, Any]:
    """An example of a problem document."""
    kind = f"urn:nearfield:problem:{slug}"
    return {"type": kind, "title": title, "status": status, "detail": detail, "request_id": REQUEST_ID, **members}


PROBLEMS = {
    400: problem_like(400, "malformed-body", "Malformed body", "Invalid body: expected an object or an array, got str"),
    401: problem_like(
        401, "not-authorized", "Not authorized", "Invalid key: expected a key of this service, got another"
    ),
    403: problem_like(
        403, "forbidden", "Forbidden", "Invalid key: expected a key that may write, got one that may read"
    ),
    404: problem_like(404, "unknown-user", "Unknown user", f"user {USER!r} has no ratings"),
    410: problem_like(
        410, "gone", "Gone", f"the cursor's model {VERSION} is not live any more: begin again with `cursor=`"
    ),
    409: problem_like(
        409,
        "conflict",
        "Conflict",
        f"Invalid name of a shadow: expected one that does not answer, got {MODEL!r}; name it otherwise",
    ),
    413: problem_like(
        413, "body-too-large", "Body too large", "Invalid body: expected at most 1,048,576 bytes, got 2,000,000"
    ),
    414: problem_like(
        414, "url-too-long", "URL too long", "Invalid URL: expected a request line of at most 16,384 bytes"
    ),
    415: problem_like(
        415,
        "unsupported-media-type",
        "Unsupported media type",
        "Invalid Content-Type: expected application/json or application/x-ndjson, got text/plain",
    ),
    422: problem_like(
        422, "invalid-request", "Invalid request", f"Invalid {_fault['place']}: {_fault['error']}", errors=[_fault]
    ),
    429: problem_like(429, "too-many-requests", "Too many requests", "Over 50 requests per second; try again in 1 s"),
    500: problem_like(
        500, "internal-error", "Internal error", "The service failed; its log has the reason under this request_id."
    ),
    503: problem_like(503, "overloaded", "Overloaded", "1,024 requests are already waiting"),
    507: problem_like(
        507,
        "quota-exceeded",
        "Quota exceeded",
        "The data set holds 1,000,012 of at most 1,000,000 ratings: nothing was written; delete ratings or forget"
        " users, or raise the setting quota_ratings",
    ),
}

COMPONENTS: dict[str, Any] = {
    "AuditEntry": _entry,
    "AuditPage": {"entries": [_entry], "next": "2026-11-0001:1042"},
    "KeyBody": BODIES["make_key"]["a key that may read"],
    "KeyList": {"keys": [_key]},
    "ListedKey": _key,
    "ListedSource": _source,
    "RetractedEvent": {"stream_id": "1795232220645-0", "removed": True},
    "RemovedSource": {"stream_id": "1795232220645-0", "removed": [_source]},
    "SourceList": {"sources": [_source], "n_sources": 1, "as_of": "1795232220639-0"},
    "MadeKey": {**_key, "key": "nf_GkqJ2yRj6v0n5L8sT1uW4zB7cE9fH3iK_mN-pQrx7Qa", "note": None},
    "EndedModel": {"name": "home-b", "cancelled": ["5b1f0c3a9d27"]},
    "Job": _job,
    "JobList": {"jobs": [_job]},
    "ModelInfo": _model,
    "ModelList": {"models": [_model]},
    "QualityPoint": _point,
    "QualityReport": {
        "model": MODEL,
        "model_version": VERSION,
        "algorithm": MODEL,
        "measure": "hit_rate",
        "baseline": "popularity",
        "since": POSITION,
        "window": _result,
        "decayed": _result,
        "all": _result | {"n": 4210},
        "untested": {"new_user": 12, "new_item": 31, "repeated": 402, "no_like": 97},
        "curve": [_point],
        "as_of": POSITION,
    },
    "QualityResult": _result,
    "StoredCalibration": _calibration,
    "Trend": _trend,
    "Repeat": _repeat,
    "Retrain": BODIES["retrain"]["usual"],
    "Accepted": {"accepted": 1, "rejected": [_rejection], "stream_id": POSITION, "took_ms": 0.518},
    "Alive": {"status": "live"},
    "AnonymousBody": BODIES["recommend_several"]["an anonymous user, by ratings that are not stored"],
    "Boost": _boost,
    "DocumentDetails": {"name": "home", "body": {"n": 20}, "stream_id": POSITION, "as_of": POSITION},
    "Fault": _fault,
    "Filter": _boost["filter"],
    "Forgotten": {"stream_id": POSITION, "job": JOB, "note": "the rating log keeps one entry that names the user"},
    "ItemDetails": {**_listed, "embedding": None, "as_of": POSITION},
    "ItemList": {"items": [_listed], "next": "0123456789abcdef", "as_of": POSITION},
    "ListedDocument": {"name": "home", "stream_id": POSITION},
    "ListedItem": _listed,
    "ListedRating": {"user": USER, **_stored},
    "LogStats": _stats["log"],
    "ModelStats": _stats["models"][0],
    "ListedUser": _listed_user,
    "UserList": {"users": [_listed_user], "next": None, "as_of": POSITION},
    "UserDetails": {**_listed_user, "as_of": POSITION},
    "UserAttributes": BODIES["put_user"]["all attributes"],
    "PostedUser": BODIES["post_users"]["one user"],
    "MergeBody": BODIES["merge_user"]["an anonymous user"],
    "SetBody": BODIES["list_set_neighbors"]["several items"],
    "NeighborsOfSet": {"neighbors": [_scored], **_by_model, "warnings": []},
    "ItemPatch": BODIES["patch_item"]["set a number, remove a tag"],
    "ItemNeighbors": {"item": ITEM, "neighbors": [_scored], **_by_model},
    "ItemRating": _item_rating,
    "UsersOfItem": {"item": ITEM, "users": [{"user": USER, "score": 0.8713}], **_by_model, "warnings": []},
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
    "EventsOfItem": _summed,
    "EventsOfUser": {"user": USER, "n_items": 1, "events": [_summed], "as_of": POSITION},
    "ItemEvent": {"item": ITEM, "type": "purchase", "value": 1},
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
    "Quota": _stats["quotas"][0],
    "Stats": _stats,
    "StreamStats": _stats["stream"],
    "UserNeighbors": {
        "user": USER,
        "neighbors": [{"user": "synthetic-viewer-0126", "score": 0.846}],
        **_by_model,
    },
    "UsersBody": BODIES["recommend_several"]["several users"],
    "Written": {"stream_id": POSITION},
}
TEXTS = {  # of answers without a schema, by path
    "/metrics": "# HELP nearfield_ready 1 while ready.\n# TYPE nearfield_ready gauge\nnearfield_ready 1.0\n",
}


def add_examples(document: dict[str, Any]) -> None:
    """Give every schema, parameter, body and answer of an OpenAPI document its example."""
    for name, schema in document["components"]["schemas"].items():
        schema["examples"] = [COMPONENTS[name]]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                name = parameter["name"]
                value = PARAMETERS.get(f"{operation['operationId']} {name}", PARAMETERS.get(name))
                if parameter["required"]:
                    parameter["example"] = value
                else:
                    parameter["schema"]["examples"] = [value]
            if "requestBody" in operation:
                content, bodies = operation["requestBody"]["content"], BODIES[operation["operationId"]]
                content["application/json"]["examples"] = {name: {"value": value} for name, value in bodies.items()}
                if "application/x-ndjson" in content:
                    content["application/x-ndjson"]["examples"] = {
                        name: {"value": "".join(json.dumps(element) + "\n" for element in value)}
                        for name, value in bodies.items()
                        if isinstance(value, list)
                    }
            for status, answer in operation["responses"].items():
                for kind, content in answer.get("content", {}).items():
                    schema = content.get("schema")
                    if kind == PROBLEM:
                        content["example"] = PROBLEMS[int(status)]
                    else:
                        content["example"] = example_of(schema) if schema else TEXTS[path]


def example_of(schema: dict[str, Any]) -> Any:
    """The example of a reference, an array of references, or the first of several alternatives."""
    schema = schema.get("anyOf", [schema])[0]
    if schema.get("type") == "array":
        return [example_of(schema["items"])]
    return COMPONENTS[schema["$ref"].rpartition("/")[2]]
