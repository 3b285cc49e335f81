"""The kept files: the corpus with its expected answers, those of an earlier commit, and why some differ from them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.service.api.corpus.wire import Request

FOLDER = Path(__file__).parent
CORPUS, EARLIER, REASONS = FOLDER / "corpus.jsonl.gz", FOLDER / "earlier.jsonl.gz", FOLDER / "reasons.json"
Answered = tuple[Request, dict[str, Any]]


class Reasons(NamedTuple):
    """Why answers differ from those of the earlier commit.

    Attributes:
        commit: the earlier one.
        kinds: reason by kind.
        requests: kind by name of a request; each of these is answered otherwise than before.
    """

    commit: str
    kinds: dict[str, str]
    requests: dict[str, str]


def read() -> list[Answered]:
    """Each request with the answer that is expected."""
    return [(Request.of(kept), kept["answer"]) for kept in _lines(CORPUS)]


def earlier() -> dict[str, dict[str, Any]]:
    """The answers of the earlier commit, by name of the request."""
    return {kept["name"]: kept["answer"] for kept in _lines(EARLIER)}


def reasons() -> Reasons:
    """Why they differ."""
    return Reasons(**json.loads(REASONS.read_text("utf-8")))


def write(answered: Iterable[Answered]) -> None:
    """Keep the answers as the expected ones."""
    _write(CORPUS, (request.record() | {"answer": answer} for request, answer in answered))


def write_earlier(answered: Iterable[Answered]) -> None:
    """Keep the answers as those of the earlier commit."""
    _write(EARLIER, ({"name": request.name, "answer": answer} for request, answer in answered))


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    return map(json.loads, gzip.decompress(path.read_bytes()).decode().splitlines())


def _write(path: Path, documents: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(document, sort_keys=True) + "\n" for document in documents)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
