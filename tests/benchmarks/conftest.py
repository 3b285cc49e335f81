"""A small folder of sets, small planted ratings, and the folder of raw arrays that `python -m benchmarks als` reads."""

import json

import numpy as np
import pytest

import gpu
from tests.data import planted

N_USERS, N_ITEMS = 40, 25


@pytest.fixture(scope="session")
def ratings():
    return planted(n_users=80, n_items=40, per_user=15)


@pytest.fixture(scope="session")
def data(tmp_path_factory, ratings):
    """Sets as `benchmarks.datasets` expects them: ratings of 1 to 5, and pairs without values."""
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


def drawn(seed, density):
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((N_USERS, N_ITEMS)) < density)
    return gpu.Ratings.from_coo(users, items, rng.integers(1, 6, len(users)).astype(float), (N_USERS, N_ITEMS))


@pytest.fixture
def train():
    return drawn(0, 0.4)


@pytest.fixture
def held_out():
    return drawn(1, 0.1)


@pytest.fixture
def folder(tmp_path, train, held_out):
    """Written as the description of the layout says."""
    for name, rows in (("csc", train.by_user), ("csr", train.by_item)):
        bounds = np.append(rows.starts, len(train)).astype(np.int32)
        for part, array in (("indptr", bounds), ("indices", rows.items), ("data", rows.values)):
            array.tofile(tmp_path / f"R_train_{name}.{part}.bin")
    users, items, values = held_out.coo()
    for part, array in (("row", items), ("col", users), ("data", values)):
        array.tofile(tmp_path / f"R_test_coo.{part}.bin")
    meta = {"m_users": N_USERS, "n_items": N_ITEMS, "nnz_train": len(train), "nnz_test": len(values)}
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    return tmp_path
