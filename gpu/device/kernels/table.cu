// Changes to a table of ratings, a whole batch at a time; the last change of a (user, item) wins. See gpu/device/table.py.
//
// The batch is sorted by (user, item), changes of one pair in the order they came. The last of each is a *pair*; all pairs
// of a user follow one another. Steps: `look` finds what each change replaces, `plan` numbers pairs and users, `measure` and
// `measure_items` say how much room the new rows take, `merge` makes the rows of users anew, `mark_gone` and `settle_items` drop
// raters who are gone and make room for new ones, whom `append` adds.
//
// Who owns what: a thread a change, a pair or an item; in `merge` and `settle_items` a block a row, in `plan` one block
// everything. Shared memory: a few words for sums over a block. Limits: rows below 2^31, 2^31 changes.
//
// Races: rows have one writer. Places at the end of an arena, and the order of raters, are given out by atomic adds: where
// a row lies and in which order raters stand may differ from run to run, what a row holds does not.

enum Count { PAIRS, USERS, ITEMS, USER_PLACES, USER_MOST, MERGED, ITEM_PLACES, ITEM_MOST };

struct Batch {  // of n changes; arrays of what is derived hold n, or n + 1, entries
    const int *users, *items;
    const float* values;
    const long long* positions;
    const long long* order;            // of the changes by (user, item)
    float *old, *held;                 // what a change replaces, by change; what the table holds, by place in the order
    unsigned char* codes;              // by place in the order
    int *sources, *before, *firsts;    // pair: its place in the order, change of length before it; user: its first pair
    int *pair_users, *pair_items;
    float *pair_old, *pair_new;
    long long* pair_positions;
    int* touched_users;
    long long* merged;                 // where the new row of each user is put together
    int *touched_items, *added, *removed, *is_touched;  // the last three by item, all 0 between batches
    long long* counts;
};
static_assert(sizeof(Batch) == 8 * 23, "as NumPy writes it");

struct Scratch {  // rows of users put together
    int* items;
    float* values;
    long long* positions;
};

constexpr int LAST = 1, HEAD = 2, DELTA = 4;  // codes: the last of its pair, the first of its user, 4 (1 + change of length)
constexpr long long FIRST_CAPACITY = 4;
constexpr unsigned PLAN_THREADS = 1024, ROW_THREADS = 128;
constexpr int FEW = 256;  // gaps that are filled from behind

typedef unsigned long long Place;

__device__ __forceinline__ long long wanted(long long length) { return 2 * length > FIRST_CAPACITY ? 2 * length : FIRST_CAPACITY; }
__device__ __forceinline__ long long add(long long* to, long long more) { return atomicAdd((Place*)to, (Place)more); }

extern "C" __global__ void keys_of(const int* users, const int* items, unsigned n, long long* keys) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) keys[at] = (long long)users[at] << 32 | (unsigned)items[at];
}

// Grid: a thread a change.
extern "C" __global__ void look(unsigned n, Table table, Batch batch) {
    const unsigned place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= n) return;
    const long long change = batch.order[place];
    const int user = batch.users[change], item = batch.items[change];
    bool is_first = true, is_last = true, is_head = true;
    float old = 0;
    if (place > 0) {
        const long long other = batch.order[place - 1];
        is_head = batch.users[other] != user;
        is_first = is_head || batch.items[other] != item;
        old = batch.values[other];
    }
    if (place + 1 < n) {
        const long long other = batch.order[place + 1];
        is_last = batch.users[other] != user || batch.items[other] != item;
    }
    float held = __int_as_float(0x7fc00000);
    if (is_first || is_last) {
        const long long start = table.by_user.starts[user], length = table.by_user.lengths[user];
        const long long at = find(table.items, start, length, item);
        if (at < start + length && table.items[at] == item) held = table.values[at];
    }
    batch.old[change] = is_first ? held : old;
    batch.held[place] = held;
    const int delta = is_last ? is_rating(batch.values[change]) - is_rating(held) : 0;
    batch.codes[place] = (is_last ? LAST : 0) | (is_head ? HEAD : 0) | DELTA * (1 + delta);
}

struct Sum { int pairs, users, delta; };

__device__ __forceinline__ Sum operator+(Sum one, Sum other) {
    return {one.pairs + other.pairs, one.users + other.users, one.delta + other.delta};
}

__device__ __forceinline__ Sum shuffled_up(Sum sum, int by) {
    return {__shfl_up_sync(~0u, sum.pairs, by), __shfl_up_sync(~0u, sum.users, by), __shfl_up_sync(~0u, sum.delta, by)};
}

// Sum over this thread and those before it, in the warp.
__device__ __forceinline__ Sum scanned(Sum sum) {
    for (int by = 1; by < 32; by *= 2) {
        const Sum before = shuffled_up(sum, by);
        if ((int)(threadIdx.x % 32) >= by) sum = sum + before;
    }
    return sum;
}

// Grid: one block.
extern "C" __global__ void __launch_bounds__(PLAN_THREADS) plan(unsigned n, Batch batch) {
    __shared__ Sum of_warps[32];
    Sum carried = {0, 0, 0};
    for (unsigned first = 0; first < n; first += PLAN_THREADS) {
        const unsigned place = first + threadIdx.x;
        const int code = place < n ? batch.codes[place] : DELTA;
        const Sum mine = {code & LAST, (code & HEAD) / HEAD, code / DELTA - 1};
        const Sum upto = scanned(mine);
        if (threadIdx.x % 32 == 31) of_warps[threadIdx.x / 32] = upto;
        __syncthreads();
        if (threadIdx.x < 32) of_warps[threadIdx.x] = scanned(of_warps[threadIdx.x]);
        __syncthreads();
        Sum all = carried + upto;
        if (threadIdx.x >= 32) all = all + of_warps[threadIdx.x / 32 - 1];
        if (code & LAST) {
            batch.sources[all.pairs - 1] = place;
            batch.before[all.pairs - 1] = all.delta - mine.delta;
        }
        if (code & HEAD) batch.firsts[all.users - 1] = all.pairs - mine.pairs;
        carried = carried + of_warps[31];
        __syncthreads();
    }
    if (threadIdx.x > 0) return;
    batch.before[carried.pairs] = carried.delta;
    batch.firsts[carried.users] = carried.pairs;
    batch.counts[PAIRS] = carried.pairs, batch.counts[USERS] = carried.users;
}

// Take note of pair `pair`, and of its item.
__device__ __forceinline__ void measure_pair(int pair, Batch& batch) {
    const int place = batch.sources[pair];
    const long long change = batch.order[place];
    const int item = batch.items[change];
    const float old = batch.held[place], value = batch.values[change];
    batch.pair_users[pair] = batch.users[change], batch.pair_items[pair] = item;
    batch.pair_old[pair] = old, batch.pair_new[pair] = value;
    batch.pair_positions[pair] = batch.positions[change];
    if (!is_rating(old) && !is_rating(value)) return;
    if (!is_rating(old)) atomicAdd(batch.added + item, 1);
    if (!is_rating(value)) atomicAdd(batch.removed + item, 1);
    if (atomicExch(batch.is_touched + item, 1) == 0) batch.touched_items[add(batch.counts + ITEMS, 1)] = item;
}

// Grid: a thread a change; there are no more pairs, and no more users.
extern "C" __global__ void measure(Table table, Batch batch) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < batch.counts[PAIRS]) measure_pair(at, batch);
    if (at >= batch.counts[USERS]) return;
    const int first = batch.firsts[at], user = batch.users[batch.order[batch.sources[first]]];
    const long long length = table.by_user.lengths[user] + batch.before[batch.firsts[at + 1]] - batch.before[first];
    batch.touched_users[at] = user;
    batch.merged[at] = add(batch.counts + MERGED, length);
    add(batch.counts + USER_MOST, wanted(length));
    if (length > table.by_user.capacities[user]) add(batch.counts + USER_PLACES, wanted(length));
}

// Grid: a thread a change; there are no more items.
extern "C" __global__ void measure_items(Table table, Batch batch) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch.counts[ITEMS]) return;
    const int item = batch.touched_items[at];
    const long long length = table.by_item.lengths[item] + batch.added[item] - batch.removed[item];
    add(batch.counts + ITEM_MOST, wanted(length));
    if (length > table.by_item.capacities[item]) add(batch.counts + ITEM_PLACES, wanted(length));
}

// Grid: a block a user. The new row is put together in `scratch`, then goes to its place.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) merge(Table table, Batch batch, Scratch scratch) {
    __shared__ long long target;
    const int first = batch.firsts[blockIdx.x], last = batch.firsts[blockIdx.x + 1], user = batch.touched_users[blockIdx.x];
    const int base = batch.before[first];
    const long long start = table.by_user.starts[user], length = table.by_user.lengths[user];
    const long long new_length = length + batch.before[last] - base, to = batch.merged[blockIdx.x];
    __syncthreads();  // all have read the directory
    if (threadIdx.x == 0) {
        target = start;
        if (new_length > table.by_user.capacities[user]) {
            target = add(table.by_user.end, wanted(new_length));
            table.by_user.starts[user] = target, table.by_user.capacities[user] = wanted(new_length);
        }
        table.by_user.lengths[user] = new_length;
    }
    for (long long n = threadIdx.x; n < length; n += ROW_THREADS) {
        const int item = table.items[start + n];
        const int pair = (int)find(batch.pair_items, first, last - first, item);
        if (pair < last && batch.pair_items[pair] == item) continue;
        const long long place = to + n + batch.before[pair] - base;
        scratch.items[place] = item, scratch.values[place] = table.values[start + n];
        scratch.positions[place] = table.positions[start + n];
    }
    for (int pair = first + threadIdx.x; pair < last; pair += ROW_THREADS) {
        const float value = batch.pair_new[pair];
        if (!is_rating(value)) continue;
        const int item = batch.pair_items[pair];
        const long long place = to + find(table.items, start, length, item) - start + batch.before[pair] - base;
        scratch.items[place] = item, scratch.values[place] = value;
        scratch.positions[place] = batch.pair_positions[pair];
    }
    __syncthreads();
    for (long long n = threadIdx.x; n < new_length; n += ROW_THREADS) {
        table.items[target + n] = scratch.items[to + n], table.values[target + n] = scratch.values[to + n];
        table.positions[target + n] = scratch.positions[to + n];
    }
}

// Grid: a block a change. Where a pair is deleted, its user becomes −1 among the raters.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) mark_gone(Table table, Batch batch) {
    const int pair = blockIdx.x;
    if (pair >= batch.counts[PAIRS] || !is_rating(batch.pair_old[pair]) || is_rating(batch.pair_new[pair])) return;
    const int user = batch.pair_users[pair], item = batch.pair_items[pair];
    int* raters = table.raters + table.by_item.starts[item];
    const long long length = table.by_item.lengths[item];
    long long place = -1;
#pragma unroll 8
    for (long long n = threadIdx.x; n < length; n += ROW_THREADS)  // nothing is written on the way: reads overlap
        if (raters[n] == user) place = n;
    if (place >= 0) raters[place] = -1;
}

// Close the gaps of a row, the others in order; returns how many stay.
__device__ __forceinline__ long long close_gaps(int* raters, long long length) {
    long long kept = 0;
    for (long long first = 0; first < length; first += ROW_THREADS) {
        const bool is_there = first + threadIdx.x < length;
        const int user = is_there ? raters[first + threadIdx.x] : -1;
        int total;
        const int rank = rank_in_block<ROW_THREADS / 32>(user >= 0, total);  // its barriers part the reads above from the writes below
        if (user >= 0) raters[kept + rank] = user;
        kept += total;
    }
    __syncthreads();
    return kept;
}

// The same for few gaps: those before the new end take the entries behind it.
__device__ __forceinline__ long long fill_gaps(int* raters, long long length, int n_gaps) {
    __shared__ long long gaps[FEW], movers[FEW];
    __shared__ int n_before, n_behind;
    const long long kept = length - n_gaps;
    if (threadIdx.x == 0) n_before = n_behind = 0;
    __syncthreads();
    for (long long n = threadIdx.x; n < length; n += ROW_THREADS) {
        const bool is_gap = raters[n] < 0;
        if (is_gap && n < kept) gaps[atomicAdd(&n_before, 1)] = n;
        if (!is_gap && n >= kept) movers[atomicAdd(&n_behind, 1)] = n;
    }
    __syncthreads();
    for (int n = threadIdx.x; n < n_before; n += ROW_THREADS) raters[gaps[n]] = raters[movers[n]];
    __syncthreads();
    return kept;
}

// Grid: a block an item; after `mark_gone`. Leaves lengths without those that `append` adds.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) settle_items(Table table, Batch batch) {
    __shared__ long long target;
    const int item = batch.touched_items[blockIdx.x], added = batch.added[item];
    const long long start = table.by_item.starts[item], length = table.by_item.lengths[item];
    const int removed = batch.removed[item];
    long long kept = length;
    if (removed) kept = removed <= FEW ? fill_gaps(table.raters + start, length, removed) : close_gaps(table.raters + start, length);
    const bool moves = kept + added > table.by_item.capacities[item];
    if (threadIdx.x == 0) target = moves ? add(table.by_item.end, wanted(kept + added)) : start;
    __syncthreads();
    if (moves)
        for (long long n = threadIdx.x; n < kept; n += ROW_THREADS) table.raters[target + n] = table.raters[start + n];
    __syncthreads();
    if (threadIdx.x > 0) return;
    table.by_item.lengths[item] = kept;
    if (moves) table.by_item.starts[item] = target, table.by_item.capacities[item] = wanted(kept + added);
    batch.added[item] = batch.removed[item] = batch.is_touched[item] = 0;
}

// Grid: a thread a pair; after `settle_items`.
extern "C" __global__ void append(Table table, Batch batch) {
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= batch.counts[PAIRS] || is_rating(batch.pair_old[pair]) || !is_rating(batch.pair_new[pair])) return;
    const int item = batch.pair_items[pair];
    table.raters[table.by_item.starts[item] + add(table.by_item.lengths + item, 1)] = batch.pair_users[pair];
}

// Grid: a block a row of users. Each user to the raters of all items they have rated; lengths start at 0.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) list_raters(Table table) {
    const long long start = table.by_user.starts[blockIdx.x], length = table.by_user.lengths[blockIdx.x];
    for (long long n = threadIdx.x; n < length; n += ROW_THREADS) {
        const int item = table.items[start + n];
        table.raters[table.by_item.starts[item] + add(table.by_item.lengths + item, 1)] = blockIdx.x;
    }
}

// Grid: a block a row. One column of all rows to their new places in another array, entries of four or eight bytes.
template <class Entry> __device__ __forceinline__ void move(const Directory& rows, const long long* targets, const Entry* from, Entry* to) {
    const long long start = rows.starts[blockIdx.x], length = rows.lengths[blockIdx.x], target = targets[blockIdx.x];
    for (long long n = threadIdx.x; n < length; n += ROW_THREADS) to[target + n] = from[start + n];
}
extern "C" __global__ void __launch_bounds__(ROW_THREADS) move_4(Directory rows, const long long* targets, const int* from, int* to) {
    move(rows, targets, from, to);
}
extern "C" __global__ void __launch_bounds__(ROW_THREADS) move_8(Directory rows, const long long* targets, const long long* from, long long* to) {
    move(rows, targets, from, to);
}
