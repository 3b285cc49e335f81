"""Each element of a body is judged alone, against the catalog and the elements before it."""

import json
import math
from typing import Any

import pytest

from service.api.errors import MalformedBody
from service.api.parsers.elements import Body, Intake, judged, read_elements
from service.api.parsers.item_parser import ItemJudge
from service.base.errors import InvalidRequest
from service.engine.queries.catalog_queries import CatalogNames
from service.storage.item_changes import ItemChange


def read(document: Any, names: CatalogNames | None = None) -> Intake[ItemChange]:
    judge = ItemJudge(names or CatalogNames({}, 10, None))
    return read_elements(Body(json.dumps(document).encode()), judge.put, 1000, "items")


def test_one_object_is_one_item():
    given = {"item": "i", "tags": {"genre": ["x"]}, "numbers": {"n": 3}, "until": None, "embedding": [1, 2.5]}
    assert read(given).accepted == [
        ItemChange("i", tags={"genre": ["x"]}, numbers={"n": 3.0}, until=None, embedding=[1.0, 2.5])
    ]


def test_times_may_be_dates():
    (change,) = read({"item": "i", "published": "2023-11-14T22:13:20Z", "until": "2030-01-01"}).accepted
    assert (change.published, change.until) == (1.7e9, 1893456000.0)


BAD: list[tuple[Any, str]] = [
    (7, "Invalid item object: expected an object, got a whole number"),
    ({}, "Invalid item object: expected a field item, got none"),
    ({"item": 7}, "Invalid item: expected text, got a whole number"),
    ({"item": "i", "op": "delete"}, "Invalid item object: expected no field op"),
    ({"item": "i", "price": 3}, "Invalid item object: expected no field price"),
    ({"item": "i", "tags": ["x"]}, "Invalid tags: expected an object, got a list"),
    ({"item": "i", "tags": {"genre": "x"}}, "Invalid tags.genre: expected a list, got text"),
    ({"item": "i", "tags": {"genre": [5]}}, "Invalid tags.genre: expected text, got a whole number - at $[0]"),
    ({"item": "i", "tags": {"genre": list("abc" * 9999)}}, "Invalid tags: expected at most 1,000 values in all, "),
    ({"item": "i", "numbers": {"price": "5"}}, "Invalid numbers.price: expected a number, got text"),
    ({"item": "i", "numbers": {"price": True}}, "Invalid numbers.price: expected a number, got true or false"),
    ({"item": "i", "numbers": {"price": math.nan}}, "Invalid numbers.price: expected a finite number"),
    ({"item": "i", "numbers": {"price": 10**400}}, "Invalid numbers.price: expected a number of usual size, got one"),
    ({"item": "i", "\ud800": 1}, "Invalid item object: expected text that UTF-8 can express, got a lone surrogate"),
    ({"item": "i", "available": "yes"}, "Invalid available: expected true or false, got text"),
    ({"item": "i", "until": 1700000000000}, "Invalid until: expected Unix seconds, got 1.7e+12; divide milliseconds"),
    ({"item": "i", "until": "soon"}, "Invalid until: expected Unix seconds, or a date or datetime such as"),
    ({"item": "i", "embedding": [1, "2"]}, "Invalid embedding[1]: expected a number, got text"),
    ({"item": "i", "embedding": [1, 2]}, "Invalid embedding: expected 3 numbers as of the other items, got 2"),
    (
        {"item": "i", "numbers": {"genre": 1}},
        "Invalid numbers.genre: expected a name of numbers, got one of tags: remove it from all items first, or take",
    ),
    ({"item": "i", "tags": {"a": ["x"]}, "numbers": {"a": 1}}, "Invalid numbers.a: expected a name of numbers, got"),
    (
        {"item": "i", "numbers": dict.fromkeys("abc", 1)},
        "Invalid names: expected at most 2 further ones of all items, got 3",
    ),
]


@pytest.mark.parametrize(("element", "reason"), BAD)
def test_a_bad_element_is_refused_with_the_reason_and_the_others_count(element: Any, reason: str):
    names = CatalogNames({"genre": "tag"}, 2, 3)
    taken = read([{"item": "a"}, element, {"item": "b"}], names)
    assert [change.item for change in taken.accepted] == ["a", "b"]
    assert [rejection.index for rejection in taken.rejected] == [1]
    assert taken.rejected[0].error.startswith(reason)


def test_elements_agree_with_those_before_them():
    taken = read(
        [
            {"item": "a", "embedding": [1, 2], "tags": {"x": ["y"]}},
            {"item": "b", "embedding": [1]},
            {"item": "c", "numbers": {"x": 1}},
        ]
    )
    assert [rejection.index for rejection in taken.rejected] == [1, 2]


def test_a_single_bad_item_and_a_long_array_are_errors():
    with pytest.raises(InvalidRequest, match="Invalid item: expected text"):
        read({"item": 7})
    with pytest.raises(InvalidRequest, match="expected at most 1,000 items, got 1,001"):
        read([{"item": "i"}] * 1001)
    with pytest.raises(MalformedBody):
        read("x")


def test_a_patch_has_no_item():
    judge = ItemJudge(CatalogNames({}, 10, None))
    assert judged({"numbers": {"n": None}}, lambda given: judge.patch("i", given)) == ItemChange(
        "i", numbers={"n": None}, op="patch"
    )
    with pytest.raises(InvalidRequest, match="Invalid item object: expected no field item"):
        judged({"item": "i"}, lambda given: judge.patch("i", given))
