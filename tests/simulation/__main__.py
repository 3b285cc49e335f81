"""`python -m tests.simulation SEED …`: run the worlds of these seeds again, and print what happened in each."""

import sys

from tests.simulation.run import Simulation


def main() -> int:
    broken = False
    for seed in map(int, sys.argv[1:]):
        simulation = Simulation(seed)
        promises = simulation.run()
        state = "broken" if promises else "kept"
        lines = [f"seed {seed}", *simulation.cluster.lines, f"seed {seed}: promises {state}", *promises]
        sys.stdout.write("\n  ".join(lines) + "\n")
        broken = broken or bool(promises)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
