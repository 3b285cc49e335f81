"""Refusals in plain words: no types of Python, no jargon of a library."""

import msgspec
import pytest
from pydantic import ValidationError

from service.api.list_requests import AnonymousBody, RecommendQuery, UsersBody
from service.api.routes.admin import Retrain
from service.base.validation import in_words, reason_of
from service.storage.events import RatingEvent


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (RecommendQuery, {"n": 0}, "expected 1 or more, got 0"),
        (RecommendQuery, {"n": "ten"}, "expected a whole number, got 'ten'"),
        (RecommendQuery, {"n": 1.5}, "expected a whole number, got 1.5"),
        (RecommendQuery, {"offset": 10**10}, "expected at most 1000000000, got 10000000000"),
        (RecommendQuery, {"explain": "perhaps"}, "expected true or false, got 'perhaps'"),
        (RecommendQuery, {"fallback": "x"}, "expected 'auto', 'popular', 'trending', 'latest' or 'none', got 'x'"),
        (RecommendQuery, {"m": "5"}, "expected no such name"),
        (UsersBody, {}, "expected a value, got none"),
        (UsersBody, {"users": []}, "expected a list of 1 or more, got 0"),
        (UsersBody, {"users": "ann"}, "expected a list, got 'ann'"),
        (UsersBody, {"users": [5]}, "expected text, got 5"),
        (UsersBody, {"users": ["u"] * 1001}, "expected at most 1,000 elements, got 1,001"),
        (Retrain, {"algorithm": "sgd", "params": dict.fromkeys(map(str, range(65)))}, "at most 64 elements, got more"),
        (AnonymousBody, {"ratings": ["x"]}, "expected an object, got 'x'"),
        (Retrain, {"algorithm": "sgd", "params": []}, "expected an object"),
    ],
)
def test_messages_of_pydantic(kind, given, message):
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(given)
    reason = reason_of(caught.value.errors()[0])
    assert message in reason
    assert "Input" not in reason


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"user": "u", "item": "i", "rating": "5"}, "expected a number, got text"),
        ({"user": 5, "item": "i", "rating": 5}, "expected text, got a whole number"),
        ({"user": "u", "item": "", "rating": 5}, "expected text of at least 1 character"),
        ({"user": "u", "item": "i", "rating": [5]}, "expected a number, got a list"),
        ({"user": "u", "item": "i"}, "expected a field rating, got none"),
        ({"user": "u", "item": "i", "rating": 5, "stars": 5}, "expected no field stars"),
        (["u", "i", 5], "expected an object, got a list"),
    ],
)
def test_messages_of_msgspec(given, message):
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, RatingEvent)
    assert in_words(str(caught.value).partition(" - at")[0]) == message
