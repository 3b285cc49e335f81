// Exact top-N on a device, all but the scan of the items (topn_scan.cu): items with neighbor terms, floors, exact
// scores of the rows that the scan has found, the lists; and updates of the item side.
//
// A key is a score, as bits in ascending order, over the complement of its item: keys of a user are distinct, and their
// order is that of the list. 0 is no key.
//
// Who owns what: eight lanes have an item of a user, or a row of the catalog; a block of 1,024 threads the floor or the
// list of a user. Races: bits of `touched` are set by `atomicOr`; rows and keys are appended in any order, and sorted.
// Every score is computed by `score` of topn_items.cuh in one order of additions: equal inputs give equal bits.

constexpr int THREADS = 256;       // threads of a block with eight lanes per item
constexpr int WIDE = 1024;         // threads of a block per user; length of the longest list
constexpr float LOWEST = -3.402823466e38f;

__device__ __forceinline__ unsigned ascending(float x) {
    const unsigned bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float as_float(unsigned bits) {
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

// --- neighbors

__device__ __forceinline__ void touch_one(const Task& task, int user, int item) {
    atomicOr(task.touched + (long long)user * task.words + item / TILE, 1u << item % TILE);
}

// Mark the items that have a neighbor among a user's rated ones. Grid: parts x users; a warp has a rated item.
extern "C" __global__ void __launch_bounds__(THREADS) touch(Catalog items, Task task) {
    const int user = blockIdx.y, lane = threadIdx.x % 32, warp = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    for (int n = task.seen_starts[user] + warp; n < task.seen_starts[user + 1]; n += gridDim.x * (THREADS / 32)) {
        const int x = task.seen[n];
        if (x >= items.n_rows) continue;
        if (x < items.n_listed)
            for (int place = items.starts[x] + lane; place < items.starts[x + 1]; place += 32) touch_one(task, user, items.owners[place]);
        if (lane == 0)
            for (int place = items.heads[x]; place >= 0; place = items.nexts[place]) touch_one(task, user, items.later[place]);
    }
}

__device__ __forceinline__ void push(const Task& task, int user, int item, float score) {
    if (score == NONE || score < task.floors[user]) return;
    const int place = atomicAdd(task.counts + 2 * user + 1, 1);
    if (place < task.room) task.keys[(long long)user * task.room + place] = (unsigned long long)ascending(score) << 32 | ~(unsigned)item;
}

// Set the bits of what the user has rated, in shared memory of the block.
__device__ __forceinline__ void mark_rated(const Task& task, int user, unsigned (&marks)[MARK_WORDS]) {
    for (int word = threadIdx.x; word < MARK_WORDS; word += THREADS) marks[word] = 0;
    __syncthreads();
    for (int n = task.seen_starts[user] + threadIdx.x; n < task.seen_starts[user + 1]; n += THREADS)
        atomicOr(marks + task.seen[n] / 32 % MARK_WORDS, 1u << task.seen[n] % 32);
    __syncthreads();
}

// Score the touched items: those of the sample into it (`sampled`), else all into the keys of users without candidates.
// A user with thousands of ratings touches a tenth of all items, most users a few tiles: so a block queues the touched
// items of its tiles, and its warps share the queue. Most neighbors of a touched item are not rated, which the marks tell.
// Grid: parts x users; a block has `SAMPLED_TILES` or `TOUCHED_TILES` tiles at a time. Shared memory: 24 KB.
constexpr int SAMPLED_TILES = 64, TOUCHED_TILES = 256;  // at most one for each thread; 2,048 of them would fill 16 bits
extern "C" __global__ void __launch_bounds__(THREADS) score_touched(Catalog items, Task task, int sampled) {
    __shared__ unsigned marks[MARK_WORDS];
    __shared__ unsigned short queue[TOUCHED_TILES * TILE];
    __shared__ int n_queued;
    const int user = blockIdx.y, stride = sampled ? task.stride : 1, n_tiles = sampled ? task.n_sampled / TILE : task.n_tiles;
    const int at_once = sampled ? SAMPLED_TILES : TOUCHED_TILES;
    if (task.n_candidates[user] >= 0) return;
    bool are_marked = false;
    for (int first = blockIdx.x * at_once; first < n_tiles; first += gridDim.x * at_once) {
        const int own = first + threadIdx.x;
        unsigned bits = threadIdx.x < at_once && own < n_tiles ? task.touched[(long long)user * task.words + own * stride] : 0;
        if (threadIdx.x == 0) n_queued = 0;
        if (!__syncthreads_or(bits != 0)) continue;
        if (bits)
            for (int place = atomicAdd(&n_queued, __popc(bits)); bits; bits &= bits - 1) queue[place++] = threadIdx.x * TILE + __ffs(bits) - 1;
        if (!are_marked) mark_rated(task, user, marks);
        are_marked = true;
        __syncthreads();
        for (int n = threadIdx.x / 8; n < n_queued; n += THREADS / 8) {
            const int tile = first + queue[n] / TILE, bit = queue[n] % TILE, item = tile * stride * TILE + bit, place = threadIdx.x % 8;
            const float found = is_masked(items, task, user, item, marks) ? NONE : score(items, task, user, item, true, place, marks);
            if (place) continue;
            if (sampled) task.sample[(long long)user * task.n_sampled + tile * TILE + bit] = found;
            else push(task, user, item, found);
        }
        __syncthreads();  // before the queue is written again
    }
}

// --- floors

__device__ __forceinline__ void hide(const Catalog& items, const Task& task, int user, const int* list, const int* starts) {
    for (int n = starts[user] + threadIdx.x; n < starts[user + 1]; n += WIDE) {
        const int item = item_of(items, list[n]), tile = item / TILE, place = tile / task.stride * TILE + item % TILE;
        if (item >= 0 && tile % task.stride == 0 && place < task.n_sampled) task.sample[(long long)user * task.n_sampled + place] = NONE;
    }
}

// The largest number of 20 leading bits that at least `n` of the block's keys (four a thread) reach; 0: fewer than `n`
// keys are not 0.
__device__ __forceinline__ unsigned reached_by(int n, const unsigned (&mine)[4], int (&counts)[32]) {
    unsigned found = 0;
    if (threadIdx.x < 32) counts[threadIdx.x] = 0;
    __syncthreads();
    for (int bit = 31; bit >= 12; --bit) {
        const unsigned wanted = found | 1u << bit;
        int reaching = 0;
#pragma unroll
        for (int k = 0; k < 4; ++k) reaching += __popc(__ballot_sync(~0u, mine[k] >= wanted));
        if (threadIdx.x % 32 == 0) atomicAdd(counts + bit, reaching);
        __syncthreads();
        if (counts[bit] >= n) found = wanted;
    }
    return found;
}

// A score that at least `n` items reach: the n-th largest of the maxima of groups of the sample, without items that do
// not pass the filter. Grid: users.
extern "C" __global__ void __launch_bounds__(WIDE) set_floors(Catalog items, Task task) {
    __shared__ int counts[32];
    const int user = blockIdx.x;
    if (threadIdx.x < 2) task.counts[2 * user + threadIdx.x] = 0;
    if (task.n_candidates[user] >= 0) {
        if (threadIdx.x == 0) task.floors[user] = LOWEST;
        return;
    }
    if (task.mask_seen) hide(items, task, user, task.seen, task.seen_starts);
    hide(items, task, user, task.excluded, task.excluded_starts);
    __syncthreads();
    const float4* sample = (const float4*)(task.sample + (long long)user * task.n_sampled);
    float4 largest = make_float4(NONE, NONE, NONE, NONE);
#pragma unroll 4
    for (int n = threadIdx.x; n < task.n_sampled / 4; n += WIDE) {
        const float4 x = __ldcg(sample + n);
        const unsigned passes = eligible_in(items, task, user, 4 * n / TILE * task.stride) >> (4 * n % TILE);
        largest.x = fmaxf(largest.x, passes & 1 ? x.x : NONE), largest.y = fmaxf(largest.y, passes & 2 ? x.y : NONE);
        largest.z = fmaxf(largest.z, passes & 4 ? x.z : NONE), largest.w = fmaxf(largest.w, passes & 8 ? x.w : NONE);
    }
    const unsigned none = ascending(NONE), mine[4] = {
        ascending(largest.x), ascending(largest.y), ascending(largest.z), ascending(largest.w)
    };
    const unsigned found = reached_by(task.n, mine, counts);
    if (threadIdx.x == 0) task.floors[user] = found > none ? as_float(found) : LOWEST;
}

// --- exact scores and lists

// Score the items that may be in the lists. `all`: every item, for users without candidates; else the rows of the scan.
// Grid: parts x users.
extern "C" __global__ void __launch_bounds__(THREADS) score_rows(Catalog items, Task task, int all) {
    const int user = blockIdx.y, place = threadIdx.x % 8, n_candidates = task.n_candidates[user];
    const bool is_some = n_candidates >= 0;
    const int n_rows = is_some ? n_candidates : all ? items.n_items : min(task.counts[2 * user], task.room);
    const int* rows = is_some ? task.candidates[user] : task.rows + (long long)user * task.room;
    for (int n = (blockIdx.x * THREADS + threadIdx.x) / 8; n < n_rows; n += gridDim.x * THREADS / 8) {
        const int item = is_some ? item_of(items, rows[n]) : all ? n : rows[n];
        if (item < 0) continue;
        const bool touched = is_touched(task, user, item);
        if ((touched && !is_some && !all) || is_masked(items, task, user, item)) continue;  // `score_touched` has the first
        const float found = score(items, task, user, item, touched, place);
        if (place == 0) push(task, user, item, found);
    }
}

// Initialize if no sample sets floors: no row is found, every score is high enough. Grid: any, 1,024 threads a block.
extern "C" __global__ void __launch_bounds__(WIDE) reset(Catalog items, Task task) {
    const int user = blockIdx.x * WIDE + threadIdx.x;
    if (user >= task.n_users) return;
    task.floors[user] = LOWEST, task.counts[2 * user] = task.counts[2 * user + 1] = 0;
}

// A number that `n` keys reach, and no more than `most`; keys are distinct.
__device__ __forceinline__ unsigned long long cut(const unsigned long long* keys, int n_keys, int n, int most, int (&counts)[64]) {
    unsigned long long found = 0;
    for (int bit = 63; bit >= 0; --bit) {
        const unsigned long long wanted = found | 1ull << bit;
        int reaching = 0;
        for (int k = threadIdx.x; k < n_keys; k += WIDE) reaching += __ldcg(keys + k) >= wanted;
        for (int reach = 16; reach; reach /= 2) reaching += __shfl_xor_sync(~0u, reaching, reach);
        if (threadIdx.x % 32 == 0) atomicAdd(counts + bit, reaching);
        __syncthreads();
        if (counts[bit] < n) continue;
        found = wanted;
        if (counts[bit] <= most) break;
    }
    return found;
}

// Sort the keys of each user and write the first `n`. Grid: users.
extern "C" __global__ void __launch_bounds__(WIDE) list_best(Catalog items, Task task) {
    __shared__ unsigned long long best[WIDE];
    __shared__ int counts[64], n_best;
    const int user = blockIdx.x, n_keys = min(task.counts[2 * user + 1], task.room);
    const unsigned long long* keys = task.keys + (long long)user * task.room;
    if (threadIdx.x < 64) counts[threadIdx.x] = 0;
    best[threadIdx.x] = 0, n_best = 0;
    __syncthreads();
    const unsigned long long least = n_keys > WIDE ? cut(keys, n_keys, task.n, WIDE, counts) : 1;
    for (int k = threadIdx.x; k < n_keys; k += WIDE) {
        const unsigned long long key = __ldcg(keys + k);
        if (key >= least) best[atomicAdd(&n_best, 1)] = key;
    }
    __syncthreads();
    int size = 2;
    while (size < n_best) size *= 2;
    for (int run = 2; run <= size; run *= 2)  // bitonic, largest first
        for (int reach = run / 2; reach; reach /= 2) {
            const int other = threadIdx.x ^ reach;
            if (other > threadIdx.x && threadIdx.x < size) {
                const unsigned long long a = best[threadIdx.x], b = best[other];
                if ((a < b) == ((threadIdx.x & run) == 0)) best[threadIdx.x] = b, best[other] = a;
            }
            __syncthreads();
        }
    for (int k = threadIdx.x; k < task.n; k += WIDE) {
        const unsigned long long key = best[k];
        task.items[(long long)user * task.n + k] = key ? row_of(items, ~(unsigned)key) : -1;
        task.scores[(long long)user * task.n + k] = key ? as_float((unsigned)(key >> 32)) : NONE;
    }
}

// --- updates of the item side

struct Fresh {                     // new rows of `items` (n,), which are distinct
    const int* items;
    const float *factors, *biases, *baselines;  // (n, F), (n,), (n,)
    const int* neighbors;                      // (n, K)
    const float *explicit_weights, *implicit_weights;
    float mean;
    int n, n_factors, is_linked;   // whether inverse lists are to follow
};

// The constant of a plain score, and the row in small numbers, for a current row.
__device__ __forceinline__ void open_row(const Catalog& items, int item, int place) {
    const Task nobody = {};
    const float* factors = items.factors + (long long)item * G;
    const float scale = scale_of(factors, LARGEST_SCALE, place);
    const Lost lost = lost_by(factors, scale, place);
    for (int f = 4 * place; f < G; f += 32)
        *(unsigned*)(items.rounded + (long long)item * ROW + f) = rounded4(*(const float4*)(factors + f), scale);
    const float begin = items.fixed[item] + terms(items, nobody, -1, item, place);
    if (place) return;
    const float reach = (fmaxf(lost.rest, USUAL * lost.whole) + 0x1p-14f * (lost.whole + lost.rest)) * (1 + 0x1p-12f);
    const unsigned rounding = __float_as_uint(scale) | (__float_as_uint(reach) + 0xffffu) >> 16;
    items.bounds[item] = {items.hidden[item] ? NONE : begin, rounding};
    atomicMax((int*)items.largest, __float_as_int(fabsf(begin)));
}

// Link item under its new neighbors. The chains only grow: a superfluous item costs an exact score.
__device__ __forceinline__ void link(const Catalog& items, const Fresh& fresh, int n, int item, int place) {
    for (int k = place; k < items.n_slots; k += 8) {
        const int x = fresh.neighbors[(long long)n * items.n_slots + k];
        bool is_new = x >= 0;
        for (int m = 0; is_new && m < items.n_slots; ++m) is_new = items.neighbors[(long long)item * items.n_slots + m] != x;
        if (!is_new) continue;
        const int at = atomicAdd(items.n_later, 1);
        items.later[at] = item;
        items.nexts[at] = atomicExch(items.heads + x, at);
    }
    __syncwarp(eight());
}

// Copy new rows. Grid: eight lanes a row.
extern "C" __global__ void __launch_bounds__(THREADS) renew(Catalog items, Fresh fresh) {
    const int n = (blockIdx.x * THREADS + threadIdx.x) / 8, place = threadIdx.x % 8;
    if (n >= fresh.n) return;
    const int item = fresh.items[n];
    if (fresh.is_linked) link(items, fresh, n, item, place);
    float* factors = const_cast<float*>(items.factors) + (long long)item * G;
    for (int f = place; f < G; f += 8) factors[f] = f < fresh.n_factors ? fresh.factors[(long long)n * fresh.n_factors + f] : 0.0f;
    for (int k = place; k < items.n_slots; k += 8) {
        const long long from = (long long)n * items.n_slots + k, to = (long long)item * items.n_slots + k;
        items.neighbors[to] = fresh.neighbors[from];
        items.explicit_weights[to] = fresh.explicit_weights[from], items.implicit_weights[to] = fresh.implicit_weights[from];
    }
    if (place == 0) items.fixed[item] = fresh.biases[n] + fresh.mean, items.baselines[row_of(items, item)] = fresh.baselines[n] + fresh.mean;
    __syncwarp(eight());
    open_row(items, item, place);
}

// Apply a change of `hidden` at `rows` (n,). Grid: eight lanes a row.
extern "C" __global__ void __launch_bounds__(THREADS) reopen(Catalog items, const int* rows, int n) {
    const int at = (blockIdx.x * THREADS + threadIdx.x) / 8;
    if (at < n) open_row(items, rows[at], threadIdx.x % 8);
}

// Replace the fixed parts of the scores of `rows` (n,), which are distinct. Grid: eight lanes a row.
extern "C" __global__ void __launch_bounds__(THREADS) restart(Catalog items, const int* rows, const float* starts, int n) {
    const int at = (blockIdx.x * THREADS + threadIdx.x) / 8, place = threadIdx.x % 8;
    if (at >= n) return;
    if (place == 0) items.fixed[rows[at]] = starts[at];
    __syncwarp(eight());
    open_row(items, rows[at], place);
}
