"""Command: `python -m loadtest --workload mixed --rates 50,100,200 --seconds 20`, or `make loadtest ARGS="…"`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

import uvloop

from loadtest import freshness, report
from loadtest.client import Client
from loadtest.driver import drive
from loadtest.private import running_service, synthetic_ratings
from loadtest.workload import WRITES_OF, Population, arrivals

FRESHNESS = "freshness"
RATES = [50.0, 100.0, 200.0, 400.0]


def main() -> None:
    """Measure, then write `<out>/<workload>.json` and a picture beside it."""
    options = _options()
    ratings = options.ratings or synthetic_ratings()
    service = contextlib.nullcontext(options.url) if options.url else running_service(ratings)
    with service as url:
        result = {
            "workload": options.workload,
            "arguments": {name: str(value) for name, value in vars(options).items()},
            "environment": report.environment(),
            "steps": uvloop.run(_steps(url, Population.of_file(ratings), options)),
        }
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.workload}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"wrote {path}")
    if options.workload != FRESHNESS:
        report.plot(result, path.with_suffix(".png"))
        print(f"wrote {path.with_suffix('.png')}")


async def _steps(url: str, population: Population, options: argparse.Namespace) -> list[dict[str, Any]]:
    steps = []
    client = Client(url, os.environ.get("NEARFIELD_API_KEY"))
    for number, rate_per_s in enumerate(options.rates):
        step = await _step(client, population, options, rate_per_s, options.seed + number)
        print(json.dumps(step))
        steps.append(step)
        await asyncio.sleep(options.pause)
    await client.close()
    return steps


async def _step(
    client: Client, population: Population, options: argparse.Namespace, rate_per_s: float, seed: int
) -> dict[str, Any]:
    if options.workload == FRESHNESS:
        return await freshness.measure(client, population, rate_per_s, rate_per_s, options.seconds, seed)
    schedule = arrivals(population, options.workload, rate_per_s, options.seconds, seed)
    records, seconds = await drive(client, schedule)
    kinds = {kind: record.summary(seconds) for kind, record in sorted(records.items())}
    return {"rate_per_s": rate_per_s, "seconds": round(seconds, 2), "kinds": kinds}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="loadtest", description=__doc__)
    parser.add_argument("--url", help="service to measure; without it a private one is started and trained")
    parser.add_argument("--ratings", type=Path, help="CSV whose users and items are asked for; default: synthetic")
    parser.add_argument("--workload", choices=[*WRITES_OF, FRESHNESS], default="mixed")
    parser.add_argument(
        "--rates", type=_rates, default=[50.0, 100.0, 200.0, 400.0], help="requests a second, a step each"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a step")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("loadtest-results"), help="folder for JSON and picture")
    return parser.parse_args()


def _rates(text: str) -> list[float]:
    return [float(rate) for rate in text.split(",")]


if __name__ == "__main__":
    main()
