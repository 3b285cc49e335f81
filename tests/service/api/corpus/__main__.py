"""Records the corpus: `python -m tests.service.api.corpus --record` keeps the present answers as the expected ones.

Without options it prints what differs from the kept ones.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.service.api.corpus import kept, requests
from tests.service.api.corpus.answers import differences
from tests.service.api.corpus.service import replayed, seeded


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--record", action="store_true")
    given = options.parse_args()
    asked = requests.drawn() if given.record else [request for request, _ in kept.read()]
    with tempfile.TemporaryDirectory() as folder, seeded(Path(folder) / "data") as url:
        started = time.monotonic()
        answered = list(replayed(url, asked))
        sys.stderr.write(f"{len(answered):,} requests in {time.monotonic() - started:.1f} s\n")
    if given.record:
        kept.write(answered)
    else:
        for (request, expected), (_, answer) in zip(kept.read(), answered, strict=True):
            for line in differences(expected, answer):
                sys.stdout.write(f"{request.name}\n    {line}\n")


if __name__ == "__main__":
    main()
