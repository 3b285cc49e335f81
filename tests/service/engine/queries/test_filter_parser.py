import math
from typing import Any

import pytest
from pydantic import ValidationError

from service.api.list_requests import PopularQuery, RecommendBody, RecommendQuery
from service.engine.queries.filter_parser import EXAMPLE, MAX_DEPTH, MAX_TERMS, tree_of
from service.engine.queries.filter_tree import AllOf, AnyOf, HasTag, InRange, Not, text_of

GENRE: dict[str, Any] = {"tag": "genre", "in": ["x"]}


def test_a_tree_in_a_body():
    assert tree_of(EXAMPLE) == AllOf((HasTag("genre", ("western", "noir")), Not(InRange("price", 20.0))))
    assert tree_of({"any": [GENRE, {"number": "n", "min": 1, "max": 2}]}) == AnyOf(
        (HasTag("genre", ("x",)), InRange("n", 1.0, 2.0))
    )


def test_parameters_and_a_body_have_one_text():
    tree = {"all": [{"number": "price", "max": 20}, {"number": "price", "min": 5}, {"tag": "a.b", "in": ["y", "x"]}]}
    query = RecommendQuery.model_validate({"n": "3", "tag.a.b": ["x", "y"], "min.price": "5", "max.price": "20"})
    body = RecommendBody.model_validate({"n": 3, "filter": tree})
    assert query.query(user="u").filter == body.query(user="u").filter == text_of(tree_of(tree))
    assert PopularQuery.model_validate({"tag.a.b": "x"}).query().filter == text_of(HasTag("a.b", ("x",)))
    assert RecommendQuery.model_validate({}).query().filter is None


def deep(depth: int) -> dict[str, Any]:
    tree = GENRE
    for _ in range(depth - 1):
        tree = {"not": tree}
    return tree


def wide(n_terms: int) -> dict[str, Any]:
    return {"any": [{"number": "n", "min": n} for n in range(n_terms - 1)] + [GENRE]}


def test_filters_are_bounded():
    tree_of(deep(MAX_DEPTH))
    tree_of(wide(MAX_TERMS))


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (deep(100), "expected at most 16 conditions inside each other, got more"),
        (wide(1000), "expected at most 256 values and ranges, got more"),
        ({"tag": "genre", "in": list(map(str, range(1000)))}, "expected at most 256 values and ranges, got more"),
        ([GENRE], "expected an object, got list"),
        ({}, "expected one of all, any, not, tag with in, number with min or max, got nothing"),
        ({"all": []}, "expected a list of conditions as all, got an empty one"),
        ({"all": [GENRE], "any": [GENRE]}, "expected one of all, .*, got all, any"),
        ({"all": GENRE}, "expected a list of conditions as all, got dict"),
        ({"all": [GENRE, 5]}, "expected an object, got 5"),
        ({"tag": "genre"}, "expected in together with tag, got tag alone"),
        ({"tag": "genre", "in": []}, "expected a list of texts as in, got an empty one"),
        ({"tag": "genre", "in": "x"}, "expected a list of texts as in, got 'x'"),
        ({"tag": "genre", "in": [5]}, "expected texts in a tag, got 5"),
        ({"tag": "genre", "in": [""]}, "expected texts of 1 to 256 bytes in a tag, got another"),
        ({"tag": "genre", "in": ["x"], "min": 1}, "expected one of all, .*, got tag, in, min"),
        ({"number": "n"}, "expected min or max together with number, got number alone"),
        ({"tag": 5, "in": ["x"]}, "expected the name of a tag, got 5"),
        ({"tag": "\ud800", "in": ["x"]}, r"expected the name of a tag that UTF-8 can express, got \\ud800"),
        ({"\ud800": 1}, r"expected one of all, .*, got \\ud800"),
        ({"number": "n", "min": "5"}, "expected a finite number as bound, got '5'"),
        ({"number": "n", "min": True}, "expected a finite number as bound, got True"),
        ({"number": "n", "min": math.nan}, "expected a finite number as bound, got nan"),
        ({"number": "n", "max": 1e39}, "expected a finite number as bound, got 1e\\+39"),
        ({"number": "n", "max": 10**400}, "expected a finite number as bound, got 1000"),
    ],
)
def test_other_trees_are_refused(tree: Any, reason: str):
    with pytest.raises(ValueError, match=reason):
        tree_of(tree)


@pytest.mark.parametrize(
    ("given", "place", "reason"),
    [
        ({"min.price": "x"}, "min.price", "expected a number, got 'x'"),
        ({"min.price": "nan"}, "min.price", "expected a number, got 'nan'"),
        ({"min.price": ["1", "2"]}, "min.price", "expected one number, got 2"),
        ({"tag.genre": ""}, "tag.genre", "expected texts of 1 to 256 bytes in a tag, got another"),
        ({"tag.genre": list(map(str, range(1000)))}, "tag.genre", "expected at most 256 values of filters, got more"),
        ({"filter": "{}"}, "filter", "Extra inputs are not permitted"),
        ({"tags.genre": "x"}, "tags.genre", "Extra inputs are not permitted"),
    ],
)
def test_other_parameters_are_refused(given: dict[str, Any], place: str, reason: str):
    with pytest.raises(ValidationError) as raised:
        RecommendQuery.model_validate(given)
    (fault,) = raised.value.errors()
    assert (".".join(map(str, fault["loc"])), fault["msg"]) == (place, reason)
