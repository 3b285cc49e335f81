"""The kept file: the corpus with its expected answers."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.service.api.corpus.wire import Request

CORPUS = Path(__file__).parent / "corpus.jsonl.gz"
Answered = tuple[Request, dict[str, Any]]


def read() -> list[Answered]:
    """Each request with the answer that is expected."""
    lines = gzip.decompress(CORPUS.read_bytes()).decode().splitlines()
    return [(Request.of(kept), kept["answer"]) for kept in map(json.loads, lines)]


def write(answered: Iterable[Answered]) -> None:
    """Keep the answers as the expected ones."""
    documents = (request.record() | {"answer": answer} for request, answer in answered)
    text = "".join(json.dumps(document, sort_keys=True) + "\n" for document in documents)
    CORPUS.write_bytes(gzip.compress(text.encode(), mtime=0))
