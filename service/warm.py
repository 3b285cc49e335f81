"""`python -m service.warm`: compile every kernel into Numba's cache before the first start, as the image does."""

from __future__ import annotations

import gpu
from service import catalogue, engine, resident

N_VIEWERS, N_ITEMS = 60, 40


def main() -> None:
    """Do once on a small synthetic catalogue, for every algorithm, what trainer and engine do all day."""
    engine.warm_up()
    drawn = catalogue.planted(0, N_VIEWERS, N_ITEMS)
    ratings = gpu.Ratings.from_coo(drawn.viewers, drawn.items, drawn.ratings, (N_VIEWERS, N_ITEMS))
    for algorithm, kind in gpu.ALGORITHMS.items():
        short = {"n_epochs": 1} if hasattr(kind, "n_epochs") else {}
        gpu.fit(ratings, gpu.params_for(algorithm, short), test=ratings, on_epoch=lambda _report: None)
        resident.warm_up(algorithm)


if __name__ == "__main__":
    main()
