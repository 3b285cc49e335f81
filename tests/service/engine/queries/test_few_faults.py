"""A refused request costs little: few faults are listed, and long lists are refused before their elements are read."""

import json
import time
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from service.api.list_requests import AnonymousBody, RecommendBody, UsersBody
from service.api.parsers.elements import MAX_VALUES, check_values
from service.api.requests import NoParameters
from service.engine.queries.few_faults import LEFT_OUT, MAX_FAULTS
from service.engine.queries.forms import MAX_ITEMS
from tests.service.local import Local, serving

MOST_BYTES = 4096  # of an answer that refuses
MOST_S = 0.5  # of processor time; one fault an element took 6 s


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("faults") / "data", worker=False) as local:
        yield local


def faults_of(kind, given):
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(given)
    return caught.value.errors()


def test_the_first_faults_are_listed_with_their_positions_and_the_others_counted():
    given = ["good", ""] * 50
    faults = faults_of(RecommendBody, {"candidates": given})
    listed = [fault for fault in faults if fault["type"] != LEFT_OUT]
    assert [fault["loc"] for fault in listed] == [("candidates", 2 * n + 1) for n in range(MAX_FAULTS)]
    assert [fault["ctx"]["n_more"] for fault in faults if fault["type"] == LEFT_OUT] == [50 - MAX_FAULTS]


def test_few_faults_are_all_listed():
    assert [fault["loc"] for fault in faults_of(RecommendBody, {"exclude": ["", "a", 5]})] == [
        ("exclude", 0),
        ("exclude", 2),
    ]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (RecommendBody, {"candidates": [""] * (MAX_ITEMS + 1)}),
        (RecommendBody, {"exclude": [""] * (MAX_ITEMS + 1)}),
        (UsersBody, {"users": [""] * 1001}),
        (AnonymousBody, {"ratings": [""] * 1001}),
    ],
)
def test_a_long_list_is_refused_before_its_elements_are_judged(kind, given):
    assert [fault["type"] for fault in faults_of(kind, given)] == ["too_long"]


def test_lists_of_the_longest_length_are_taken():
    ids = [str(n) for n in range(MAX_ITEMS)]
    assert RecommendBody.model_validate({"candidates": ids, "exclude": ids}).query(user="u").candidates == ids


@pytest.mark.parametrize("kind", [RecommendBody, NoParameters])
def test_many_unknown_names_are_one_fault(kind):
    faults = faults_of(kind, {f"name-{n}": 1 for n in range(1000)})
    assert len(faults) == 1
    assert "got 1000 names" in faults[0]["msg"]


def test_many_unknown_names_in_each_of_many_elements_are_few_faults():
    faults = faults_of(AnonymousBody, {"ratings": [{f"name-{n}": 1 for n in range(100)}] * 1000})
    assert len(faults) == MAX_FAULTS + 1


def wide(n_names: int) -> str:
    return json.dumps({f"name-{n}": 1 for n in range(n_names)})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/recommend/ann", '{"candidates":[' + ",".join(['""'] * 40_000) + "]}"),
        ("/recommend", '{"users":["ann"],"exclude":[' + ",".join(["1"] * 40_000) + "]}"),
        ("/recommend", '{"ratings":[' + ",".join([wide(40)] * 1000) + "]}"),
        ("/recommend/ann", wide(40_000)),
        ("/recommend/ann", '{"' + "x" * 1_000_000 + '": 1}'),
        ("/admin/retrain", wide(40_000)),
    ],
)
def test_a_refused_body_costs_little(local: Local, path: str, body: str) -> None:
    started = time.process_time()
    answer = local.request("POST", path, content=body, headers={"content-type": "application/json"})
    assert time.process_time() - started < MOST_S
    assert answer.status_code == 422
    assert len(answer.content) < MOST_BYTES
    assert len(answer.json()["errors"]) <= MAX_FAULTS


@pytest.mark.parametrize("value", ["1", '""', "[]", "{}", "[[[]]]", '"\\"a"'])
def test_a_document_of_too_many_values_is_refused_before_it_is_parsed(local: Local, value: str) -> None:
    body = '{"candidates":[' + ",".join([value] * (MAX_VALUES + 1)) + "]}"
    answer = local.request("POST", "/recommend/ann", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:nearfield:problem:body-too-large")


@pytest.mark.parametrize("text", [",", "[{", '\\",', "\\\\\\\\", "é,"])
def test_what_is_in_texts_is_no_value(text: str) -> None:
    check_values(('{"id": "' + text * MAX_VALUES + '", "n": [1, 2]}').encode())


def test_an_answer_counts_the_faults_that_it_does_not_tell(local: Local) -> None:
    answer = local.post("/recommend", {"users": ["ann"], "candidates": [""] * 100, "exclude": [""] * 3}).json()
    assert len(answer["errors"]) == MAX_FAULTS
    assert answer["errors_left_out"] >= 93
    assert answer["detail"].endswith("more")


def test_many_parameters_of_a_query_are_few_faults(local: Local) -> None:
    answer = local.get("/popular?" + "&".join(f"{n}=" for n in range(2000)))
    assert answer.status_code == 422
    assert len(answer.content) < MOST_BYTES
