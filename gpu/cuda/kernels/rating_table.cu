// Changes to a table of ratings, a whole batch at a time; the last change of a (user, item) wins. See gpu/online/device/rating_table.py.
//
// The batch is sorted by (user, item), changes of one pair in the order they came. The last of each is a *pair*; all
// pairs of a user follow one another. Steps: `sort_tiles` sorts TILE changes each, `look` finds the position of a
// change among all and the rating that it replaces, `plan` numbers pairs and users, `measure` counts the room of the
// new rows, `merge` writes new rows of users and marks deleted raters, `settle_items` closes their gaps and makes room
// for new raters, which `append` adds.
//
// Who owns what: a block a tile in `sort_tiles`; a thread a change, a pair or an item; in `merge` and `settle_items` a block a
// row; `plan` has one block. Shared memory: the keys of a tile; a few words for sums over a block. Limits: rows
// below 2^31, 2^31 changes; a change is looked up in every other tile, so the work grows with the square of very large batches.
//
// Races: rows have one writer. Places at the end of an arena, and the order of raters, are assigned by atomic adds: the
// position of a row and the order of raters may differ from run to run, the contents of a row do not.

enum Count { PAIRS, USERS, ITEMS, USER_PLACES, USER_MOST, MERGED, ITEM_PLACES, ITEM_MOST, DELETED, N_COUNTS };  // ITEM_: at most

typedef unsigned long long Place;
typedef unsigned long long Key;        // user · 2^32 + item

struct Change {
    long long position;
    Key key;
    float value;
    int unused;
};
struct Batch {  // n changes; derived arrays have n or n + 1 entries
    const Change* changes;
    Key* sorted;                       // keys tile by tile, ascending in each,
    int *tiled, *order;                // and their changes; the changes by (user, item)
    float *old, *held;                 // replaced rating, by change; rating in the table, by position in `order`
    unsigned char* codes;              // by position in `order`
    int *sources, *before, *firsts;    // by pair: position in `order`, change of length before it; by user: first pair
    int *pair_users, *pair_items;
    float *pair_old, *pair_new;
    long long* pair_positions;
    int *deleted, *touched_users;      // deleted pairs; users of the batch
    long long* merged;                 // position of each user's new row in the scratch space
    int *touched_items, *added, *removed, *is_touched;  // the last three by item, all 0 between batches
    long long* counts;
};
static_assert(sizeof(Change) == 24 && sizeof(Batch) == 8 * 23, "as NumPy writes it");

struct Scratch {  // scratch space for new rows of users
    int* items;
    float* values;
    long long* positions;
};

constexpr int LAST = 1, HEAD = 2, DELTA = 4;  // codes: the last of its pair, the first of its user, 4 (1 + change of length)
constexpr long long FIRST_CAPACITY = 4;
constexpr unsigned TILE = 256, PLAN_THREADS = 1024, ROW_THREADS = 128, MERGE_THREADS = 512;
constexpr int FEW = 256;  // largest number of gaps that entries from the end fill

__device__ __forceinline__ long long wanted(long long length) { return 2 * length > FIRST_CAPACITY ? 2 * length : FIRST_CAPACITY; }
__device__ __forceinline__ long long add(long long* to, long long more) { return atomicAdd((Place*)to, (Place)more); }
__device__ __forceinline__ int user_of(Key key) { return (int)(key >> 32); }
__device__ __forceinline__ int item_of(Key key) { return (int)(unsigned)key; }

// --- order ------------------------------------------------------------------------------------------------------------

// Grid: a block a tile. Counts the changes before each change in its tile; clears the counts of the batch.
extern "C" __global__ void __launch_bounds__(TILE) sort_tiles(unsigned n, Batch batch) {
    __shared__ Key keys[TILE];
    const unsigned first = blockIdx.x * TILE, at = first + threadIdx.x, size = min(TILE, n - first);
    if (blockIdx.x == 0 && threadIdx.x < N_COUNTS) batch.counts[threadIdx.x] = 0;
    const Key key = at < n ? batch.changes[at].key : 0;
    keys[threadIdx.x] = key;
    __syncthreads();
    if (at >= n) return;
    unsigned rank = 0;
    for (unsigned other = 0; other < size; ++other) rank += keys[other] < key || (keys[other] == key && other < threadIdx.x);
    batch.sorted[first + rank] = key, batch.tiled[first + rank] = at;
}

struct Neighbors {     // neighbors of an entry of `sorted` in the order of all changes
    unsigned place;     // entries before it
    unsigned entry;     // the entry right before it, if one exists,
    Key before, after;  // its key, and the key right after; ~0: none
};

// Equal keys are in the order of their tiles, which is the order of their changes.
__device__ __forceinline__ Neighbors neighbors_of(unsigned at, unsigned n, const Key* sorted) {
    const Key key = sorted[at];
    Neighbors found = {0, 0, ~(Key)0, ~(Key)0};
    for (unsigned first = 0; first < n; first += TILE) {
        const unsigned size = min(TILE, n - first);
        const bool is_own = at - first < TILE;
        const unsigned below = is_own ? at - first : find(sorted, first, size, key + (first < at)) - first;
        const unsigned next = below + is_own;
        const Key last = below > 0 ? sorted[first + below - 1] : 0;
        if (below > 0 && last + 1 >= found.before + 1) found.entry = first + below - 1, found.before = last;
        if (next < size) found.after = min(found.after, sorted[first + next]);
        found.place += below;
    }
    return found;
}

// Grid: a thread a change.
extern "C" __global__ void __launch_bounds__(TILE) look(unsigned n, Table table, Batch batch) {
    const unsigned at = blockIdx.x * TILE + threadIdx.x;
    if (at >= n) return;
    const Key key = batch.sorted[at];
    const Neighbors near = neighbors_of(at, n, batch.sorted);
    const int change = batch.tiled[at], user = user_of(key), item = item_of(key);
    const bool is_first = near.before != key, is_last = near.after != key, is_head = user_of(near.before) != user;
    float held = __int_as_float(0x7fc00000);
    if (is_first || is_last) {
        const long long start = table.by_user.starts[user], length = table.by_user.lengths[user];
        const long long place = find(table.items, start, length, item);
        if (place < start + length && table.items[place] == item) held = table.values[place];
    }
    const int delta = is_last ? is_rating(batch.changes[change].value) - is_rating(held) : 0;
    batch.old[change] = is_first ? held : batch.changes[batch.tiled[near.entry]].value;
    batch.order[near.place] = change, batch.held[near.place] = held;
    batch.codes[near.place] = (is_last ? LAST : 0) | (is_head ? HEAD : 0) | DELTA * (1 + delta);
}

// --- plan -------------------------------------------------------------------------------------------------------------

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

__device__ __forceinline__ Sum sum_of(int code) { return {code & LAST, (code & HEAD) / HEAD, code / DELTA - 1}; }

// Grid: one block. A thread numbers a run of places.
extern "C" __global__ void __launch_bounds__(PLAN_THREADS) plan(unsigned n, Batch batch) {
    __shared__ Sum of_warps[32];
    const unsigned each = (n + PLAN_THREADS - 1) / PLAN_THREADS, first = min(n, threadIdx.x * each), last = min(n, first + each);
    Sum mine = {0, 0, 0};
    for (unsigned place = first; place < last; ++place) mine = mine + sum_of(batch.codes[place]);
    const Sum upto = scanned(mine);
    if (threadIdx.x % 32 == 31) of_warps[threadIdx.x / 32] = upto;
    __syncthreads();
    if (threadIdx.x < 32) of_warps[threadIdx.x] = scanned(of_warps[threadIdx.x]);
    __syncthreads();
    Sum all = {upto.pairs - mine.pairs, upto.users - mine.users, upto.delta - mine.delta};
    if (threadIdx.x >= 32) all = all + of_warps[threadIdx.x / 32 - 1];
    for (unsigned place = first; place < last; ++place) {
        const int code = batch.codes[place];
        if (code & HEAD) batch.firsts[all.users] = all.pairs;
        if (code & LAST) batch.sources[all.pairs] = place, batch.before[all.pairs] = all.delta;
        all = all + sum_of(code);
    }
    if (threadIdx.x < PLAN_THREADS - 1) return;
    batch.before[all.pairs] = all.delta;
    batch.firsts[all.users] = all.pairs;
    batch.counts[PAIRS] = all.pairs, batch.counts[USERS] = all.users;
}

// Reserve `mine` of a count; returns its begin. For all lanes of a warp, with one atomic add.
__device__ __forceinline__ long long take(long long* count, long long mine) {
    long long upto = mine;
    for (int by = 1; by < 32; by *= 2) {
        const long long before = __shfl_up_sync(~0u, upto, by);
        if ((int)(threadIdx.x % 32) >= by) upto += before;
    }
    long long first = 0;
    if (threadIdx.x % 32 == 31 && upto) first = add(count, upto);
    return __shfl_sync(~0u, first, 31) + upto - mine;
}

struct Need { long long places, most; };  // if rows keep their positions; if all are packed

// Room of a row that grows from `length` to `grown`.
__device__ __forceinline__ Need need(const Directory& rows, int row, long long length, long long grown) {
    const long long capacity = rows.capacities[row], before = length > capacity ? wanted(length) : 0;
    return {(grown > capacity ? wanted(grown) : 0) - before, wanted(grown) - wanted(length)};
}

// Count the room of pair `pair` and of its item, rating by rating, as if no rating were deleted.
__device__ __forceinline__ Need measure_pair(int pair, const Table& table, Batch& batch, bool& is_new_item, bool& is_deleted) {
    const int place = batch.sources[pair];
    const Change change = batch.changes[batch.order[place]];
    const int item = item_of(change.key);
    const float old = batch.held[place], value = change.value;
    batch.pair_users[pair] = user_of(change.key), batch.pair_items[pair] = item;
    batch.pair_old[pair] = old, batch.pair_new[pair] = value;
    batch.pair_positions[pair] = change.position;
    if (!is_rating(old) && !is_rating(value)) return {0, 0};
    const long long length = table.by_item.lengths[item];
    Need found = {0, 0};
    if (atomicExch(batch.is_touched + item, 1) == 0) is_new_item = true, found.most = wanted(length);
    is_deleted = !is_rating(value);
    if (is_deleted) atomicAdd(batch.removed + item, 1);
    if (is_rating(old)) return found;
    const long long grown = length + atomicAdd(batch.added + item, 1);
    const Need more = need(table.by_item, item, grown, grown + 1);
    return {found.places + more.places, found.most + more.most};
}

// Count the room of user `at` of the batch; returns the length of the new row.
__device__ __forceinline__ Need measure_user(int at, const Table& table, Batch& batch, long long& length) {
    const int first = batch.firsts[at], user = user_of(batch.changes[batch.order[batch.sources[first]]].key);
    batch.touched_users[at] = user;
    length = table.by_user.lengths[user] + batch.before[batch.firsts[at + 1]] - batch.before[first];
    return {length > table.by_user.capacities[user] ? wanted(length) : 0, wanted(length)};
}

// Grid: a thread a change; there are at most as many pairs and users.
extern "C" __global__ void __launch_bounds__(TILE) measure(Table table, Batch batch) {
    const int at = blockIdx.x * TILE + threadIdx.x;
    bool is_new_item = false, is_deleted = false;
    Need of_item = {0, 0}, of_user = {0, 0};
    long long length = 0;
    if (at < batch.counts[PAIRS]) of_item = measure_pair(at, table, batch, is_new_item, is_deleted);
    if (at < batch.counts[USERS]) of_user = measure_user(at, table, batch, length);
    const long long touched = take(batch.counts + ITEMS, is_new_item), deleted = take(batch.counts + DELETED, is_deleted);
    const long long merged = take(batch.counts + MERGED, length);
    take(batch.counts + USER_PLACES, of_user.places), take(batch.counts + USER_MOST, of_user.most);
    take(batch.counts + ITEM_PLACES, of_item.places), take(batch.counts + ITEM_MOST, of_item.most);
    if (is_new_item) batch.touched_items[touched] = batch.pair_items[at];
    if (is_deleted) batch.deleted[deleted] = at;
    if (at < batch.counts[USERS]) batch.merged[at] = merged;
}

// --- rows -------------------------------------------------------------------------------------------------------------

// The new row of the `owner`-th user of the batch is written to `scratch`, then copied to its position.
__device__ __forceinline__ void merge_row(int owner, const Table& table, const Batch& batch, const Scratch& scratch) {
    __shared__ long long target;
    const int first = batch.firsts[owner], last = batch.firsts[owner + 1], user = batch.touched_users[owner];
    const int base = batch.before[first];
    const long long start = table.by_user.starts[user], length = table.by_user.lengths[user];
    const long long new_length = length + batch.before[last] - base, to = batch.merged[owner];
    __syncthreads();  // all have read the directory
    if (threadIdx.x == 0) {
        target = start;
        if (new_length > table.by_user.capacities[user]) {
            target = add(table.by_user.end, wanted(new_length));
            table.by_user.starts[user] = target, table.by_user.capacities[user] = wanted(new_length);
        }
        table.by_user.lengths[user] = new_length;
    }
    for (long long n = threadIdx.x; n < length; n += MERGE_THREADS) {
        const int item = table.items[start + n];
        const int pair = find(batch.pair_items, first, last - first, item);
        if (pair < last && batch.pair_items[pair] == item) continue;
        const long long place = to + n + batch.before[pair] - base;
        scratch.items[place] = item, scratch.values[place] = table.values[start + n];
        scratch.positions[place] = table.positions[start + n];
    }
    for (int pair = first + threadIdx.x; pair < last; pair += MERGE_THREADS) {
        const float value = batch.pair_new[pair];
        if (!is_rating(value)) continue;
        const int item = batch.pair_items[pair];
        const long long place = to + find(table.items, start, length, item) - start + batch.before[pair] - base;
        scratch.items[place] = item, scratch.values[place] = value;
        scratch.positions[place] = batch.pair_positions[pair];
    }
    __syncthreads();
    for (long long n = threadIdx.x; n < new_length; n += MERGE_THREADS) {
        table.items[target + n] = scratch.items[to + n], table.values[target + n] = scratch.values[to + n];
        table.positions[target + n] = scratch.positions[to + n];
    }
}

// The user of a deleted pair becomes −1 among the raters.
__device__ __forceinline__ void strike_out(int pair, const Table& table, const Batch& batch) {
    const int user = batch.pair_users[pair], item = batch.pair_items[pair];
    int* raters = table.raters + table.by_item.starts[item];
    const long long length = table.by_item.lengths[item];
    long long place = -1;
#pragma unroll 8
    for (long long n = threadIdx.x; n < length; n += MERGE_THREADS)  // without stores in between, so that reads overlap
        if (raters[n] == user) place = n;
    if (place >= 0) raters[place] = -1;
}

// Grid: a block a user, then a block a deleted pair.
extern "C" __global__ void __launch_bounds__(MERGE_THREADS) merge(Table table, Batch batch, Scratch scratch, int n_users) {
    if ((int)blockIdx.x < n_users) merge_row(blockIdx.x, table, batch, scratch);
    else strike_out(batch.deleted[blockIdx.x - n_users], table, batch);
}

// Close the gaps of a row, the others in order; returns how many stay.
__device__ __forceinline__ long long close_gaps(int* raters, long long length) {
    long long kept = 0;
    for (long long first = 0; first < length; first += ROW_THREADS) {
        const bool is_there = first + threadIdx.x < length;
        const int user = is_there ? raters[first + threadIdx.x] : -1;
        int total;
        const int rank = sum_before<ROW_THREADS / 32>(user >= 0, total);  // its barriers separate reads from writes
        if (user >= 0) raters[kept + rank] = user;
        kept += total;
    }
    __syncthreads();
    return kept;
}

// The same for few gaps: entries from behind the new end fill the gaps before it.
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

// Grid: a block an item; after `merge`. Leaves lengths without those that `append` adds.
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
