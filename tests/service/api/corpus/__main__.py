"""Records the corpus: `python -m tests.service.api.corpus --record` keeps the present answers as the expected ones.

Without options it prints what differs from the kept ones. `--add FILE` asks further requests after those of the corpus
and keeps all answers: a request is a line of JSON as in the corpus (`gzip -dc corpus.jsonl.gz`), without an answer.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.service.api.corpus import kept
from tests.service.api.corpus.answers import differences
from tests.service.api.corpus.service import replayed, seeded
from tests.service.api.corpus.wire import Request


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--record", action="store_true")
    options.add_argument("--add", type=Path)
    given = options.parse_args()
    asked = [request for request, _ in kept.read()]
    if given.add:
        asked += [Request.of(json.loads(line)) for line in given.add.read_text("utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder, seeded(Path(folder) / "data") as url:
        started = time.monotonic()
        answered = list(replayed(url, asked))
        sys.stderr.write(f"{len(answered):,} requests in {time.monotonic() - started:.1f} s\n")
    if given.record or given.add:
        kept.write(answered)
    else:
        for (request, expected), (_, answer) in zip(kept.read(), answered, strict=True):
            for line in differences(expected, answer):
                sys.stdout.write(f"{request.name}\n    {line}\n")


if __name__ == "__main__":
    main()
