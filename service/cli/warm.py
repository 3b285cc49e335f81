"""`python -m service.cli.warm`: compile every kernel into Numba's cache before the first start, as the image does.

`python -m service.cli.warm TURN BACKEND ALGORITHM …`: one of several processes that compile the kernels of these models
on the host or a device (`service.engine.compilation`). It prints the name of each kernel that it has compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

import gpu
from gpu.backend import HOST, Backend
from gpu.host.jit import compilation
from gpu.host.jit.kernel_cache import take_turns
from service.base import tuning
from service.cli import synthetic
from service.engine.rehearsal import rehearse_answers, rehearse_history, rehearse_learning, rehearse_model
from service.engine.stand_in import STAND_IN

N_VIEWERS, N_ITEMS = 60, 40


def main(arguments: Sequence[str]) -> None:
    """Compile the kernels of the given algorithms, or of all without arguments."""
    tuning.configure()
    if arguments:
        take_turns()
        with compilation.watched(partial(print, flush=True)):
            rehearse(int(arguments[0]), HOST if arguments[1] == HOST.name else STAND_IN, arguments[2:])
    else:
        compile_all()


def compile_all() -> None:
    """Run the operations of trainer and engine once for every algorithm, on a small synthetic catalog."""
    rehearse_history()
    catalog = synthetic.planted(0, N_VIEWERS, N_ITEMS)
    ratings = gpu.Ratings.from_coo(catalog.viewers, catalog.items, catalog.ratings, (N_VIEWERS, N_ITEMS))
    for algorithm, entry in gpu.ALGORITHMS.items():
        short = {"n_epochs": 1} if hasattr(entry.params, "n_epochs") else {}
        gpu.fit(ratings, gpu.params_for(algorithm, short), test=ratings, on_epoch=lambda _report: None)
        rehearse_model(algorithm)


def rehearse(turn: int, backend: Backend, algorithms: Sequence[str]) -> None:
    """Rehearse all algorithms, starting at a position that depends on `turn`, so that each process compiles a part."""
    acts: list[Callable[[], None]] = []
    for algorithm in algorithms:
        acts += [partial(rehearse_answers, algorithm, backend), partial(rehearse_learning, algorithm, backend)]
    first = turn // 2 * 2 % len(acts)
    acts = acts[first:] + acts[:first]
    for act in acts if turn % 2 == 0 else reversed(acts):
        act()


if __name__ == "__main__":
    main(sys.argv[1:])
