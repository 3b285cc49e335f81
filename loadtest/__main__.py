"""Command: `python -m loadtest`, or `make loadtest ARGS="--ratings FILE --workloads mixed,retrain"`.

For every workload it searches for the highest rate at which the service keeps up, then measures for longer at half that
rate. With `--rates` it measures the given rates instead. It writes `result.json`, `report.md` and a picture per
workload.

`--data DIR` serves an existing folder, such as one of `python -m benchmarks plant`; `--workloads feed` reads while
`--ratings-per-s` ratings per second come in, in batches of 100.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import uvloop

from loadtest import report
from loadtest.client import Client
from loadtest.crowd import Crowd
from loadtest.private import key_of, running_service
from loadtest.stalls import Stalls
from loadtest.steps import FIRST_PER_S, KEEPS_UP_MS, RETRAIN, Steps
from loadtest.workload import FEED, WRITES_OF, Population, write_synthetic

MODEL = "als-implicit"
SAMPLE = "ratings.csv"  # the file that `python -m benchmarks plant` writes into its folder
DEFAULTS = [workload for workload in WRITES_OF if workload != FEED]
OK = 200
SEARCH_SHARE = 0.2  # a step of the search takes this share of `--seconds`


def main() -> None:
    """Measure and write the report."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="nearfield-loadtest-") as folder:
        ratings = _ratings(options, Path(folder))
        population = Population.of_file(ratings)
        gc.freeze()  # as in `loadtest.crowd`
        own = running_service(ratings, options.model, options.data, options.drivers)
        with contextlib.nullcontext(options.url) if options.url else own as url:
            workloads = uvloop.run(_measured(url, population, options))
    arguments = {name: str(value) for name, value in vars(options).items()}
    written = report.write(options.out, arguments, report.environment(), workloads)
    print("\n".join(f"wrote {path}" for path in written))


def _ratings(options: argparse.Namespace, folder: Path) -> Path:
    """The file with the users and items of the requests."""
    if options.ratings is not None:
        ratings: Path = options.ratings
        return ratings
    if options.data is not None:
        return Path(options.data) / SAMPLE
    write_synthetic(folder / SAMPLE)
    return folder / SAMPLE


async def _measured(url: str, population: Population, options: argparse.Namespace) -> dict[str, Any]:
    """The results by workload."""
    key = key_of(os.environ)
    client = Client(url, key)
    await _reach(client, url)
    results: dict[str, Any] = {}
    stalls = Stalls()
    crowd = Crowd(options.drivers, url, key, population.halves[0]) if options.drivers > 1 else None
    for workload in options.workloads:
        how = options.ratings_per_s, crowd, options.read_ms, options.first, stalls
        steps = Steps(client, population, workload, options.model, options.seed, *how)
        maximum_per_s = results.get("mixed", {}).get("maximum_per_s") if workload == RETRAIN else None
        results[workload] = await _workload(steps, options, maximum_per_s)
    stalls.close()
    if crowd is not None:
        crowd.close()
    await client.close()
    return results


async def _reach(client: Client, url: str) -> None:
    """Send one request, so that a wrong address or key ends the run at once."""
    answer = await client.get("/popular?n=1")
    if answer.status != OK:
        reply = answer.body.decode(errors="replace") if answer.status else "no answer"
        raise SystemExit(f"loadtest: expected a ready service at {url}, got {reply}")


async def _workload(steps: Steps, options: argparse.Namespace, maximum_per_s: float | None) -> dict[str, Any]:
    """Steps at the given rates; or the search, unless the maximum is given, and a step at half the maximum."""
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
    parser.add_argument("--url", help="service to measure; default: start and train a private one")
    parser.add_argument("--data", type=_there, help="folder that the private service serves, instead of training")
    parser.add_argument(
        "--ratings", type=_there, help=f"CSV with the users and items of the requests; default: {SAMPLE} of DATA"
    )
    parser.add_argument("--workloads", type=_workloads, default=DEFAULTS, help=f"of {','.join(WRITES_OF)}")
    parser.add_argument("--rates", type=_rates, default=[], help="requests per second, one step each; default: search")
    parser.add_argument("--seconds", type=_positive, default=20.0, help="length of a step; a fifth of it in the search")
    parser.add_argument("--first", type=_positive, default=FIRST_PER_S, help="rate at which the search begins")
    parser.add_argument(
        "--read-ms",
        type=_positive,
        default=KEEPS_UP_MS,
        help="highest p99 of reads of a service that keeps up",
    )
    parser.add_argument(
        "--ratings-per-s", type=_positive, default=10_000.0, help="ratings that come in during reads, in `feed`"
    )
    parser.add_argument("--drivers", type=_count, default=1, help="processes that send requests, each on its own core")
    parser.add_argument("--model", default=MODEL, help="algorithm to train and to request")
    parser.add_argument("--seed", type=int, default=0, help="seed of arrivals; each step adds its number")
    parser.add_argument("--out", type=Path, default=Path("loadtest-results"), help="folder for the report")
    return parser.parse_args()


def _rates(text: str) -> list[float]:
    return [_positive(rate) for rate in text.split(",")]


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text}")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {text}")
    return number


def _there(text: str) -> Path:
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"expected a path that exists, got {text}")
    return path


def _workloads(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - WRITES_OF.keys():
        raise argparse.ArgumentTypeError(f"expected some of {','.join(WRITES_OF)}, got {','.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    main()
