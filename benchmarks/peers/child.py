"""One fit of one peer: `python -m benchmarks.peers.child FOLDER`, in an interpreter that has the library.

It reads `request.json` (name, settings) and `problem.npz` (a `Problem`) from FOLDER, and writes `answer.npz` (arrays)
and `answer.json` (seconds, version) there. Exit status 3: the library is not installed.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.peers import Problem, peers

NOT_INSTALLED = 3


def main(folder: Path) -> int:
    """Fit the peer and write its results; returns the exit status."""
    request = json.loads((folder / "request.json").read_text("utf-8"))
    peer = peers()[request["name"]]
    with np.load(folder / "problem.npz") as file:
        arrays = {name: file[name] for name in Problem._fields}
    n_users, n_items = arrays.pop("shape").tolist()
    try:
        seconds, results = peer.fit(Problem(**arrays, shape=(n_users, n_items)), request["settings"])
    except ModuleNotFoundError as error:
        print(f"{peer.package} is not installed for {sys.executable}: {error}", file=sys.stderr)
        return NOT_INSTALLED
    np.savez(folder / "answer.npz", **results)  # type: ignore[arg-type] # no array is called allow_pickle
    answer = {"seconds": seconds, "version": importlib.metadata.version(peer.package)}
    (folder / "answer.json").write_text(json.dumps(answer), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
