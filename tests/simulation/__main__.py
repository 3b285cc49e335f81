"""`python -m tests.simulation SEED …`: run the worlds of these seeds again, and print what happened in each.

`--worlds 0:100000 --processes 64` runs many, and prints which of them break a promise, how many they are, and the rate.
"""

import argparse
import os
import sys
import time

from tests.simulation.run import Simulation, run_worlds


def tell(seed: int) -> bool:
    """Print what happens in a world; whether a promise is broken."""
    simulation = Simulation(seed)
    promises = simulation.run()
    state = "broken" if promises else "kept"
    lines = [f"seed {seed}", *simulation.cluster.lines, f"seed {seed}: promises {state}", *promises]
    sys.stdout.write("\n  ".join(lines) + "\n")
    return bool(promises)


def count(seeds: range, n_processes: int) -> bool:
    """Print which worlds break a promise; whether any does."""
    began_s, n_acknowledged, n_broken = time.monotonic(), 0, 0
    for failures, n in run_worlds(seeds, n_processes):
        n_acknowledged += n
        n_broken += len(failures)
        for seed, promises in failures.items():
            sys.stdout.write(f"python -m tests.simulation {seed}: {'; '.join(promises)}\n")
            sys.stdout.flush()
    took_s = time.monotonic() - began_s
    sys.stdout.write(
        f"{len(seeds):,} worlds, {n_acknowledged:,} entries acknowledged, {n_broken:,} worlds broke a promise\n"
        f"{took_s:.0f} s in {n_processes} processes: {len(seeds) / took_s / n_processes:.1f} worlds a second in each\n"
    )
    return n_broken > 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Run worlds.")
    parser.add_argument("seeds", nargs="*", type=int, metavar="SEED", help="of a world, to print what happens in it")
    parser.add_argument(
        "--worlds", default="0:0", metavar="FIRST:END", help="seeds of worlds, to count what they break"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="in which they run")
    arguments = parser.parse_args()
    is_broken = [tell(seed) for seed in arguments.seeds]
    if worlds := range(*map(int, arguments.worlds.split(":"))):
        is_broken.append(count(worlds, arguments.processes))
    return int(any(is_broken))


if __name__ == "__main__":
    sys.exit(main())
