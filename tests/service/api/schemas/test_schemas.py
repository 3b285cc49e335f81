"""What requests may say, and that defaults are those of the engine's queries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from service.api.schemas.common_schemas import Retrain
from service.api.schemas.list_schemas import AnonymousBody, Page, RecommendBody, RecommendQuery, UsersBody
from service.engine.queries import Popular, Recommend
from service.storage.events import StreamId


def test_an_empty_query_asks_what_the_engine_would_by_default():
    assert RecommendQuery().query(user="u") == Recommend(user="u", exclude=[])
    assert Page().n == Popular().n


def test_every_filter_reaches_the_engine():
    body = RecommendBody(
        n=5, offset=2, exclude=["a"], candidates=["b"], include_seen=True, min_ratings=7, model="sgd", explain=True,
        fallback="none",
    )  # fmt: skip
    assert body.query(user="u") == Recommend(
        user="u",
        n=5,
        offset=2,
        exclude=["a"],
        candidates=["b"],
        include_seen=True,
        min_ratings=7,
        model="sgd",
        explain=True,
        fallback="none",
    )


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
