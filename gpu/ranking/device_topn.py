"""Exact top-N on a device: a scan on tensor cores finds the candidates of a list, and only these are scored exactly.

The twin of `gpu.ranking.host_topn`. The scores of all items are never stored:

1. A sample of the items, tiles at a fixed stride, is scored with a lower bound. For each user, masked items are dropped
   from it, and items touched by neighbors get their exact score. The n-th best score is a floor: n items reach it.
2. The scan scores every item with an upper bound and keeps the rows that may reach the floor, some hundred a user. It
   reads the factors once, rounded to whole numbers of 8 bits, which takes most of its time.
3. These rows, and all items touched by neighbors of a user's rated items, are scored exactly in float32. Masked rows
   are dropped, and the rest is sorted.

Up to `most_listed` items that pass a filter are candidates: they alone are scored, exactly, and nothing is scanned. The
bits of larger filters are tested where the sample sets the floor, whose stride allows for their count, and where the
scan keeps a row: it reads all items as without a filter.

So lists are those of the exact scores, ties to the lower row. Bounds: kernels/topn_scan.cu. Three cases sort the exact
scores of all items instead: a user whose rows do not fit (for example, with very many equal scores), long lists, and
devices without tensor cores. With few items, all are scored exactly in one step.

Where several devices share the items, each does all of this for its part, at the same time as the others. The host
merges their lists. The score of an item has the same bits on each device, so lists are those of one device. Lists
travel straight to the host, because not all devices can reach each other's memory. What is equal for all is made once
(`gpu.ranking.device_topn_requests`), and the driver is called for all copies and launches of all devices together
(`gpu.cuda.calls`).

A batch must move a byte a factor and 8 bytes an item for up to 64 users: 25 µs at 3 TB/s for a million items of 64
factors.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.device import TENSOR_CORES, compute_capability
from gpu.cuda.calls import Calls
from gpu.cuda.kernels import kernel, module
from gpu.ranking.batch_layout import Sizes
from gpu.ranking.device_filters import Choice, choice_of
from gpu.ranking.device_item_index import NAME, SCAN, USER_TILES, RankedItems, RankedPart
from gpu.ranking.device_topn_requests import FLAGGED, Batch, Work, batch_of, fetch, upload
from gpu.ranking.eligible import Eligible
from gpu.ranking.partition import TILE, merged
from gpu.ranking.requests import RankingRequests

MOST_USERS = 256  # users of a batch, at most
FEW_ITEMS = 4096  # items, at most, that are all scored exactly
# Eligible items, and the share 1 / FEW_SHARE of all items: up to either, scoring them exactly is no slower than a scan.
FEW_ELIGIBLE, FEW_SHARE = 8192, 512
LEAST_SAMPLE, SAMPLE_SHARE = 2048, 8  # the sample has 8 √(n I) items: its scores then cost about as much as its slack
SAMPLED_LISTS, SAMPLED_MORE = 8, 256  # the sample has 8 n + 256 items, at least, that pass a user's filter
MARGIN = 3.0  # ratio of the room for rows to the expected number, for the width of the bounds
MOST_MASKED = 1 << 16  # masked rows, at most, that get extra room
THREADS, WIDE = 256, 1024  # as in kernels/topn.cu
TOUCHING, MOST_PARTS = 16, 128  # blocks a user
SAMPLED_TILES, TOUCHED_TILES = 64, 256  # that a block takes at a time, as in kernels/topn.cu
AT_ONCE, RESERVED = 2, 1024  # blocks of the scan on a multiprocessor, and bytes that CUDA reserves for each

OF_USERS = "factors", "biases", "baselines", "starts", "lengths", "has_candidates"  # a row each, of `RankingRequests`
Answer = tuple[NDArray[np.int32], NDArray[np.float32]]


def rank(ranked_items: RankedItems, requests: RankingRequests, eligible: Sequence[Eligible | None], n: int) -> Answer:
    """The `n` best items of every user, best first; ties to the lower row.

    Args:
        eligible: the items that may appear in the list of each user without candidates; None: all.

    Returns:
        int32 (B, n) rows and float32 (B, n) scores; padded with −1 and −inf.
    """
    n_users = len(requests.biases)
    if not n or not n_users:  # without items n is 0
        return np.empty((n_users, n), dtype=np.int32), np.empty((n_users, n), dtype=np.float32)
    if n_users > MOST_USERS:
        answers = [
            rank(ranked_items, *_users(requests, eligible, first, first + MOST_USERS), n)
            for first in range(0, n_users, MOST_USERS)
        ]
        return np.concatenate([items for items, _ in answers]), np.concatenate([scores for _, scores in answers])
    parts = [part for part in ranked_items if part.n_items]
    try:
        batch, longest = None, parts[0]
        if n <= WIDE:
            choices = _choices(parts, requests, eligible, most_listed(longest.n_rows))
            longest_mask = int((requests.lengths + np.diff(requests.exclude_starts)).max())
            batch = batch_of(parts, requests, choices, n, sizes_of(longest, n, choices[0], longest_mask))
        calls = Calls()
        works = [_work(calls, part, batch, number) for number, part in enumerate(parts)]
        calls.run()
        return merged([_lists(part, work, requests, eligible, n) for part, work in zip(parts, works, strict=True)])
    except BaseException:
        for part in parts:  # devices may still read the buffers of the failed batch, which the next one overwrites
            with cupy.cuda.Device(part.device), contextlib.suppress(Exception):  # the first error is the one to report
                cupy.cuda.get_current_stream().synchronize()
        raise


def most_listed(n_items: int) -> int:
    """Items that pass a filter, at most, so that all of them are scored exactly."""
    return max(FEW_ELIGIBLE, n_items // FEW_SHARE)


def sizes_of(part: RankedPart, n: int, choice: Choice, longest_mask: int) -> Sizes:
    """Size of the sample, and room for the rows of the scan, which suffices almost always."""
    n_items = part.n_items
    are_scanned, n_listed = choice.n_candidates < 0, max(int(choice.n_candidates.max()), 1)
    if not are_scanned.any():
        return Sizes(1, 0, n_listed)
    if n_items <= FEW_ITEMS:
        return Sizes(1, 0, n_items)
    n_eligible = int(choice.n_eligible[are_scanned].min()) // part.n_parts  # about as many in each part
    wanted = max(SAMPLE_SHARE * (n * n_items) ** 0.5, LEAST_SAMPLE)
    stride = max(min(int(n_items // wanted), n_eligible // (SAMPLED_LISTS * n + SAMPLED_MORE)), 2)
    n_tiles = -(-n_items // TILE)
    n_sampled = -(-n_tiles // stride) * TILE
    room = MARGIN * stride * (n + 6 * n**0.5 + 20) + min(longest_mask, MOST_MASKED)
    return Sizes(stride, n_sampled, min(max(-(-int(room) // WIDE) * WIDE, n_listed), n_items))


def _users(
    requests: RankingRequests, eligible: Sequence[Eligible | None], first: int, last: int
) -> tuple[RankingRequests, Sequence[Eligible | None]]:
    users, bounds = slice(first, last), slice(first, last + 1)
    of_users = {name: getattr(requests, name)[users] for name in OF_USERS}
    of_bounds = {name: getattr(requests, name)[bounds] for name in ("exclude_starts", "candidate_starts")}
    return requests._replace(**of_users, **of_bounds), eligible[users]


def _choices(
    parts: Sequence[RankedPart], requests: RankingRequests, eligible: Sequence[Eligible | None], most: int
) -> list[Choice]:
    """The choice on the device of each part; a single one if it has no address there."""
    is_free = not requests.has_candidates.any() and eligible.count(None) == len(eligible)
    choices = dict[int, Choice]()
    for part in parts[:1] if is_free else parts:
        with cupy.cuda.Device(part.device):
            if part.device not in choices:
                choices[part.device] = choice_of(requests, eligible, part.n_rows, most)
    return [*choices.values()] if is_free else [choices[part.device] for part in parts]


def _work(calls: Calls, part: RankedPart, batch: Batch | None, number: int) -> Work | None:
    """Add the calls that make lists of the part's items, on its device.

    None if the lists are to be sorted from the scores of all items.
    """
    with cupy.cuda.Device(part.device):
        if batch is None or (batch.sizes.stride > 1 and compute_capability() < TENSOR_CORES):
            return None
        calls.begin()
        work, sizes = upload(calls, batch, number), batch.sizes
        if sizes.stride == 1:
            _score_all(calls, part, work)
        else:
            _touch(calls, part, work)
            _scan(calls, part, "sample_scores", work, sizes.n_sampled // TILE)
            _score_touched(calls, part, work, sizes.n_sampled // TILE, is_sampled=True)
            _launch(calls, part, "set_floors", (batch.n_users, 1), WIDE, work)
            _scan(calls, part, "scan", work, batch.n_tiles)
            n_rows = max(sizes.stride * batch.n, int(batch.choices[0].n_candidates.max()))
            grid = _blocks(8 * n_rows), batch.n_users  # for the expected rows; blocks loop over more
            _launch(calls, part, "score_rows", grid, THREADS, work)
            _score_touched(calls, part, work, batch.n_tiles, is_sampled=False)
        _launch(calls, part, "list_best", (batch.n_users, 1), WIDE, work)
        fetch(calls, work)
        return work


def _lists(
    part: RankedPart, work: Work | None, requests: RankingRequests, eligible: Sequence[Eligible | None], n: int
) -> Answer:
    """The lists (B, n) of the part's items, after all calls."""
    n_users = len(requests.biases)
    if work is None:
        items, scores = np.empty((n_users, n), dtype=np.int32), np.empty((n_users, n), dtype=np.float32)
        overflowed = np.arange(n_users)
    else:
        lists = work.answer[2 * n_users :].reshape(2, n_users, n).copy()
        items, scores = lists[0], lists[1].view(np.float32)
        overflowed = np.flatnonzero(work.answer[: 2 * n_users] > work.batch.sizes.room) // 2
    # What sorts them writes into the answer of the first part, which was read by now.
    for user in np.unique(overflowed).tolist() if len(overflowed) else ():
        with cupy.cuda.Device(part.device):
            items[user], scores[user] = _sorted(part, *_users(requests, eligible, user, user + 1), n)
    return items, scores


def _sorted(part: RankedPart, requests: RankingRequests, eligible: Sequence[Eligible | None], n: int) -> Answer:
    """The list (n,) of one user, by the exact scores of all items of the part."""
    choices, sizes = _choices([part], requests, eligible, 0), Sizes(1, 0, part.n_items)
    calls = Calls()
    calls.begin()
    work = upload(calls, batch_of([part], requests, choices, n, sizes), 0)
    _score_all(calls, part, work)
    fetch(calls, work)
    calls.run()
    n_keys = int(work.answer[1])
    all_keys = cupy.ndarray(n_keys, cupy.uint64, work.memory + work.batch.layout.positions["keys"])
    keys = cupy.sort(all_keys)[::-1][:n].get()
    items, scores = np.full(n, -1, dtype=np.int32), np.full(n, -np.inf, dtype=np.float32)
    items[: len(keys)] = part.place.rows((~(keys & 0xFFFFFFFF).astype(np.uint32)).view(np.int32))
    bits = (keys >> 32).astype(np.uint32)
    scores[: len(keys)] = np.where(bits >> 31, bits & 0x7FFFFFFF, ~bits).astype(np.uint32).view(np.float32)
    return items, scores


def _score_all(calls: Calls, part: RankedPart, work: Work) -> None:
    """Score every item exactly, or only the candidates of requests that have some."""
    batch = work.batch
    _launch(calls, part, "reset", (-(-batch.n_users // WIDE), 1), WIDE, work)
    _touch(calls, part, work)
    _launch(calls, part, "score_rows", (_blocks(8 * batch.sizes.room), batch.n_users), THREADS, work, flag=1)


def _touch(calls: Calls, part: RankedPart, work: Work) -> None:
    """Mark the items that have a neighbor which the user has rated."""
    batch = work.batch
    if batch.words:
        calls.clear(work.memory.ptr + batch.layout.positions["touched"], batch.n_users * batch.words)
        _launch(calls, part, "touch", (TOUCHING, batch.n_users), THREADS, work)


def _score_touched(calls: Calls, part: RankedPart, work: Work, n_tiles: int, *, is_sampled: bool) -> None:
    if work.batch.words:
        at_once = SAMPLED_TILES if is_sampled else TOUCHED_TILES
        grid = min(-(-n_tiles // at_once), MOST_PARTS), work.batch.n_users
        _launch(calls, part, "score_touched", grid, THREADS, work, flag=is_sampled)


def _blocks(n_threads: int) -> int:
    """Blocks a user for work of `n_threads`."""
    return min(-(-n_threads // THREADS), MOST_PARTS)


def _launch(
    calls: Calls, part: RankedPart, function: str, grid: tuple[int, int], threads: int, work: Work, *, flag: int = 0
) -> None:
    """Run a kernel that takes items, task and perhaps a flag."""
    address = part.kernels.get((function, 0))
    if address is None:
        address = part.kernels[function, 0] = kernel(NAME, function, {"G": part.width}).kernel.ptr
    calls.launch(address, grid, threads, work.arguments + FLAGGED * flag)


def _scan(calls: Calls, part: RankedPart, function: str, work: Work, n_tiles: int) -> None:
    n_users = work.batch.n_users
    tiles = USER_TILES[n_users > 16 * USER_TILES[0]]
    threads, users, shared, blocks = _geometry(part.width, tiles, part.device)
    address = part.kernels.get((function, tiles))
    if address is None:
        run = kernel(SCAN, function, {"G": part.width, "MT": tiles}, shared)
        address = part.kernels[function, tiles] = run.kernel.ptr
    chunks = -(-n_users // users)
    grid = min(-(-n_tiles * 32 // threads), max(blocks // chunks, 1)), chunks
    calls.launch(address, grid, threads, work.arguments, shared)


@functools.cache
def _geometry(width: int, tiles: int, device: int) -> tuple[int, int, int, int]:
    """(threads, users and bytes of shared memory of a block, blocks that the device runs at once)."""
    loaded = module(SCAN, {"G": width, "MT": tiles})
    threads, users, shared = cupy.ndarray(3, cupy.int32, loaded.get_global("geometry")).get().tolist()
    attributes = cupy.cuda.Device(device).attributes
    fitting = min(AT_ONCE, attributes["MaxSharedMemoryPerMultiprocessor"] // (shared + RESERVED))
    return threads, users, shared, max(fitting, 1) * attributes["MultiProcessorCount"]
