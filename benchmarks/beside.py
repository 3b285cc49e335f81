"""`python -m benchmarks beside`: what a training costs the reads of the service that runs it, in turns.

A private service gets a synthetic model and history, and answers reads in an open loop, as in `loadtest`. Where there
are several GPUs, trainings take another one than the service. A turn beside a training begins once its first epoch has
ended; the training is cancelled afterward, so that nothing goes live.
"""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from benchmarks.options import Algorithm, Parameters, parameters
from benchmarks.plant import SAMPLE, planted
from benchmarks.results import Row, say
from benchmarks.running import BenchFailed, on_cores, serving
from gpu.algorithms import params_for
from loadtest.client import Client as Connections
from loadtest.driver import Driven, percentiles_ms, send
from loadtest.private import cores
from loadtest.workload import Plan, Population
from service.cli.client import ENDS, Client

N_EPOCHS = 10_000  # the most that a training may have
EPOCH = re.compile(r"epoch (\d+) of (\d+)")
LOOK_S = 0.05  # seconds between two looks at a training that has not come to its epochs
PERCENTILES = ("p50", "p99", "p99.9")


def beside(
    algorithm: Algorithm = "als-implicit",
    n_users: Annotated[int, typer.Option(help="Synthetic users.", min=1)] = 200_000,
    n_items: Annotated[int, typer.Option(help="Synthetic items.", min=1)] = 1_000_000,
    n_ratings: Annotated[int, typer.Option(help="Synthetic ratings.", min=1)] = 5_000_000,
    rate: Annotated[float, typer.Option(help="Reads per second.", min=1)] = 1000.0,
    seconds: Annotated[float, typer.Option(help="Seconds of a turn.", min=0.1)] = 10.0,
    rounds: Annotated[int, typer.Option(help="Turns without a training, and as many beside one.", min=1)] = 3,
    set_: Parameters = None,
) -> Iterator[Row]:
    """Milliseconds of reads without and beside a training, medians over turns that follow each other in pairs.

    `times_p99` is the second p99 in times of the first. `epochs_per_s` tells how fast the training was meanwhile, and
    `trained_on` where it was. `errors` are reads without a good answer, in all turns. The command fails if a training
    has no epoch left before its turn ends.
    """
    own, others = cores(1)
    given = {"n_factors": "64", **parameters(set_)}
    turns: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        data = Path(folder)
        planted(data, params_for(algorithm, given), n_users, n_items, n_ratings)
        population, trained_on, n_errors, speeds = Population.of_file(data / SAMPLE), "", 0, list[float]()

        def read(seconds_: float, seed: int) -> Driven:
            return uvloop.run(_reads(client.address, population, Plan("read", rate, seconds_, seed)))

        with on_cores(others), serving(data, own) as (client, _):
            read(seconds / 2, 0)  # the first requests fill caches
            for number in range(1, 2 * rounds + 1):
                is_beside = number % 2 == 0
                if is_beside:
                    job = client.start_training(algorithm, {**given, "n_epochs": N_EPOCHS})
                    first, began = _epoch(client, job["id"]), time.perf_counter()
                    driven = read(seconds, number)
                    speeds.append((_epoch(client, job["id"]) - first) / (time.perf_counter() - began))
                    client.request("DELETE", f"/admin/jobs/{job['id']}")
                    trained_on = client.ended_job(job["id"])["backend"]
                else:
                    driven = read(seconds, number)
                record = driven.records["read"]
                n_errors += len(driven.late_s) - len(record.latencies_s)
                turns[is_beside].append(percentiles_ms(record.latencies_s))
                say(f"{'beside a training' if is_beside else 'without a training'}: {turns[is_beside][-1]}")
    row: Row = {"algorithm": algorithm, "rounds": rounds, "errors": n_errors}
    for is_beside, name in ((False, "without"), (True, "beside")):
        row |= {f"{p}_{name}": statistics.median(turn[p] for turn in turns[is_beside]) for p in PERCENTILES}
    times = row["p99_beside"] / row["p99_without"]
    yield row | {"times_p99": times, "epochs_per_s": statistics.median(speeds), "trained_on": trained_on}


def _epoch(client: Client, job_id: str) -> int:
    """The epoch in which a training is, from the second on; waits until it has come so far.

    Raises:
        BenchFailed: it has ended, or all its epochs are done.
    """
    while True:
        job: dict[str, Any] = client.job(job_id)
        of_phase = EPOCH.fullmatch(job["phase"] or "")
        n, last = map(int, of_phase.groups()) if of_phase else (0, N_EPOCHS)
        if job["state"] in ENDS or n == N_EPOCHS:
            raise BenchFailed(
                f"Invalid training: expected epochs during the whole turn, got {job}; take fewer --seconds"
            )
        if n > 1 and last == N_EPOCHS:
            return n
        time.sleep(LOOK_S)


async def _reads(url: str, population: Population, plan: Plan) -> Driven:
    connections = Connections(url)
    driven = await send(connections, population, plan)
    await connections.close()
    return driven
