"""A small folder of sets, laid out as `benchmarks.datasets` expects it."""

import numpy as np
import pytest

from tests.data import planted


@pytest.fixture(scope="session")
def ratings():
    return planted(n_users=80, n_items=40, per_user=15)


@pytest.fixture(scope="session")
def data(tmp_path_factory, ratings):
    """Ratings of 1 to 5, and pairs without values."""
    folder = tmp_path_factory.mktemp("data")
    users, items, values = ratings.coo()
    order = np.random.default_rng(1).permutation(len(users))
    triples = list(zip(users[order].tolist(), items[order].tolist(), values[order].tolist(), strict=True))
    write(folder / "ml-100k" / "u.data", (f"u{u}\ti{i}\t{v:.1f}\t0" for u, i, v in triples))
    write(folder / "ml-1m" / "ratings.csv", ["user,item,rating", *(f"{u},{i},{v:.1f}" for u, i, v in triples)])
    write(folder / "yelp2018" / "pairs.csv", ["user,item", *(f"u{u},i{i}" for u, i, _ in triples)])
    return folder


def write(path, lines):
    path.parent.mkdir()
    path.write_text("\n".join(lines) + "\n", "utf-8")
