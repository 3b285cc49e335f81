"""What requests may say, and that the engine gets it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from service.api.list_requests import AnonymousBody, PopularQuery, RecommendBody, RecommendQuery, UsersBody
from service.api.routes.admin import Retrain
from service.engine.queries import Popular, Recommend
from service.engine.queries.forms import MAX_EXPLORE_BELOW
from service.storage.events import StreamId


def test_an_empty_query_asks_what_the_engine_would_by_default():
    assert RecommendQuery().query(user="u") == Recommend(user="u")
    assert PopularQuery().query() == Popular()


def test_every_field_reaches_the_engine():
    fields: dict[str, Any] = {
        "n": 5, "offset": 2, "exclude": ["a"], "candidates": ["b"], "include_seen": True, "min_ratings": 7,
        "model": "sgd", "explain": True, "fallback": "none",
    }  # fmt: skip
    assert RecommendBody.model_validate(fields).query(user="u") == Recommend(user="u", **fields)


def test_a_field_of_a_request_counts_before_that_of_a_scenario_also_if_it_is_the_default():
    asked = RecommendQuery.model_validate({"n": "10"})
    assert asked.query({"n": 20, "offset": 3}) == Recommend(n=10, offset=3)


def test_forms_of_clients_become_values_of_the_engine():
    rules = {
        "boosts": [{"filter": {"tag": "genre", "in": ["noir"]}, "add": 1}], "pins": [{"item": "a", "at": 2}],
        "max_per": {"tag": "genre", "n": 3}, "rotate": "6h",
    }  # fmt: skip
    query = RecommendBody.model_validate(rules).query()
    assert query.boosts == (('["tag","genre",["noir"]]', 1.0),)
    assert (query.pins, query.max_per, query.rotate) == ((("a", 2),), ("genre", 3), (21600.0, 1.0))
    assert RecommendQuery.model_validate({"rotate": "6h"}).query().rotate == query.rotate


def test_a_query_describes_each_field_that_a_request_takes():
    """The bound and the description are those of the query, and the default is too."""
    schema = RecommendQuery.model_json_schema()["properties"]
    assert schema["n"]["minimum"] == 1
    assert schema["explore_below"]["maximum"] == MAX_EXPLORE_BELOW
    assert {name: one["default"] for name, one in schema.items() if name in ("n", "fallback")} == {
        "n": Recommend().n,
        "fallback": Recommend().fallback,
    }


@pytest.mark.parametrize(
    "given_",
    [
        {"n": 0},
        {"n": "ten"},
        {"min_ratings": -1},
        {"min_ratings": "1.5"},
        {"offset": -1},
        {"offset": 10**10},
        {"exclude": [""]},
        {"surprise": 1},
        {"wait_for": "x"},
    ],
)
def test_bad_parameters_are_refused(given_):
    with pytest.raises(ValidationError):
        RecommendQuery.model_validate(given_)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_positions_are_two_numbers(ms, seq):
    assert RecommendQuery(wait_for=f"{ms}-{seq}").position == StreamId(ms, seq)


def test_a_body_is_for_users_or_for_nobody():
    with pytest.raises(ValidationError):
        UsersBody.model_validate({"users": []})
    with pytest.raises(ValidationError):
        AnonymousBody.model_validate({"ratings": [{"item": "x", "rating": "5", "when": 1}]})


def test_only_known_algorithms_are_trained():
    assert Retrain(algorithm="culsh").activate
    with pytest.raises(ValidationError):
        Retrain.model_validate({"algorithm": "magic"})
