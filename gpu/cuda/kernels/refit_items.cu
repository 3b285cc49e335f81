// Refits of items newer than the snapshot ([004] Alg. 4 in closed form): see gpu/online/host/refit_items.py, with the
// same steps and draws.
//
//   (Σ w x xᵀ + diag(λ n + λ0)) [v; w; c; b̂] = Σ w y x   over raters i (implicit: and drawn others) of one item,
//   x = [u_i; |R|^-½ (r_ik − b̄_ik) where k ∈ R(i;j); |N|^-½ where k ∈ N(i;j); 1], y = r_ij − μ − b_i.
//
// Compiled for one kind of model: F factors, K neighbors, IMPLICIT as 0 or 1, DIM = F + 1 + 2 K.
//
// Who owns what. `list_due`: a warp a new item. `refit_few`, for items of FEW raters or less and models of ratings: a block an item,
// whose observations lie in shared memory; it solves the dual system, with one unknown per observation,
//
//   (Z D⁻¹ Zᵀ + 1) a = y, x = D⁻¹ Zᵀ a,   D the ridge,
//
// in one warp, a lane a row. All others in two steps. `observe_items`: a block an item; it draws the raters that are read and sorts
// them. `solve_items`: a block an item, see ridge.cuh. Neighbor terms of an observation: LOOKERS lanes, each a neighbor,
// which is looked up by bisection in the rater's row. Shared memory: a word a rater that is read and a count a term; FEW
// observations; two stages of observations.
//
// Limits: two stages, and `Few`, fit a block's shared memory. Races: positions of raters are assigned by atomic adds
// and sorted afterward; so are positions in the list of due items, which do not affect the results; counts are whole
// numbers.
//
// Its parts are concatenated before it in this order: rows, blocks, draws, ridge.

struct Users {
    const float *factors, *bias, *baseline;
    const Word* keys;
    const long long* pool;    // trained users in the order of their keys
    const Word* pool_keys;    // keys of `pool`
    long long n_pool;
    float mean, middle, lift;  // implicit: a merit (evidence.cuh) below `middle` is a dislike
    int unused;
};
static_assert(sizeof(Users) == 72, "as NumPy writes it");

struct Items {  // the refitted items and their parameters
    const long long* rows;       // all new items
    const int* due;              // numbers in `rows`; block n has entry n
    const Word* keys;            // keys of all items
    const float* baseline;
    const unsigned* neighbors;  // none: 2^32 − 1
    float *factors, *bias, *explicit_weights, *implicit_weights;
    int* absent;                 // by new item: users drawn, −1 for none; (new items, ABSENT)
    long long n_items;
};

struct Observed {  // (items, room) observations: 2 K terms, user (−1: none), offset, target
    float* terms;
    int* users;
    float *offsets, *targets;
    int *lengths, *counts;    // observations; (items, 2 K + 1) observations with each term, then all
    int room, unused;
};

constexpr int OBSERVE_THREADS = 256, OBSERVE_WARPS = OBSERVE_THREADS / 32;
constexpr int LOOKERS = K > 16 ? 32 : 16;
constexpr int FEW = IMPLICIT || DIM > 512 ? 0 : 32, FEW_THREADS = 128;  // FEW: the lanes of a warp

extern __shared__ __align__(16) unsigned char memory[];

// Write the raters to read into `read`, in any order; returns their number.
__device__ __forceinline__ int choose(const Table& table, const Users& users, int item, Word key, const Rules& rules, int* read) {
    __shared__ int n_read;
    const int* raters = table.raters + table.by_item.starts[item];
    const long long length = table.by_item.lengths[item];
    Word bound = ~(Word)0;
    const auto word_of = [&](long long n) { return draw(rules.seed, key, users.keys[raters[n]], 0); };
    if (length > rules.max_ratings) bound = ranked_word<OBSERVE_WARPS>(length, rules.max_ratings + 1, word_of);
    if (threadIdx.x == 0) n_read = 0;
    __syncthreads();
    for (long long n = threadIdx.x; n < length; n += OBSERVE_THREADS)
        if (length <= rules.max_ratings || word_of(n) < bound) read[atomicAdd(&n_read, 1)] = raters[n];
    __syncthreads();
    return n_read;
}

// Sort `n` numbers in place; the array has room for the next power of two.
__device__ __forceinline__ void sort(int* numbers, int n) {
    int room = 1;
    while (room < n) room *= 2;
    for (int at = n + threadIdx.x; at < room; at += OBSERVE_THREADS) numbers[at] = 0x7fffffff;
    for (int size = 2; size <= room; size *= 2)
        for (int apart = size / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (int at = threadIdx.x; at < room; at += OBSERVE_THREADS) {
                const int other = at ^ apart;
                if (other < at) continue;
                const int one = numbers[at], two = numbers[other];
                if ((one > two) == ((at & size) == 0)) numbers[at] = two, numbers[other] = one;
            }
        }
    __syncthreads();
}

// A user who has not rated the item: the next in the pool at or after a random key; −1 if all draws fail.
__device__ __forceinline__ int draw_absent(const Table& table, const Users& users, int item, Word item_key, Word rater_key, int number, Word seed) {
    for (int attempt = 0; attempt < MAX_DRAWS && users.n_pool; ++attempt) {
        const Word word = draw(seed, item_key, rater_key, number * MAX_DRAWS + attempt);
        const int user = (int)users.pool[find(users.pool_keys, 0ll, users.n_pool, word) % users.n_pool];
        if (!has_rated(table, user, item)) return user;
    }
    return -1;
}

// Lanes among the LOOKERS of this one for which `holds`.
__device__ __forceinline__ int count_lookers(bool holds) {
    return __popc(__ballot_sync(~0u, holds) >> threadIdx.x % 32 / LOOKERS * LOOKERS & (unsigned)((1ull << LOOKERS) - 1));
}

// The terms of one observation, by LOOKERS lanes; adds the used ones to `counts`. For all lanes of a warp; user −1: no
// terms.
__device__ __forceinline__ void observe(const Table& table, const Users& users, const Items& side, int item, int user, float* terms, int* counts) {
    const bool is_user = user >= 0;
    const long long start = is_user ? table.by_user.starts[user] : 0, length = is_user ? table.by_user.lengths[user] : 0;
    const double known = is_user ? (double)users.mean + users.baseline[user] : 0.0;
    int n_rated = 0, n_unrated = 0;
    for (int first = 0; first < K; first += LOOKERS) {
        const int k = first + threadIdx.x % LOOKERS;
        const unsigned other = is_user && k < K ? side.neighbors[(long long)item * K + k] : ~0u;
        const bool is_there = other < (Word)side.n_items;
        const long long place = is_there ? find(table.items, start, length, (int)other) : start + length;
        const bool is_rated = place < start + length && table.items[place] == (int)other, is_unrated = is_there && !is_rated;
        if (is_user && k < K) {
            const float value = is_rated ? table.values[place] : 0.0f;
            terms[k] = !is_rated ? 0.0f : IMPLICIT ? (merit_of(value, users.lift) < users.middle ? -1.0f : 1.0f) : (float)(value - (known + side.baseline[other]));
            terms[K + k] = is_unrated;
        }
        if (is_rated) atomicAdd(counts + k, 1);
        if (is_unrated) atomicAdd(counts + K + k, 1);
        n_rated += count_lookers(is_rated), n_unrated += count_lookers(is_unrated);
    }
    const float rated = rsqrtf(max(n_rated, 1)), unrated = rsqrtf(max(n_unrated, 1));
    for (int k = threadIdx.x % LOOKERS; is_user && k < K; k += LOOKERS) terms[k] *= rated, terms[K + k] *= unrated;
}

__device__ __forceinline__ float rating_of(const Table& table, int user, int item) {
    return table.values[find(table.items, table.by_user.starts[user], table.by_user.lengths[user], item)];
}

__device__ __forceinline__ bool is_like(const Table& table, const Users& users, int user, int item) {
    return merit_of(rating_of(table, user, item), users.lift) >= users.middle;
}

// Ridge of the term in a physical column: see gpu/online/host/refit_items.py.
__device__ __forceinline__ float ridge_of(int column, const int* counts, const Rules& rules) {
    if (column < F) return rules.factor * counts[2 * K] + rules.factor_prior;
    const float unit = column < F + K ? rules.weight_unit : 1.0f;
    if (column < F + 2 * K) return unit * (rules.weight * counts[column - F] + rules.weight_prior);
    return column == F + 2 * K ? rules.bias * counts[2 * K] + rules.bias_prior : 1.0f;
}

// Store term `column` of an item's solution in its array.
__device__ __forceinline__ void write_term(const Items& side, long long item, int column, float term) {
    if (column < F) side.factors[item * F + column] = term;
    else if (column < F + K) side.explicit_weights[item * K + column - F] = term;
    else if (column < F + 2 * K) side.implicit_weights[item * K + column - F - K] = term;
    else side.bias[item] = term;
}

// --- due --------------------------------------------------------------------------------------------------------------

// Lists the new items that are due: a neighbor, a rater or one of the users drawn for it has changed. Writes their
// slots into `due`, items with few raters from the front, all others from the back, and counts the former and all in
// `n_due`. Grid: a warp of `n` new items.
extern "C" __global__ void __launch_bounds__(OBSERVE_THREADS) list_due(
    const long long* rows, int n, const int* absent, int n_absent, const unsigned char* is_touched, const long long* n_raters,
    unsigned char* is_due, int* due, long long* items, int* n_due
) {
    const int slot = (blockIdx.x * OBSERVE_THREADS + threadIdx.x) / 32;
    if (slot >= n) return;
    const long long item = rows[slot];
    bool found = is_due[item];
    for (int at = threadIdx.x % 32; at < n_absent; at += 32) {
        const int user = absent[(long long)slot * n_absent + at];
        found |= user >= 0 && is_touched[user];
    }
    if (!__ballot_sync(~0u, found) || threadIdx.x % 32 > 0) return;
    is_due[item] = 0;
    items[atomicAdd(n_due + 2, 1)] = item;
    if (FEW && n_raters[item] <= FEW) due[atomicAdd(n_due, 1)] = slot;
    else due[n - 1 - atomicAdd(n_due + 1, 1)] = slot;
}

// Ratings that are deleted make their items due, if these are new. Grid: a thread a pair.
extern "C" __global__ void __launch_bounds__(OBSERVE_THREADS)
mark_deleted(const int* pairs, int n, const int* items, const unsigned char* is_trained, unsigned char* is_due) {
    const int at = blockIdx.x * OBSERVE_THREADS + threadIdx.x;
    if (at < n && !is_trained[items[pairs[at]]]) is_due[items[pairs[at]]] = 1;
}

// --- few raters -------------------------------------------------------------------------------------------------------

struct Few {
    float rows[FEW ? FEW : 1][DIM], products[32][33];  // z; Z D⁻¹ Zᵀ, then the factor of the system
    float inverse[DIM], targets[32];                   // inverse of the ridge; y, then a
    int raters[32], counts[2 * K + 1];
};

// Solve (products + 1) a = targets in one warp by Cholesky, a lane a row; a takes the place of `targets`.
__device__ __forceinline__ void solve_dual(Few& few, int n) {
    const int lane = threadIdx.x % 32;
    float row[32], right = lane < n ? few.targets[lane] : 0.0f, inverse = 0;
#pragma unroll
    for (int c = 0; c < 32; ++c) row[c] = (lane < n && c < n ? few.products[max(lane, c)][min(lane, c)] : 0.0f) + (c == lane);
#pragma unroll
    for (int j = 0; j < 32; ++j) {
        if (j >= n) break;
        const float scale = rsqrtf(__shfl_sync(~0u, row[j], j));
        row[j] *= scale;
        if (lane == j) right *= scale, inverse = scale;
        const float solved = __shfl_sync(~0u, right, j);
        if (lane > j) right -= row[j] * solved;
#pragma unroll
        for (int c = j + 1; c < 32; ++c) row[c] -= row[j] * __shfl_sync(~0u, row[j], c);
    }
    __syncwarp();
#pragma unroll
    for (int c = 0; c < 32; ++c) few.products[lane][c] = row[c];
    __syncwarp();
    for (int j = n - 1; j >= 0; --j) {
        const float solved = __shfl_sync(~0u, right * inverse, j);
        if (lane == j) right = solved;
        if (lane < j) right -= few.products[j][lane] * solved;
    }
    if (lane < n) few.targets[lane] = right;
}

// Write the raters in ascending order into `few`, with their targets. For one warp.
__device__ __forceinline__ void read_few(Few& few, const Table& table, const Users& users, int item, int n) {
    const int lane = threadIdx.x;
    const int user = lane < n ? table.raters[table.by_item.starts[item] + lane] : 0x7fffffff;
    int rank = 0;
    for (int other = 0; other < 32; ++other) rank += __shfl_sync(~0u, user, other) < user;
    if (lane >= n) return;
    few.raters[rank] = user;
    few.targets[rank] = rating_of(table, user, item) - (users.mean + users.bias[user]);
}

// Grid: a block an item that is due. Shared memory: `Few`.
extern "C" __global__ void __launch_bounds__(FEW_THREADS) refit_few(Users users, Items side, Table table, Rules rules) {
    Few& few = *(Few*)memory;
    const int item = (int)side.rows[side.due[blockIdx.x]], n = min(FEW, (int)table.by_item.lengths[item]);
    for (int at = threadIdx.x; at <= 2 * K; at += FEW_THREADS) few.counts[at] = at < 2 * K ? 0 : n;
    if (threadIdx.x < 32) read_few(few, table, users, item, n);
    __syncthreads();
    for (int at = threadIdx.x; at < n * F; at += FEW_THREADS) few.rows[at / F][at % F] = users.factors[(long long)few.raters[at / F] * F + at % F];
    for (int first = 0; first < n; first += FEW_THREADS / LOOKERS) {
        const int at = first + threadIdx.x / LOOKERS;
        observe(table, users, side, item, at < n ? few.raters[at] : -1, &few.rows[min(at, n - 1)][F], few.counts);
        if (at < n && threadIdx.x % LOOKERS == 0) few.rows[at][DIM - 1] = 1;
    }
    __syncthreads();
    for (int column = threadIdx.x; column < DIM; column += FEW_THREADS) few.inverse[column] = 1 / ridge_of(column, few.counts, rules);
    __syncthreads();
    for (int at = threadIdx.x; at < n * (n + 1) / 2; at += FEW_THREADS) {
        const Tile pair = tile_of(at);
        float sum = 0;
#pragma unroll 4
        for (int column = 0; column < DIM; ++column) sum += few.rows[pair.row][column] * few.inverse[column] * few.rows[pair.column][column];
        few.products[pair.row][pair.column] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) solve_dual(few, n);
    __syncthreads();
    for (int column = threadIdx.x; column < DIM; column += FEW_THREADS) {
        float sum = 0;
        for (int at = 0; at < n; ++at) sum += few.rows[at][column] * few.targets[at];
        write_term(side, item, column, sum * few.inverse[column]);
    }
}

// --- many raters ------------------------------------------------------------------------------------------------------

// Grid: a block an item that is due. Shared memory: a power of two of words, `max_ratings` or more; then 2 K + 1 counts.
extern "C" __global__ void __launch_bounds__(OBSERVE_THREADS)
observe_items(Users users, Items side, Table table, Rules rules, Observed to, int n_words) {
    int* read = (int*)memory;
    int* counts = read + n_words;
    const int slot = side.due[blockIdx.x], item = (int)side.rows[slot];
    const Word key = side.keys[item];
    for (int at = threadIdx.x; at <= 2 * K; at += OBSERVE_THREADS) counts[at] = 0;
    const int n_read = choose(table, users, item, key, rules, read);
    sort(read, n_read);
    const int each = rules.n_negatives, n = n_read * (1 + each);
    const long long base = (long long)blockIdx.x * to.room, n_absent = (long long)each * rules.max_ratings;
    for (int at = threadIdx.x; at < n; at += OBSERVE_THREADS) {
        int user = at < n_read ? read[at] : -1;
        if (IMPLICIT && at >= n_read) {
            const int drawn = at - n_read, rater = read[drawn / each];
            if (is_like(table, users, rater, item)) user = draw_absent(table, users, item, key, users.keys[rater], drawn % each, rules.seed);
        }
        to.users[base + at] = user;
        if (user < 0) continue;
        atomicAdd(counts + 2 * K, 1);
        to.offsets[base + at] = users.mean + users.bias[user];
        to.targets[base + at] = IMPLICIT ? (float)(at < n_read && is_like(table, users, user, item)) : rating_of(table, user, item);
    }
    __syncthreads();
    for (int at = threadIdx.x; IMPLICIT && at < n_absent; at += OBSERVE_THREADS)
        side.absent[slot * n_absent + at] = n_read + at < n ? to.users[base + n_read + at] : -1;
    for (int first = 0; K > 0 && first < n; first += OBSERVE_THREADS / LOOKERS) {
        const int at = first + threadIdx.x / LOOKERS;
        observe(table, users, side, item, at < n ? to.users[base + at] : -1, to.terms + (base + at) * 2 * K, counts);
    }
    __syncthreads();
    for (int at = threadIdx.x; at <= 2 * K; at += OBSERVE_THREADS) to.counts[(long long)blockIdx.x * (2 * K + 1) + at] = counts[at];
    if (threadIdx.x == 0) to.lengths[blockIdx.x] = n;
}

__device__ __forceinline__ void stage_observations(Shared& shared, int turn, const Observed& from, long long first, int n, const Users& users) {
    const auto user_of = [&](int at) { return at < n ? from.users[first + at] : -1; };
    stage_columns<F, 0>(shared, turn, users.factors, [&](int at) { return user_of(at) < 0 ? -1ll : (long long)user_of(at) * F; });
    if constexpr (K > 0)
        stage_columns<2 * K, F>(shared, turn, from.terms, [&](int at) { return user_of(at) < 0 ? -1ll : (first + at) * 2 * K; });
    if (threadIdx.x >= STAGE) return;
    float* row = shared.rows[turn][threadIdx.x];
    const bool is_there = user_of(threadIdx.x) >= 0;
    row[DIM - 1] = is_there;
    if (!IMPLICIT) row[LAST] = is_there ? from.targets[first + threadIdx.x] - from.offsets[first + threadIdx.x] : 0.0f;
}

// Grid: a block an item that is due.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
solve_items(Users users, Items side, Rules rules, Observed from) {
    Shared& shared = *(Shared*)memory;
    const long long item = side.rows[side.due[blockIdx.x]], base = (long long)blockIdx.x * from.room;
    const int n = from.lengths[blockIdx.x];
    for (int at = threadIdx.x; at < WIDTH; at += THREADS) {
        shared.start[at] = 0;
        shared.ridge[at] = ridge_of(at, from.counts + (long long)blockIdx.x * (2 * K + 1), rules);
    }
    for (int step = 0; step < (IMPLICIT ? rules.n_steps : 1); ++step) {
        Sums sums[HELD];
        clear(sums);
        add_observations<IMPLICIT>(
            sums, shared, n, [&](int first, int turn) { stage_observations(shared, turn, from, base + first, n - first, users); },
            [&](int at) {
                const bool is_there = from.users[base + at] >= 0;
                return is_there ? Observation{from.offsets[base + at], from.targets[base + at], 1} : Observation{0, 0, 0};
            });
        solve(sums, shared);
    }
    for (int column = threadIdx.x; column < DIM; column += THREADS) write_term(side, item, column, shared.start[column]);
}

// Of `solve_items`: threads, bytes of shared memory; bytes of shared memory of `refit_few`.
extern "C" __constant__ int geometry[3] = {THREADS, (int)sizeof(Shared), (int)sizeof(Few)};
