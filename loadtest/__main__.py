"""Command: `python -m loadtest`, or `make loadtest ARGS="--ratings FILE --workloads mixed,retrain"`.

For every workload it looks for the highest rate at which the service keeps up, then measures for longer at half of it
(with `--rates` it measures those instead), and writes `result.json`, `report.md` and a picture a workload.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import uvloop

from loadtest import report
from loadtest.client import Client
from loadtest.private import running_service
from loadtest.steps import RETRAIN, Steps
from loadtest.workload import WRITES_OF, Population, write_synthetic

MODEL = "als-implicit"
SEARCH_SHARE = 0.2  # of the seconds of a step, for each step of the search


def main() -> None:
    """Measure and write the report."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="nearfield-loadtest-") as folder:
        ratings = options.ratings or Path(folder) / "synthetic.csv"
        if options.ratings is None:
            write_synthetic(ratings)
        service = contextlib.nullcontext(options.url) if options.url else running_service(ratings, options.model)
        with service as url:
            workloads = uvloop.run(_measured(url, Population.of_file(ratings), options))
    arguments = {name: str(value) for name, value in vars(options).items()}
    written = report.write(options.out, arguments, report.environment(), workloads)
    print("\n".join(f"wrote {path}" for path in written))


async def _measured(url: str, population: Population, options: argparse.Namespace) -> dict[str, Any]:
    """The result of each workload by name."""
    client = Client(url, os.environ.get("NEARFIELD_ADMIN_KEY") or os.environ.get("NEARFIELD_API_KEY"))
    results: dict[str, Any] = {}
    for workload in options.workloads:
        steps = Steps(client, population, workload, options.model, options.seed)
        known = results.get("mixed", {}).get("maximum_per_s") if workload == RETRAIN else None
        results[workload] = await _workload(steps, options, known)
    await client.close()
    return results


async def _workload(steps: Steps, options: argparse.Namespace, maximum_per_s: float | None) -> dict[str, Any]:
    """Steps at the asked rates, or the search and a step at half the maximum; trainings run beside half of mixed."""
    if options.rates:
        return {"steps": [await steps.step(rate, options.seconds, n) for n, rate in enumerate(options.rates)]}
    search: list[dict[str, Any]] = []
    if maximum_per_s is None:
        maximum_per_s, search = await steps.maximum(SEARCH_SHARE * options.seconds)
    half = await steps.step(max(maximum_per_s / 2, 1.0), options.seconds, len(search))
    return {"maximum_per_s": round(maximum_per_s, 1), "steps": search, "half": half}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="loadtest", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="service to measure; without it a private one is started and trained")
    parser.add_argument("--ratings", type=Path, help="CSV whose users and items are asked for; default: synthetic")
    parser.add_argument("--workloads", type=_workloads, default=list(WRITES_OF), help=f"of {','.join(WRITES_OF)}")
    parser.add_argument("--rates", type=_rates, default=[], help="requests a second, a step each; default: search")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a step; a fifth of it while searching")
    parser.add_argument("--model", default=MODEL, help="algorithm that is trained and asked")
    parser.add_argument("--seed", type=int, default=0, help="of arrivals; every step has one of its own")
    parser.add_argument("--out", type=Path, default=Path("loadtest-results"), help="folder for the report")
    return parser.parse_args()


def _rates(text: str) -> list[float]:
    return [float(rate) for rate in text.split(",")]


def _workloads(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - WRITES_OF.keys():
        raise argparse.ArgumentTypeError(f"expected some of {','.join(WRITES_OF)}, got {','.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    main()
