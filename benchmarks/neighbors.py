"""What hashed neighbors are worth and cost: `python -m benchmarks accuracy`, `noise` and `neighbors` ([004]).

Models are trained once per seed. The seed determines the start, the order of samples, the hashes and the random
neighbors; the split of the data is always the same, a tenth held out.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args

import numpy as np
import typer

import gpu
from benchmarks import datasets, options
from benchmarks.options import Factors, Seeds, Source, Where
from benchmarks.results import Row, say
from benchmarks.timing import MIB, NAN, median_ms, peak_mib, timed
from gpu.algorithms import params_for, params_of
from gpu.als import host as als
from gpu.base.errors import InvalidInput
from gpu.data.param_kinds import with_changes
from gpu.descent.params import CulshParams, SgdParams
from gpu.hashing import similarity
from gpu.hashing.params import Psi, Similarity

WAYS = ("random", "gsm", "simlsh", "keys", "rp_cos", "minhash")
PSI = {"power": "r²", "residual": "r − b", "linear": "r", "fourth": "r⁴"}
SHARES = (0.01, 0.005, 0.001, 0.0005, 0.0001)  # of the training ratings, that are noise
# Of one search: seconds, what it leaves (lists, sums and signatures), its peak, and the share of drawn neighbors.
SEARCH = "neighbors_s", "kept_mib", "peak_mib", "filled_at_random"
NOISY = (SgdParams(n_factors=128), CulshParams(n_factors=32, n_neighbors=32))


def accuracy(
    ratings: Source,
    factors: Factors = "32,128",
    neighbors: Annotated[str, typer.Option(help="Comma-separated numbers of neighbors K.")] = "32",
    similarities: Annotated[str, typer.Option(help="Comma-separated ways to find them.")] = ",".join(WAYS),
    psi: Annotated[str, typer.Option(help="Comma-separated Ψ of simLSH.")] = ",".join(PSI),
    keys: Annotated[str, typer.Option(help="Keys of [004], p × G × q: comma-separated.")] = "3x8x100",
    seeds: Seeds = "0,1,2",
    folds: Annotated[int, typer.Option(help="Number of disjoint test sets on which to measure the defaults.")] = 0,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Test RMSE of CULSH-MF with each similarity ([004] table 7), its time and memory, of SGD alone, and of ALS."""
    where, ways = options.chosen(backend), list(_ways(similarities.split(","), psi.split(","), keys))
    for train, test in datasets.folds_of(ratings, folds) if folds else ():
        yield _accuracy(train, test, CulshParams(), (0,), where, CulshParams())
    if folds:
        return
    train, test = datasets.train_and_test(ratings)
    for n_factors in options.whole(factors):
        yield _accuracy(train, test, params_for("sgd", {"n_factors": n_factors}), options.whole(seeds), where)
        for n_neighbors in options.whole(neighbors):
            for way in ways:
                params = params_of(CulshParams, {"n_factors": n_factors, **way, "n_neighbors": n_neighbors})
                yield _accuracy(train, test, params, options.whole(seeds), where, params)
    yield _accuracy(train, test, params_for("als", {}), options.whole(seeds), where)


def _ways(names: Sequence[str], kinds: Sequence[str], keys: str) -> Iterator[dict[str, Any]]:
    """The parameters of each way to find neighbors: simLSH with each Ψ, and each of `keys`."""
    options.check(names, WAYS, "--similarities")
    options.check(kinds, PSI, "--psi")
    for name in names:
        if name == "keys":
            for key in keys.split(","):
                if len(sizes := options.whole(key.replace("x", ","))) != 3:
                    raise InvalidInput(f"Invalid keys: expected p x G x q, such as 3x8x100, got {key!r}")
                p, size, q = sizes
                yield {"similarity": name, "key_bits": p * size, "n_bits": p * size * q}
        else:
            yield from ({"similarity": name, "psi": psi} for psi in (kinds if name == "simlsh" else kinds[:1]))


def _accuracy(
    train: gpu.Ratings,
    test: gpu.Ratings,
    params: gpu.Params,
    seeds: Sequence[int],
    backend: gpu.Backend,
    hashed: CulshParams | None = None,
) -> Row:
    """Train a model once per seed, after a training of one epoch that compiles the kernels.

    Args:
        hashed: `params`, if they find neighbors.
    """
    say(f"training {params} ({backend.name})")
    gpu.fit(train, with_changes(params, n_epochs=1), backend=backend)
    settings = [with_changes(params, seed=seed) for seed in seeds]
    errors, seconds = zip(*(_fitted(train, test, setting, backend) for setting in settings), strict=True)
    found, name = [], "none"
    if hashed is not None:
        found = [_finding(train, dataclasses.replace(hashed, seed=seed), backend) for seed in seeds]
        of_keys = f", {hashed.key_bits} bits × {hashed.n_bits // hashed.key_bits}"
        name = hashed.similarity + {"simlsh": f", Ψ = {PSI[hashed.psi]}", "keys": of_keys}.get(hashed.similarity, "")
    row = {"algorithm": params.algorithm, "neighbors": name, **_size(params), "test_rmse": statistics.median(errors)}
    row |= {"rmse_by_seed": errors, "seconds": statistics.median(seconds)}
    figures = zip(*found, strict=True) if found else [(NAN,)] * len(SEARCH)
    return row | dict(zip(SEARCH, map(statistics.median, figures), strict=True))


def _size(params: gpu.Params) -> Row:
    return {"n_factors": params.width, "n_neighbors": params.n_neighbors}


def _fitted(train: gpu.Ratings, test: gpu.Ratings, params: gpu.Params, backend: gpu.Backend) -> tuple[float, float]:
    """(test RMSE, seconds) of one training."""
    model, seconds = timed(lambda: gpu.fit(train, params, backend=backend))
    return gpu.evaluate.rmse(model, train.by_user, *test.coo()), seconds


def _finding(train: gpu.Ratings, params: CulshParams, backend: gpu.Backend) -> tuple[float, float, float, float]:
    """`SEARCH`: finds the neighbors alone, once to measure memory and once to measure time."""
    peak = peak_mib(lambda: similarity.find(train, params, backend), backend)
    search = similarity.neighbors(train, params, backend)
    signature_bytes = search.projections.shape[1] // 8 * train.n_items
    kept = (search.neighbors.nbytes + search.projections.nbytes + signature_bytes) / MIB
    return search.seconds, kept, peak, search.filled


def noise(ratings: Source, seeds: Seeds = "0,1,2,3,4", backend: Where = "auto") -> Iterator[Row]:
    """Shift of the test RMSE of `sgd` and `culsh` if 1 % to 0.01 % of the training ratings are random ([004] table 8).

    The paper does not define its noise. Here a random share of the training ratings gets random values of the scale,
    all equally likely, so a rating may keep its value. The test part stays clean. The models with and without noise
    have the same seed.
    """
    (train, test), where = datasets.train_and_test(ratings), options.chosen(backend)
    for params in NOISY:
        settings = [dataclasses.replace(params, seed=seed) for seed in options.whole(seeds)]
        clean = [_fitted(train, test, setting, where)[0] for setting in settings]
        for share in SHARES:
            noisy = [_fitted(corrupted(train, share, one.seed), test, one, where)[0] for one in settings]
            shifts = tuple(after - before for before, after in zip(clean, noisy, strict=True))
            say(f"  {params.algorithm}, {share:.2%}: {statistics.median(shifts):+.5f}")
            yield {
                "algorithm": params.algorithm, **_size(params), "noise": share, "clean_rmse": statistics.median(clean),
                "shift": statistics.median(shifts), "shift_by_seed": shifts,
            }  # fmt: skip


def corrupted(ratings: gpu.Ratings, share: float, seed: int) -> gpu.Ratings:
    """The ratings with random values in a random `share` of them."""
    values, generator = ratings.coo()[2].copy(), np.random.default_rng(seed)
    drawn = generator.choice(len(values), round(share * len(values)), replace=False)
    values[drawn] = generator.choice(np.unique(values), len(drawn))
    return datasets.with_values(ratings, values)


def neighbors(
    ratings: Source,
    n_neighbors: Annotated[int, typer.Option(help="Number of neighbors K.")] = 32,
    n_bits: Annotated[int, typer.Option(help="Bits of a signature.")] = 2432,
    runs: Annotated[int, typer.Option(help="Runs to take the median of, after one that compiles.", min=1)] = 5,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Milliseconds to find the neighbors of all items, by simLSH and by each comparator, and their memory.

    At the start the ratings are in memory (of the device if it is used), by user and by item. A time ends when the
    device has finished.
    """
    data, where = datasets.ratings_of(ratings), options.chosen(backend)
    finish = where.twin(als.finish)
    for name in get_args(Similarity):
        for psi in get_args(Psi) if name == "simlsh" else ("",):
            params = CulshParams(n_neighbors=n_neighbors, n_bits=n_bits, similarity=name)
            find = functools.partial(
                similarity.find, data, dataclasses.replace(params, psi=psi) if psi else params, where
            )
            say(f"{name} {psi} of {len(data):,} ratings, {data.n_users:,} users, {data.n_items:,} items")
            row = {"similarity": name, "psi": psi, "n_bits": n_bits, "n_neighbors": n_neighbors}
            filled = find().filled
            peak = peak_mib(find, where) * MIB / 1e6 if where.name == "device" else NAN
            total_ms = median_ms(lambda find=find: (find(), finish()), runs, 1)  # type: ignore[misc]
            yield {**row, "total_ms": total_ms, "peak_megabytes": peak, "filled_at_random": filled}
