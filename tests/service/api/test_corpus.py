"""Twelve hundred requests, good, bad and odd ones, get the answers that are kept beside them.

`python -m tests.service.api.corpus --record` keeps the present answers; the commit that does so says why some differ.
"""

from tests.service.api.corpus import kept
from tests.service.api.corpus.answers import differences
from tests.service.api.corpus.service import replayed, seeded

MAX_SHOWN = 40


def test_every_request_gets_the_answer_that_is_kept(tmp_path):
    corpus = kept.read()
    with seeded(tmp_path / "data") as url:
        answered = list(replayed(url, [request for request, _ in corpus]))
    wrong = [
        told(request, lines)
        for (request, expected), (_, answer) in zip(corpus, answered, strict=True)
        if (lines := list(differences(expected, answer)))
    ]
    assert not wrong, f"{len(wrong)} answers differ from the kept ones:\n" + "\n".join(wrong[:MAX_SHOWN])


def told(request, lines):
    body = "" if request.body is None else f" {request.body[:300]!r}"
    return "\n    ".join((f"{request.name}\n    {request.method} {request.target[:200]}{body}", *lines[:6]))


def test_differences_name_the_place_and_both_values():
    was = {"status": 422, "body": {"errors": [{"error": "expected a"}], "n": 1.0}}
    now = {"status": 422, "body": {"errors": [{"error": "expected b"}], "n": 1.0000001, "more": None}}
    assert list(differences(was, now)) == [
        'body.errors[0].error: expected "expected a", got "expected b"',
        'body.more: expected "<absent>", got null',
    ]
    assert list(differences({"a": True}, {"a": 1})) == ["a: expected true, got 1"]
    assert list(differences([1], [1, 2])) == [": expected [1], got [1, 2]"]
