"""Small planted ratings, and the folder of raw arrays that `nearfield bench als` reads."""

import json

import numpy as np
import pytest

import gpu

N_USERS, N_ITEMS = 40, 25


def planted(seed, density):
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((N_USERS, N_ITEMS)) < density)
    return gpu.Ratings.from_coo(users, items, rng.integers(1, 6, len(users)).astype(float), (N_USERS, N_ITEMS))


@pytest.fixture
def train():
    return planted(0, 0.4)


@pytest.fixture
def held_out():
    return planted(1, 0.1)


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
