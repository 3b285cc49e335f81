"""Large trainings: `python -m benchmarks out-of-core`, `distributed` and `reductions`.

Ranks are processes of this machine with a device each. Ratings that do not fit are loaded in batches.
"""

from __future__ import annotations

import functools
import gc
import importlib
import math
import multiprocessing
import os
import secrets
import socket
import statistics
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import typer
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, make_ratings, options
from benchmarks.options import Algorithm, Factors, Parameters, Where
from benchmarks.results import Row, say
from benchmarks.timeline import SOLVE, Marks, OfRank, Spans, Watched, rows_of, watched
from benchmarks.timing import NAN, timed
from gpu.algorithms import params_for, trainer_of
from gpu.als import host as als
from gpu.als.halves import Modes
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.trainer import AlsTrainer
from gpu.base.errors import EngineError, InvalidInput, NotEnoughMemory, RankLost
from gpu.data import draws
from gpu.data.calibration import calibrate, in_units
from gpu.data.param_kinds import Params, with_changes
from gpu.ranks import ring as host
from gpu.ranks.choice import exchange_on
from gpu.ranks.exchange import ALONE, Exchange
from gpu.training import loop
from service.extras.ranks import partition_store
from service.extras.ranks.rank_process import trusts_links

GB = 1e9  # bytes
RATING_BYTES = 8
ITEM_BYTES = 32  # of a work item: one for each row, or part of a row
COPIED_ENTRIES, COPIED_ITEMS = 1 << 20, 64  # that one thread copies at a time
TIMEOUT_S = 600.0  # seconds for a rank to read its ratings
ERRORS = ("test_rmse", "train_rmse", "train_loss", "relative_error")  # the first that a training has is its error
TOGETHER_S = 2e-3  # seconds from rank 0's message to the moment at which all ranks begin; it takes less
N_MARKED = 9  # epochs with marks
N_TIMED, N_GROUPS, LOOPBACK = 10, 2, "127.0.0.1"  # of `reductions`: times that each way is timed; groups of two phases
Work = Callable[[Exchange, gpu.Backend], Any]  # what each rank does; must be picklable
Reduce = Callable[[Any], Any]  # adds up sums in place


def out_of_core(
    memories: Annotated[str, typer.Option("--memory", help="Comma-separated GB; 0: no bound.")] = "0,8",
    copies: Annotated[int, typer.Option(help="Copies of each user.", min=1)] = 10,
    ratings: Annotated[Path | None, typer.Option(help="Folder of raw arrays; default: Netflix's shape.")] = None,
    algorithm: Algorithm = "als",
    factors: Factors = "100",
    epochs: Annotated[int, typer.Option(help="Epochs; the median leaves the first out.", min=2)] = 6,
    set_: Parameters = None,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Milliseconds of an epoch of ALS with ratings in memory, and in batches that are loaded within a bound.

    `batches` are those of items and users. `moved_gb` is what an epoch loads, and `floor_ms` the time that this takes
    at the rate of a pinned copy, `link_gb_s`. `times` is the epoch in times of the larger of the floor and of the epoch
    without bound. `peak_gb` is what all processes take of the device at the end. Equal `digest` mean equal tables.
    """
    where, params = options.chosen(backend), params_for(algorithm, {**options.parameters(set_), "n_epochs": epochs})
    assert isinstance(params, AlsParams | AlsImplicitParams)  # noqa: S101 - what the command offers
    with TemporaryDirectory(prefix="nearfield-") as home:
        _, seconds = timed(lambda: _store(ratings, copies, params, Path(home)))
        say(f"stored after {seconds:.0f} s")
        data, link = partition_store.read(Path(home)), 0.0
        if where.name == "device":
            link = importlib.import_module("gpu.cuda.feed").link_rate() / GB
        for n_factors in options.whole(factors):
            unbounded_ms = 0.0
            for memory in options.numbers(memories):
                say(f"{algorithm}, F = {n_factors}, {memory:g} GB")
                bounded = where.within(int(memory * GB)) if memory else where
                try:
                    row = _measured(data, replace(params, n_factors=n_factors), bounded, link)
                except NotEnoughMemory as error:
                    say(str(error))
                    continue
                unbounded_ms = unbounded_ms if memory else row["epoch_ms"]
                floor = max(row["floor_ms"], unbounded_ms)
                yield row | {"memory_gb": memory, "times": row["epoch_ms"] / floor if floor else math.nan}
                where.release()


def _store(folder: Path | None, copies: int, params: Params, home: Path) -> None:
    """Write the store of the ratings into the work folder `home`; of copies without test ratings.

    Copies of users do not change the calibration.
    """
    if folder is None:
        folder = home / "drawn"
        make_ratings.make_ratings("netflix", folder)
    train, held_out = datasets.train_and_test(folder)
    calibration = calibrate(train, params)
    if not params.is_implicit:
        train, held_out = in_units(train, calibration.unit), in_units(held_out, calibration.unit)
    test = None if params.is_implicit or copies > 1 else held_out
    partition_store.write(home, copied(train, copies) if copies > 1 else train, test, params, calibration)


def copied(ratings: gpu.Ratings, copies: int) -> gpu.Ratings:
    """The ratings with `copies` copies of each user; a copy is made by several threads, for some take gigabytes."""
    rows, n = ratings.by_user, len(ratings)
    starts = np.concatenate([rows.starts + copy * n for copy in range(copies)])
    by_user = gpu.Rows(
        starts, np.tile(rows.lengths, copies), np.empty(copies * n, dtype=np.int32), np.empty(copies * n, np.float32)
    )
    columns, offsets = ratings.by_item, ratings.n_users * np.arange(copies, dtype=np.int32)[:, None]
    users, values = np.empty(copies * n, dtype=np.int32), np.empty(copies * n, dtype=np.float32)

    def copy_users(part: slice) -> None:
        for copy in range(copies):
            to = slice(copy * n + part.start, copy * n + part.stop)
            by_user.items[to], by_user.values[to] = rows.items[part], rows.values[part]

    def copy_items(part: slice) -> None:
        for start, length in zip(columns.starts[part].tolist(), columns.lengths[part].tolist(), strict=True):
            own, to = slice(start, start + length), slice(copies * start, copies * (start + length))
            np.add(columns.items[own], offsets, out=users[to].reshape(copies, length))
            values[to].reshape(copies, length)[:] = columns.values[own]

    draws.by_threads(copy_users, n, COPIED_ENTRIES)
    draws.by_threads(copy_items, len(columns.starts), COPIED_ITEMS)
    return gpu.Ratings(by_user, gpu.Rows(copies * columns.starts, copies * columns.lengths, users, values))


def digest_of(state: Mapping[str, NDArray[Any]]) -> str:
    """A checksum of all arrays."""
    digest = 0
    for _, table in sorted(state.items()):
        digest = zlib.crc32(np.ascontiguousarray(table).data, digest)
    return f"{digest:08x}"


def _measured(
    data: partition_store.Partitions, params: AlsParams | AlsImplicitParams, backend: gpu.Backend, link: float
) -> Row:
    began = time.perf_counter()
    trainer = AlsTrainer(data.ratings, params, backend, None, data.calibration)
    loop.begin(trainer)
    ready_s = time.perf_counter() - began
    ms: list[float] = []
    for epoch in range(params.n_epochs):
        began = time.perf_counter()
        trainer.learn(epoch)
        ms.append(1e3 * (time.perf_counter() - began))
    say(" ".join(f"{one:.1f}" for one in ms))
    moved, batches, n_ratings = 0.0, (1, 1), len(data.ratings)
    if trainer.batches is not None:
        batches = len(trainer.batches.items) - 1, len(trainer.batches.users) - 1
        moved = 2 * RATING_BYTES * n_ratings + ITEM_BYTES * (data.ratings.n_users + data.ratings.n_items)
    row = {
        "algorithm": params.algorithm, "n_factors": params.n_factors, "n_ratings": n_ratings, "batches": batches,
        "epoch_ms": statistics.median(ms[1:]), "moved_gb": moved / GB, "link_gb_s": link,
        "floor_ms": moved / link / 1e6 if link else 0.0, "peak_gb": backend.device_bytes().get("taken", 0) / GB,
        "loss": float(trainer.metrics()["train_loss"]), "digest": digest_of(trainer.state()), "ready_s": ready_s,
    }  # fmt: skip
    del trainer
    gc.collect()
    return row


def distributed(
    ratings: Annotated[Path, typer.Option(help="Folder of raw arrays as cuMF reads them.", metavar="DIR", exists=True)],
    algorithm: Algorithm = "als",
    ranks: Annotated[str, typer.Option(help="Comma-separated numbers of ranks; the first is the base.")] = "1,2",
    factors: Factors = "100",
    epochs: Annotated[int, typer.Option(help="Epochs; the median leaves the first out.", min=2)] = 10,
    modes: Annotated[
        str, typer.Option(help="Of the halves of ALS, items first: gather or reduce; default: those of the plan.")
    ] = "",
    copies: Annotated[int, typer.Option(help="Copies of each user.", min=1)] = 1,
    memory: Annotated[float, typer.Option(help="GB that a rank may take of its device; 0: no bound.", min=0)] = 0.0,
    target: Annotated[
        float, typer.Option(help="Test RMSE to reach, in times of the least possible one; 0: none.", min=0)
    ] = 0.0,
    timeline: Annotated[bool, typer.Option("--timeline", help="Tell where the time of each rank goes, too.")] = False,
    set_: Parameters = None,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Milliseconds of an epoch on several ranks, one device each, its error, and a checksum of what it has learned.

    Each number of ranks is a training of its own, in fresh processes (on the host: with an equal share of the cores).
    All ranks begin each epoch that is timed at the same moment. With `--copies` each user is there several times.
    An epoch is `times` as fast as with the first number of ranks. Equal `digest` mean equal bits. `error` is the test
    RMSE; of copies the training RMSE, of implicit models the training loss, of `nmf` the relative error. `target_ms` is
    the time of the epochs until the test RMSE is at most `target`, which is `--target` times the least possible RMSE of
    ratings that `make-ratings` has drawn; NaN if it is not reached. Epochs of `als` have the error of a model that ends
    there with `--set calibration=none` only: else all but the last take twice the λ. A rank starts in `start_s`
    (Python, modules, CUDA and the communicator), maps and checks the ratings in `map_s`, and is ready for the first
    epoch `ready_s` later.
    `division` says how several ranks of ALS divide the halves.

    With `--timeline` each rank has a line of its own (`benchmarks.timeline.rows_of`), from further epochs.
    """
    names = modes.split(",") if modes else []
    if modes and (len(names) != 2 or not {*names} <= {"gather", "reduce"}):
        raise InvalidInput(f"Invalid modes: expected two of gather and reduce with a comma between, got {modes!r}")
    params = params_for(algorithm, {**options.parameters(set_), "n_epochs": epochs})
    if target and copies > 1:
        raise InvalidInput(f"Invalid target: expected none with copies, which have no test part, got {target:g}")
    target_rmse = target * datasets.least_rmse(ratings) if target else NAN
    with TemporaryDirectory(prefix="nearfield-") as home:
        _, seconds = timed(lambda: _store(ratings, copies, params, Path(home)))
        say(f"stored after {seconds:.0f} s")
        for n_factors in options.whole(factors):
            base_ms, solve_ms = 0.0, NAN
            for size in options.whole(ranks):
                say(f"{params.algorithm}, F = {n_factors}, ranks: {size}")
                both = Modes(*names) if names and size > 1 else None  # type: ignore[arg-type] # checked above
                of_factors = with_changes(params, n_factors=n_factors)
                work = functools.partial(_trained, Path(home), of_factors, both, memory, target_rmse, timeline)
                results: list[tuple[Row, OfRank]] = run_ranks(size, backend, work, Path(home))
                row, of_ranks = results[0][0], [of_rank for _, of_rank in results]
                epoch_ms = max(of_rank.epoch_ms for of_rank in of_ranks)
                base_ms = base_ms or epoch_ms
                yield row | {"epoch_ms": epoch_ms, "times": base_ms / epoch_ms}
                if timeline:
                    if size == 1:
                        solve_ms = statistics.median(spans.kinds[SOLVE] for spans in of_ranks[0].alone)
                    line = {"algorithm": params.algorithm, "n_factors": n_factors}
                    yield from (line | of_rank for of_rank in rows_of(of_ranks, solve_ms))


def _trained(
    home: Path, params: Params, modes: Modes | None, memory_gb: float, target_rmse: float, has_marks: bool,
    exchange: Exchange, backend: gpu.Backend,
) -> tuple[Row, OfRank]:  # fmt: skip
    """Train on one rank; all ranks call it."""
    start_s, (data, map_s) = _age_s(), timed(lambda: partition_store.read(home))
    began, ratings, test, calibration = time.perf_counter(), data.ratings, data.test, data.calibration
    backend = backend.within(int(memory_gb * GB)) if memory_gb else backend
    backend = watched(backend, exchange) if has_marks else backend
    trainer: loop.Trainer[gpu.Model]
    if isinstance(params, AlsParams | AlsImplicitParams):
        trainer = AlsTrainer(ratings, params, backend, test, calibration, exchange, modes)
    else:
        trainer = trainer_of(ratings, params, backend, test, calibration, exchange)
    loop.begin(trainer)
    exchange.barrier()
    ready_s, ms, n_to_target = time.perf_counter() - began, list[float](), NAN
    if not exchange.rank:
        say(f"started after {start_s:.1f} s, ratings mapped after {map_s:.1f} more, ready after {ready_s:.1f} more")

    def error() -> float:
        metrics = trainer.metrics()
        name = next(name for name in ERRORS if name in metrics)
        return float(metrics[name] * (calibration.unit if name.endswith("rmse") else 1.0))

    for epoch in range(params.n_epochs):
        begin_together(exchange)
        began = time.perf_counter()
        trainer.learn(epoch)
        ms.append(1e3 * (time.perf_counter() - began))
        if not math.isnan(target_rmse) and error() <= target_rmse and math.isnan(n_to_target):  # all ranks ask
            n_to_target = len(ms)
    epoch_ms = statistics.median(ms[1:])
    size = {"algorithm": params.algorithm, "n_factors": params.width, "n_ratings": len(ratings)}
    row = {
        **size, "ranks": exchange.size, "epoch_ms": epoch_ms, "digest": digest_of(trainer.state()), "error": error(),
        "target": target_rmse, "target_ms": epoch_ms * n_to_target,
        "start_s": start_s, "map_s": map_s, "ready_s": ready_s, "division": trainer.division,
    }  # fmt: skip
    if not isinstance(backend, Watched):
        return row, OfRank(epoch_ms, [], [])

    def spans(marks: Marks) -> Iterator[Spans]:
        """The spans of further epochs, which change the model."""
        for _ in range(N_MARKED):
            begin_together(exchange)
            yield marks.epoch(functools.partial(trainer.learn, params.n_epochs - 1))

    with_stores = list(spans(backend.marks))
    backend.marks.are_stored = False
    return row, OfRank(epoch_ms, with_stores, list(spans(backend.marks)))


def _age_s() -> float:
    """Seconds since the start of this process, to a hundredth; Linux."""
    ticks = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19]
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")


def begin_together(exchange: Exchange) -> None:
    """Return at the same moment on all ranks, which are processes of this machine."""
    (moment_s,) = exchange.totals(0.0 if exchange.rank else time.monotonic() + TOGETHER_S)
    while time.monotonic() < moment_s:
        pass


def run_ranks(size: int, backend: str, work: Work, home: Path | None = None) -> list[Any]:
    """What `work` returns on each of `size` ranks, processes of this machine.

    `home`: of the store whose kernels are compiled while ranks connect.

    Raises:
        EngineError: that of the first rank that could not go on, such as for too little memory.
    """
    context, key = multiprocessing.get_context("spawn"), secrets.token_bytes(32)
    cores, processes, ends = sorted(os.sched_getaffinity(0)), [], []
    for rank in range(size):
        here, there = context.Pipe()
        share = cores[rank * len(cores) // size : (rank + 1) * len(cores) // size] or cores
        process = context.Process(target=_rank, args=(work, home, backend, key, rank, share, there), daemon=True)
        # Before it starts, since Numba reads the number of threads when it is imported.
        with patch.dict(os.environ, NUMBA_NUM_THREADS=str(len(share)), CUDA_VISIBLE_DEVICES=str(rank)):
            process.start()
        processes.append(process)
        ends.append(here)
        there.close()
    addresses = [_received(end) for end in ends]
    for end in ends:
        end.send(addresses)
    results = [_received(end) for end in ends]
    for process in processes:
        process.join()
    failures = [result for result in results if isinstance(result, EngineError)]
    if failures:
        raise min(failures, key=lambda failure: isinstance(failure, RankLost))  # others are lost because of the first
    return results


def _received(end: Connection) -> Any:
    if not end.poll(TIMEOUT_S):
        raise TimeoutError(f"a rank was silent for {TIMEOUT_S:g} s")
    return end.recv()


def _rank(work: Work, home: Path | None, wanted: str, key: bytes, rank: int, cores: list[int], end: Connection) -> None:
    os.sched_setaffinity(0, cores)
    listener = socket.create_server((LOOPBACK, 0))
    end.send(listener.getsockname()[:2])
    addresses = end.recv()
    backend = gpu.choose(wanted)  # type: ignore[arg-type] # it refuses others
    with ThreadPoolExecutor(1) as pool:  # as ranks of a service do
        compiling = pool.submit(partition_store.compile_once, home, backend) if home else None
        exchange: Exchange = ALONE
        if len(addresses) > 1:
            links = host.connect(rank, addresses, listener, key, TIMEOUT_S)
            exchange = exchange_on(backend, links, can_store=trusts_links())
        if compiling is not None:
            compiling.result()
    listener.close()
    try:
        result = work(exchange, backend)
    except EngineError as error:
        end.send(error if isinstance(error, RankLost) else EngineError(str(error)))  # some cannot be pickled
        return
    end.send(result)
    exchange.barrier()
    exchange.close()


def reductions(
    shape: Annotated[str, typer.Option(help="Rows, and numbers of a row: A and b.", metavar="ROWS,N")] = "17770,5150",
    ranks: Annotated[str, typer.Option(help="Comma-separated numbers of ranks.")] = "2,4",
    backend: Where = "auto",
) -> Iterator[Row]:
    """Milliseconds to add up partial sums of ALS on several ranks in one phase, in two, and by an all-reduce.

    In one phase each rank gets the sums of its own rows from all ranks, as in trainings ([001] Alg. 3). Two phases add
    within groups of ranks, then between them, which pays where a link between groups is slower than one within; here
    all links are alike. Milliseconds are the median of the slowest rank; megabytes are what a rank sends on average.
    """
    n_rows, n = options.whole(shape)
    for size in options.whole(ranks):
        if size < 2:
            raise InvalidInput(f"Invalid ranks: expected at least 2, got {size}")
        if size % 2 or size < 4:
            say(f"{size} ranks: no two phases, which need an even number of ranks from 4 on")
        work = functools.partial(_reduced, (n_rows, n), secrets.token_bytes(32))
        by_rank = run_ranks(size, backend, work)
        for way, (groups, _, _) in by_rank[0].items():
            ms = statistics.median(np.max([of_rank[way][1] for of_rank in by_rank], axis=0))
            sent = statistics.mean(of_rank[way][2] for of_rank in by_rank)
            row = {"way": way, "ranks": size, "groups": groups, "mb": 4 * n_rows * n / 1e6}
            yield {**row, "ms": ms, "sent_mb": sent / 1e6}


def _reduced(
    shape: tuple[int, int], key: bytes, exchange: Exchange, backend: gpu.Backend
) -> dict[str, tuple[int, list[float], float]]:
    """(groups, milliseconds of each run but the first, bytes that this rank sends in one) of each way."""
    ways: dict[str, tuple[int, Reduce, Sequence[Exchange]]] = {
        "one phase": (0, functools.partial(one_phase, exchange), [exchange]),
        "all-reduce": (0, exchange.reduce, [exchange]),
    }
    if exchange.size % 2 == 0 and exchange.size >= 4:
        groups = groups_of(N_GROUPS, exchange, backend, key)
        ways["two phases"] = N_GROUPS, functools.partial(two_phases, *groups), groups
    results = {}
    for way, (n_groups, reduce, exchanges) in ways.items():
        ms, sent = list[float](), 0.0
        for _ in range(N_TIMED + 1):
            parts: Any = np.ones(shape, dtype=np.float32)
            if backend.name == "device":
                parts = importlib.import_module("gpu.cuda.arrays").to_device(parts)
            exchange.barrier()
            for one in exchanges:
                one.traffic.take()
            began = time.perf_counter()
            reduce(parts)
            backend.twin(als.finish)()
            ms.append(1e3 * (time.perf_counter() - began))
            sent = sum(sum(one.traffic.take().sent.values()) for one in exchanges)
        results[way] = n_groups, ms[1:], sent
    return results


def one_phase(exchange: Exchange, parts: Any) -> slice:
    """Each rank gets the sums of its own rows from all others; returns these rows."""
    bounds = np.arange(exchange.size + 1, dtype=np.int64) * len(parts) // exchange.size
    exchange.reduce_scatter(parts, bounds)
    return slice(*bounds[exchange.rank : exchange.rank + 2].tolist())


def two_phases(within: Exchange, between: Exchange, parts: Any) -> slice:
    """Each rank gets sums of its group, and then those of the ranks that have the same rows in other groups."""
    outer = one_phase(within, parts)
    inner = one_phase(between, parts[outer])
    return slice(outer.start + inner.start, outer.start + inner.stop)


def groups_of(n: int, exchange: Exchange, backend: gpu.Backend, key: bytes) -> tuple[Exchange, Exchange]:
    """(the exchange within this rank's group, that of ranks with the same place in other groups); `n` equal groups."""
    ranks = np.arange(exchange.size).reshape(n, -1)
    group, place = divmod(exchange.rank, ranks.shape[1])
    within, between = (_exchange_of(ranks_, exchange, backend, key) for ranks_ in (ranks[group], ranks[:, place]))
    return within, between


def _exchange_of(members: NDArray[np.int64], exchange: Exchange, backend: gpu.Backend, key: bytes) -> Exchange:
    """An exchange of some ranks, all of this machine; every rank calls it at the same time for its own group."""
    listener, ports = socket.create_server((LOOPBACK, 0)), np.zeros(exchange.size, dtype=np.int64)
    ports[exchange.rank] = listener.getsockname()[1]
    exchange.on_host.gather(ports, np.arange(exchange.size + 1))
    addresses = [(LOOPBACK, int(ports[rank])) for rank in members]
    rank = int(np.flatnonzero(members == exchange.rank)[0])
    return exchange_on(backend, host.connect(rank, addresses, listener, key, TIMEOUT_S))
