"""The OpenAPI document promises what it promised at an earlier commit, except for what was changed on purpose.

`earlier.json.gz` is the document of 881300a without titles, descriptions and the values of examples.
"""

import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.service.api.openapi.facts import facts
from tests.service.api.openapi.test_openapi import document_with

EARLIER = Path(__file__).parent / "earlier.json.gz"
# What differs on purpose: pattern of places -> reason.
MEANT: Mapping[str, str] = {
    r"(get|delete) /admin/sources\b.*": "new routes: how far queues have come",
    r"post /admin/sources/\{source\}/undo .*": "new route: a source is taken back",
    r"(get|post|delete) /admin/webhooks\b.*\.events\b.*": "webhooks are told when a source is taken back",
    r"post /(ratings|events|items) 202 .*\.skipped: .*": "batches with a source say what was skipped",
    r"get /admin/audit .*": "new route: the audit log",
    r".* 507\b.*": "writes beyond a quota",
    r"get /admin/stats 200 .*\.quotas\b.*": "quotas of a data set",
    r"get /admin/stats 200 .*\.revision: .*": "whether a model has been loaded again since a user was forgotten",
    r"get /admin/users/\{user\}/export .*": "new route: the export of one user",
    r"patch /items .*": "new route: patches of many items",
    r".* /admin/.*\bcalibration\.event_\w+( .*)?: .*": "how events count beside ratings",
    r".* security": "a key may come as a bearer token",
    r".* /admin/keys\b.*\.(expires|last_used)( .*)?: .*": "keys may expire, and tell their last use",
    r".* /admin/.*\bcalibration\.(chosen|n_factors)\b.*": "trainings choose the number of factors",
    r"(post|get|delete) /admin/.* 20\d .*\bphase: .*": "jobs tell what they do",
    r"get /admin/schedules .*": "new route: what is due at set times",
    r"(post|get|delete) /admin/.* 20\d .*\bschedule( \(\w+\))?: .*": "jobs tell which schedule has submitted them",
    r".* application/problem\+json\.job: .*": "trainings queue, and none is refused because of another one",
    r".* /admin/.*\bcalibration\.(trend|repeat)\b.*": "trainings weigh what is popular now, and what users have again",
    r".*\.(trend|again): .*": "scores tell what is popular now, and what users have again",
    r".* (query |.*\.)repeat: .*": "lists may have again what a user had",
    r".*\bseen_types\b.*": "lists may leave out some types of events alone",
    r".*\bfallback: (default|values)": "a fallback may be chosen by the service",
    r"post /admin/retrain .*\.algorithm: values": "new algorithms",
    r"get /users/\{user\}/events .*": "new route: what the events of a user add up to",
    r"delete /users/\{user\}/events/.*": "new route: an event is taken back",
    r"(put|patch|get|delete) /users/\{user\} .*": "new routes: attributes of a user",
    r"get /items/\{item\}/users .*": "new route: the users for an item",
    r"put /admin/experiments/\{experiment\} body .*\.filter\b.*": "only some users may take part",
    r"get /admin/experiments/\{experiment\} 200 .*\.filter\b.*": "an experiment tells who takes part",
    r"post /users .*": "new route: attributes of several users",
    r"post /admin/lists body .*": "lists in files take the body of POST /recommend",
    r"get /users (query filter|200 .*\.(tags|numbers))\b.*": "users are found by attributes, and listed with them",
    r"post /recommend.*\bevents\b.*": "events that are not stored",
    r"post /recommend body .*\bratings\b.*": "a session may have events in place of ratings",
    r".*\.(title|url|image)( \(string\))?: .*": "items have titles and addresses",
    r"get /items query search( \(string\))?: .*": "items are found by their titles",
    r".* (query |.*\.)with: .*": "lists show titles",
    r"get /health/ready 200 .*\.left_out.*": "readiness names versions that cannot be loaded",
}
MAX_SHOWN = 60


def test_the_document_promises_what_it_promised(tmp_path):
    was = facts(json.loads(gzip.decompress(EARLIER.read_bytes())))
    now = facts(document_with(tmp_path, api_key="key-of-every-client"))
    changed = sorted(place for place in was.keys() | now.keys() if was.get(place) != now.get(place))
    wrong = [
        f"{place}: expected {was.get(place, 'nothing')}, got {now.get(place, 'nothing')}"
        for place in changed
        if not any(re.fullmatch(pattern, place) for pattern in MEANT)
    ]
    assert not wrong, f"{len(wrong)} promises differ:\n" + "\n".join(wrong[:MAX_SHOWN])
    for pattern in MEANT:
        assert any(re.fullmatch(pattern, place) for place in changed), f"nothing differs at {pattern}"


def of(schema, **components):
    content = {"application/json": {"schema": schema}}
    answer = {"200": {"description": "d", "content": content}}
    operation = {"operationId": "get", "responses": answer}
    return facts({"paths": {"/x": {"get": operation}}, "components": {"schemas": components}})


def test_facts_do_not_depend_on_how_a_schema_is_written():
    number = {"type": ["number", "null"], "minimum": 1.0, "title": "T", "description": "d"}
    other = {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/Any"}]}
    assert of(number) == of(other, Any={"type": "number", "minimum": 1})
    one = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"const": 1}}, "required": ["a"]}
    two = {"type": "object", "required": ["a"], "properties": {"b": {"enum": [1]}, "a": {"type": "string"}}}
    assert of(one) == of(two)


def test_facts_see_each_bound_name_type_and_default():
    base: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"type": "integer", "maximum": 5, "default": 1}},
        "required": ["a"],
    }
    assert "get /x 200 application/json.a: default" in of(base)
    inner = base["properties"]["a"]
    for changed in (
        base | {"required": []},
        base | {"additionalProperties": False},
        base | {"properties": {"b": inner}},
        *(base | {"properties": {"a": inner | part}} for part in ({"maximum": 6}, {"default": 2}, {"type": "number"})),
        base | {"properties": {"a": inner | {"enum": [1, 2]}}},
    ):
        assert of(changed) != of(base), changed


def test_facts_of_a_schema_that_contains_itself_end():
    node = {"type": "object", "properties": {"child": {"$ref": "#/components/schemas/Node"}}}
    assert of({"$ref": "#/components/schemas/Node"}, Node=node)["get /x 200 application/json.child: again"] == [1]
