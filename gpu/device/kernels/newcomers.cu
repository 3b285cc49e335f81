// Refits of items newer than the snapshot ([004] Alg. 4 in closed form): see gpu/host/newcomers.py, whose steps and draws
// these are.
//
//   (Σ w x xᵀ + diag(λ n + λ0)) [v; w; c; b̂] = Σ w y x   over raters i (implicit: and drawn others) of one item,
//   x = [u_i; |R|^-½ (r_ik − b̄_ik) where k ∈ R(i;j); |N|^-½ where k ∈ N(i;j); 1], y = r_ij − μ − b_i.
//
// Compiled for one kind of model: F factors, K neighbours, IMPLICIT as 0 or 1, DIM = F + 1 + 2 K.
//
// Who owns what. `observe_items`: a block an item; it draws the raters that are read, sorts them, and a warp each works out
// their neighbour terms, a lane a neighbour, which is looked up by bisection in the rater's row. `solve_items`: a block an
// item, see ridge.cuh. Shared memory: a word a rater that is read and a count a term; two stages of observations.
//
// Limits: compute capability 8.0. Races: places of raters are given out by atomic adds and sorted afterwards; counts are
// whole numbers.
//
// Its parts are put before it, in this order: rows, blocks, draws, ridge.

struct Users {
    const float *factors, *bias, *baseline;
    const Word* keys;
    const long long* pool;    // trained users in the order of their keys,
    const Word* pool_keys;    // and these
    long long n_pool;
    float mean;
    int unused;
};
static_assert(sizeof(Users) == 64, "as NumPy writes it");

struct Items {  // those that are refitted, and where what is found goes
    const long long* rows;       // all new items
    const long long* due;        // which of them; the n-th block has the n-th of these
    const Word* keys;            // of all items
    const float* baseline;
    const unsigned* neighbours;  // none: 2^32 − 1
    float *factors, *bias, *explicit_weights, *implicit_weights;
    int* absent;                 // by new item: users drawn, −1 for none; (new items, ABSENT)
    long long n_items;
};

struct Observed {  // (items, room) observations: 2 K terms, user (−1: none), offset, target
    float* terms;
    int* users;
    float *offsets, *targets;
    int *lengths, *counts;    // observations; (items, 2 K + 1) in how many a term takes part, at last all
    int room, unused;
};

constexpr int OBSERVE_THREADS = 256, OBSERVE_WARPS = OBSERVE_THREADS / 32;

extern __shared__ __align__(16) unsigned char memory[];

// Put the raters that are read into `read`, in any order; returns how many.
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

// Sort `n` numbers, in place; `room` is a power of two and not below n.
__device__ __forceinline__ void sort(int* numbers, int n, int room) {
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

// A user who has not rated the item: the next in the pool at or after a random key, −1 if none was hit.
__device__ __forceinline__ int draw_absent(const Table& table, const Users& users, int item, Word item_key, Word rater_key, int number, Word seed) {
    for (int attempt = 0; attempt < MAX_DRAWS && users.n_pool; ++attempt) {
        const Word word = draw(seed, item_key, rater_key, number * MAX_DRAWS + attempt);
        const int user = (int)users.pool[find(users.pool_keys, 0, users.n_pool, word) % users.n_pool];
        if (!has_rated(table, user, item)) return user;
    }
    return -1;
}

// The terms of one observation, by all lanes of a warp; counts in `counts` which take part.
__device__ __forceinline__ void observe(const Table& table, const Users& users, const Items& side, int item, int user, float* terms, int* counts) {
    const long long start = table.by_user.starts[user], length = table.by_user.lengths[user];
    const double known = (double)users.mean + users.baseline[user];
    int n_rated = 0, n_unrated = 0;
    for (int first = 0; first < K; first += 32) {
        const int k = first + threadIdx.x % 32;
        const unsigned other = k < K ? side.neighbours[(long long)item * K + k] : ~0u;
        const bool is_there = other < (Word)side.n_items;
        const long long place = is_there ? find(table.items, start, length, (int)other) : start + length;
        const bool is_rated = place < start + length && table.items[place] == (int)other, is_unrated = is_there && !is_rated;
        if (k < K) {
            terms[k] = !is_rated ? 0.0f : IMPLICIT ? 1.0f : (float)(table.values[place] - (known + side.baseline[other]));
            terms[K + k] = is_unrated;
        }
        if (is_rated) atomicAdd(counts + k, 1);
        if (is_unrated) atomicAdd(counts + K + k, 1);
        n_rated += __popc(__ballot_sync(~0u, is_rated)), n_unrated += __popc(__ballot_sync(~0u, is_unrated));
    }
    const float rated = rsqrtf(max(n_rated, 1)), unrated = rsqrtf(max(n_unrated, 1));
    for (int k = threadIdx.x % 32; k < K; k += 32) terms[k] *= rated, terms[K + k] *= unrated;
}

// Grid: a block an item that is due. Shared memory: a power of two of words, `max_ratings` or more; then 2 K + 1 counts.
extern "C" __global__ void __launch_bounds__(OBSERVE_THREADS)
observe_items(Users users, Items side, Table table, Rules rules, Observed to, int n_words) {
    int* read = (int*)memory;
    int* counts = read + n_words;
    const long long slot = side.due[blockIdx.x];
    const int item = (int)side.rows[slot];
    const Word key = side.keys[item];
    for (int at = threadIdx.x; at <= 2 * K; at += OBSERVE_THREADS) counts[at] = 0;
    const int n_read = choose(table, users, item, key, rules, read);
    sort(read, n_read, n_words);
    const int each = rules.n_negatives, n = n_read * (1 + each);
    const long long base = (long long)blockIdx.x * to.room;
    for (int at = threadIdx.x; at < n; at += OBSERVE_THREADS) {
        int user = at < n_read ? read[at] : -1;
        if (IMPLICIT && at >= n_read) {
            const int drawn = at - n_read;
            user = draw_absent(table, users, item, key, users.keys[read[drawn / each]], drawn % each, rules.seed);
        }
        to.users[base + at] = user;
        if (user >= 0) atomicAdd(counts + 2 * K, 1);
    }
    __syncthreads();
    if (IMPLICIT)
        for (int at = threadIdx.x; at < each * rules.max_ratings; at += OBSERVE_THREADS)
            side.absent[slot * each * rules.max_ratings + at] = n_read + at < n ? to.users[base + n_read + at] : -1;
    for (int at = threadIdx.x / 32; at < n; at += OBSERVE_WARPS) {
        const int user = to.users[base + at];
        if (user < 0) continue;
        observe(table, users, side, item, user, to.terms + (base + at) * 2 * K, counts);
        if (threadIdx.x % 32 > 0) continue;
        to.offsets[base + at] = users.mean + users.bias[user];
        const long long start = table.by_user.starts[user];
        if (IMPLICIT) to.targets[base + at] = at < n_read;
        else to.targets[base + at] = table.values[find(table.items, start, table.by_user.lengths[user], item)];
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

// Ridge of the term in a physical column: see gpu/host/newcomers.py.
__device__ __forceinline__ float ridge_of(int column, const int* counts, const Rules& rules) {
    if (column < F) return rules.factor * counts[2 * K] + rules.factor_prior;
    if (column < F + 2 * K) return rules.weight * counts[column - F] + rules.weight_prior;
    return column == F + 2 * K ? rules.bias * counts[2 * K] + rules.bias_prior : 1.0f;
}

// Grid: a block an item that is due.
extern "C" __global__ void __launch_bounds__(THREADS)
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
            [&](int first, int turn) {
                for (int at = threadIdx.x / 32; at < STAGE; at += WARPS) {
                    const bool is_there = first + at < n && from.users[base + first + at] >= 0;
                    const long long place = base + first + at;
                    weigh(shared, turn, at, is_there ? from.offsets[place] : 0.0f, is_there ? from.targets[place] : 0.0f, is_there);
                }
            });
        solve(sums, shared);
    }
    for (int f = threadIdx.x; f < F; f += THREADS) side.factors[item * F + f] = shared.start[f];
    for (int k = threadIdx.x; k < K; k += THREADS) {
        side.explicit_weights[item * K + k] = shared.start[F + k];
        side.implicit_weights[item * K + k] = shared.start[F + K + k];
    }
    if (threadIdx.x == 0) side.bias[item] = shared.start[F + 2 * K];
}

// Grid: a block a new item. It is due where one of the users drawn for it was refitted.
extern "C" __global__ void __launch_bounds__(OBSERVE_THREADS)
mark_absent(const long long* rows, const int* absent, int room, const unsigned char* is_touched, unsigned char* is_due) {
    for (int at = threadIdx.x; at < room; at += OBSERVE_THREADS) {
        const int user = absent[(long long)blockIdx.x * room + at];
        if (user >= 0 && is_touched[user]) is_due[rows[blockIdx.x]] = 1;
    }
}

extern "C" __constant__ int geometry[3] = {THREADS, (int)sizeof(Shared), PARTIAL};
