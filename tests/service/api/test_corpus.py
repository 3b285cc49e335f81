"""Twelve hundred requests, good, bad and odd ones, get the answers that are kept beside them.

`python -m tests.service.api.corpus --record` keeps the present answers; the commit that does so says why some differ.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.service.api.corpus import kept, requests
from tests.service.api.corpus.answers import differences
from tests.service.api.corpus.service import replayed, seeded

# What is answered otherwise than kept on purpose, until it is recorded: name of the request -> reason.
MEANT: Mapping[str, str] = {}
MAX_SHOWN = 40


def test_every_request_gets_the_answer_that_is_kept(tmp_path):
    corpus = kept.read()
    with seeded(tmp_path / "data") as url:
        answered = list(replayed(url, [request for request, _ in corpus]))
    changed = {
        request.name: (request, lines)
        for (request, expected), (_, answer) in zip(corpus, answered, strict=True)
        if (lines := list(differences(expected, answer)))
    }
    assert changed.keys() >= MEANT.keys(), f"answered as kept, so not to be listed: {MEANT.keys() - changed.keys()}"
    wrong = [told(*found) for name, found in changed.items() if name not in MEANT]
    assert not wrong, f"{len(wrong)} answers differ from the kept ones:\n" + "\n".join(wrong[:MAX_SHOWN])


def told(request, lines):
    body = "" if request.body is None else f" {request.body[:300]!r}"
    return "\n    ".join((f"{request.name}\n    {request.method} {request.target[:200]}{body}", *lines[:6]))


def test_the_requests_are_those_that_the_seed_draws():
    def told_apart(request):  # a body that is packed has other bytes by another version of zlib
        is_packed = any(name == "Content-Encoding" for name, _ in request.headers)
        return request._replace(body=None) if is_packed else request

    kept_ones = [request for request, _ in kept.read()]
    assert list(map(told_apart, kept_ones)) == list(map(told_apart, requests.drawn()))


def test_differences_name_the_place_and_both_values():
    was = {"status": 422, "body": {"errors": [{"error": "expected a"}], "n": 1.0}}
    now = {"status": 422, "body": {"errors": [{"error": "expected b"}], "n": 1.0000001, "more": None}}
    assert list(differences(was, now)) == [
        'body.errors[0].error: expected "expected a", got "expected b"',
        'body.more: expected "<absent>", got null',
    ]
    assert list(differences({"a": True}, {"a": 1})) == ["a: expected true, got 1"]
    assert list(differences([1], [1, 2])) == [": expected [1], got [1, 2]"]
