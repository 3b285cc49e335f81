"""Records the corpus: `python -m tests.service.api.corpus --record` keeps the present answers as the expected ones.

Without options it prints what differs from the kept ones. `--earlier DIR` asks the service of the checkout of an
earlier commit instead, and keeps its answers for comparison. `reasons.json` says why some differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.service.api.corpus import kept, requests
from tests.service.api.corpus.answers import differences
from tests.service.api.corpus.service import ROOT, replayed, seeded


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--record", action="store_true")
    options.add_argument("--earlier", type=Path)
    given = options.parse_args()
    asked = requests.drawn() if given.record or given.earlier else [request for request, _ in kept.read()]
    with tempfile.TemporaryDirectory() as folder, seeded(Path(folder) / "data", given.earlier or ROOT) as url:
        started = time.monotonic()
        answered = list(replayed(url, asked))
        sys.stderr.write(f"{len(answered):,} requests in {time.monotonic() - started:.1f} s\n")
    if given.earlier:
        kept.write_earlier(answered)
    elif given.record:
        kept.write(answered)
    else:
        for (request, expected), (_, answer) in zip(kept.read(), answered, strict=True):
            for line in differences(expected, answer):
                sys.stdout.write(f"{request.name}\n    {line}\n")


if __name__ == "__main__":
    main()
