// Refits of single users ([004] Alg. 4 in closed form): see gpu/online/host/refit_users.py, with the same steps and
// draws.
//
//   (Σ w z zᵀ + diag(λ n + λ0) + P) [u; b] = Σ w y z   over samples of one user's ratings of trained items, z = [v_j; 1],
//   y = r − μ − b̂_j − the neighbor terms of [004] eq. 1; implicit: Newton steps on the cross-entropy, with drawn negatives.
//
// Compiled for one kind of model: F factors, K neighbors, IMPLICIT as 0 or 1, DIM = F + 1.
//
// Who owns what. `describe_users`: a block a user; lists the learned ratings and the positions of their samples. All
// others: a block a part of PART samples of a user, so that a user with very many ratings takes little longer than
// others. `list_samples`: a thread a sample, which it draws; then a warp a sample, whose neighbor terms it computes, a
// lane a neighbor. The user's rated items lie in shared memory, ascending, with the first position of each of BUCKETS
// ranges of items, so that a look-up takes a step or two. `solve_users` forms a share of the system, see ridge.cuh; the
// last block of a user adds all shares in order and solves. The result depends on that user only. One launch a Newton
// step.
//
// Shared memory: 8 bytes a learned rating, the buckets, the samples; two stages of samples. Limits: `max_ratings` times
// 8 bytes, and 16 KB, fit a block's shared memory. Races: flags, which are only set to 1; positions of samples and
// parts are assigned by atomic adds, which do not affect the results.
//
// Its parts are concatenated before it in this order: rows, blocks, draws, ridge.

struct Items {  // the fixed side
    const float *factors, *bias, *baseline, *explicit_weights, *implicit_weights;
    const unsigned* neighbors;  // none: 2^32 − 1
    const unsigned char* is_trained;
    const Word* keys;
    const long long* pool;       // trained items in the order of their keys
    long long n_items, n_pool;
    float mean, middle, lift;    // implicit: a merit (evidence.cuh) below `middle` is a dislike
    int unused;
};
static_assert(sizeof(Items) == 104, "as NumPy writes it");

struct Sample {
    int item;  // −1: none
    float offset, target, count;
};

struct Users {  // users that may be refitted
    const Word* keys;
    float *factors, *bias, *baseline;
    unsigned char *is_touched, *is_due;  // by user: refitted just now; by item: new, and rated by one of these
};

struct Part {  // a part of the samples of a user of the batch
    int user, number;
};

struct Described {  // intermediate results; arrays are by user of the batch unless noted
    Sample* samples;
    int* items;                 // learned items, at the positions of the samples
    float* values;              // their ratings
    double* baselines;          // b̄_i
    long long *starts, *slots;  // first sample, first position in `partials`
    int *lengths, *learned, *arrived;
    int *rated, *drawn;         // numbers of rated and of drawn samples
    Part* parts;                // by part
    Word* taken;                // SAMPLES, PARTS, SLOTS: 0 between batches
    float* partials;
};

enum Taken { SAMPLES, PARTS, SLOTS };
constexpr int PART = 512, DESCRIBE_THREADS = 512;  // as in gpu/online/device/refit_users.py
constexpr int DESCRIBE_WARPS = DESCRIBE_THREADS / 32;
constexpr int BUCKETS = 2048;

extern __shared__ __align__(16) unsigned char memory[];

// Number of draws for each of n learned ratings.
__device__ __forceinline__ int draws_of(const Rules& rules, int n) {
    return IMPLICIT ? min(rules.n_negatives, max(1, rules.max_negatives / max(1, n))) : 0;
}

// `take(place, at)` for the newest ratings of a row, in ascending order; returns their number.
template <class Take> __device__ __forceinline__ int learn(const Table& table, long long start, long long length, int most, Take take) {
    if (length <= most) {
        for (int n = threadIdx.x; n < length; n += DESCRIBE_THREADS) take(n, start + n);
        return (int)length;
    }
    const long long* positions = table.positions + start;
    const Word first = ranked_word<DESCRIBE_WARPS>(length, length - most + 1, [&](long long n) { return (Word)positions[n]; });
    int n_learned = 0;
    for (long long at = 0; at < length; at += DESCRIBE_THREADS) {
        const long long n = at + threadIdx.x;
        const bool is_learned = n < length && (Word)positions[n] >= first;
        int total;
        const int place = n_learned + sum_before<DESCRIBE_WARPS>(is_learned, total);
        if (is_learned) take(place, start + n);
        n_learned += total;
    }
    return n_learned;
}

// Assign positions to the samples of a user and list their parts; returns the first position.
__device__ __forceinline__ long long place_samples(Described& to, int n_samples) {
    __shared__ long long place, part;
    const int n_parts = max(1, (n_samples + PART - 1) / PART);
    if (threadIdx.x == 0) {
        place = atomicAdd(to.taken + SAMPLES, (Word)n_samples), part = atomicAdd(to.taken + PARTS, (Word)n_parts);
        to.starts[blockIdx.x] = place, to.lengths[blockIdx.x] = n_samples;
        if (n_parts > 1) to.slots[blockIdx.x] = atomicAdd(to.taken + SLOTS, (Word)n_parts);
    }
    __syncthreads();
    for (int n = threadIdx.x; n < n_parts; n += DESCRIBE_THREADS) to.parts[part + n] = {(int)blockIdx.x, n};
    return place;
}

// Grid: a block a user.
extern "C" __global__ void __launch_bounds__(DESCRIBE_THREADS)
describe_users(Users users, const int* rows, Table table, Items side, Rules rules, Described to) {
    const int user = rows[blockIdx.x];
    const long long start = table.by_user.starts[user], length = table.by_user.lengths[user];
    const int n = (int)min(length, (long long)rules.max_ratings);
    const long long place = place_samples(to, n * (1 + draws_of(rules, n)));
    double total = 0;
    learn(table, start, length, rules.max_ratings, [&](int at, long long from) {
        const float value = table.values[from];
        to.items[place + at] = table.items[from], to.values[place + at] = value;
        total += value - side.mean;
    });
    for (long long at = threadIdx.x; at < length; at += DESCRIBE_THREADS) {
        const int item = table.items[start + at];
        if (!side.is_trained[item]) users.is_due[item] = 1;
    }
    const double baseline = IMPLICIT ? 0.0 : sum_of_block<DESCRIBE_WARPS>(total) / (n + rules.baseline_prior);
    if (threadIdx.x > 0) return;
    to.learned[blockIdx.x] = n, to.baselines[blockIdx.x] = baseline;
    to.rated[blockIdx.x] = to.drawn[blockIdx.x] = to.arrived[blockIdx.x] = 0;
    users.baseline[user] = baseline;
    users.is_touched[user] = 1;
}

struct Rated {  // the rated and the learned items of a user, in shared memory
    int* items;        // ascending
    float* residuals;
    int *firsts, n;    // the first place of each bucket, and n
    int shift;         // a bucket has 2^shift items
    bool is_all;       // true if all rated items are learned
};

// Load the learned ratings of the `owner`-th user of the batch into shared memory. For all threads of a block.
__device__ __forceinline__ Rated rated_by(const Described& of, const Items& side, const Rules& rules, int owner, bool is_all) {
    const long long start = of.starts[owner];
    const double known = side.mean + of.baselines[owner];
    int shift = 0;
    while ((side.n_items - 1) >> shift >= BUCKETS) ++shift;
    Rated rated = {(int*)memory, (float*)memory + rules.max_ratings, (int*)memory + 2 * rules.max_ratings, of.learned[owner], shift, is_all};
    for (int at = threadIdx.x; at < rated.n; at += PART) {
        const int item = rated.items[at] = of.items[start + at];
        const float value = of.values[start + at];
        rated.residuals[at] = IMPLICIT ? (merit_of(value, side.lift) < side.middle ? -1.0f : 1.0f) : (float)(value - (known + side.baseline[item]));
    }
    __syncthreads();
    for (int bucket = threadIdx.x; bucket <= BUCKETS; bucket += PART)
        rated.firsts[bucket] = bucket < BUCKETS ? find(rated.items, 0, rated.n, bucket << shift) : rated.n;
    __syncthreads();
    return rated;
}

// Position of an item, −1 if it is not learned.
__device__ __forceinline__ int place_of(const Rated& rated, int item) {
    const int* const firsts = rated.firsts + (item >> rated.shift);
    const int place = find(rated.items, firsts[0], firsts[1] - firsts[0], item);
    return place < firsts[1] && rated.items[place] == item ? place : -1;
}

// A trained item that is not rated; −1 if all draws fail.
__device__ __forceinline__ int draw_unrated(const Table& table, const Items& side, const Rated& rated, int user, Word key, Word item_key, int number, Word seed) {
    for (int attempt = 0; attempt < MAX_DRAWS; ++attempt) {
        const Word word = draw(seed, key, item_key, number * MAX_DRAWS + attempt);
        const int item = (int)side.pool[(word >> 32) * (Word)side.n_pool >> 32];
        if (place_of(rated, item) < 0 && (rated.is_all || !has_rated(table, user, item))) return item;
    }
    return -1;
}

// Sum of both neighbor terms of `item`; for all lanes of a warp.
__device__ __forceinline__ float neighbor_terms(const Items& side, int item, const Rated& rated) {
    float of_rated = 0, of_unrated = 0;
    int n_rated = 0, n_unrated = 0;
    for (int first = 0; first < K; first += 32) {
        const int k = first + threadIdx.x % 32;
        const long long at = (long long)item * K + k;
        const unsigned other = k < K ? side.neighbors[at] : ~0u;
        const bool is_there = other < (Word)side.n_items;
        const int place = is_there ? place_of(rated, (int)other) : -1;
        if (place >= 0) of_rated += rated.residuals[place] * side.explicit_weights[at];
        else if (is_there) of_unrated += side.implicit_weights[at];
        n_rated += __popc(__ballot_sync(~0u, place >= 0)), n_unrated += __popc(__ballot_sync(~0u, is_there && place < 0));
    }
    return sum_of_lanes(of_rated * rsqrtf(max(n_rated, 1)) + of_unrated * rsqrtf(max(n_unrated, 1)));
}

// The s-th sample of a user with these ratings, without its neighbor terms.
__device__ __forceinline__ Sample sample_of(const Table& table, const Items& side, const Rules& rules, const Rated& rated, int user, Word key, int s, float value) {
    const int n_draws = draws_of(rules, rated.n), number = s % (1 + n_draws) - 1, place = s / (1 + n_draws), item = rated.items[place];
    const bool is_like = !IMPLICIT || rated.residuals[place] > 0;
    int chosen = side.is_trained[item] ? item : -1;
    if (IMPLICIT && chosen >= 0 && number >= 0)
        chosen = is_like ? draw_unrated(table, side, rated, user, key, side.keys[item], number, rules.seed) : -1;
    if (chosen < 0) return {-1, 0, 0, 0};
    const bool is_drawn = number >= 0;
    const float share = is_drawn ? (float)rules.n_negatives / n_draws : 1.0f;
    return {chosen, side.mean + side.bias[chosen], is_drawn ? 0.0f : IMPLICIT ? (float)is_like : value, share};
}

__device__ __forceinline__ void count_samples(bool is_there, int* count) {
    const unsigned there = __ballot_sync(~0u, is_there);
    if (threadIdx.x % 32 == 0 && there) atomicAdd(count, __popc(there));
}

// Grid: a block a part, or more. Shared memory: `max_ratings` items and as many residuals, BUCKETS + 1 places.
extern "C" __global__ void __launch_bounds__(PART) list_samples(Users users, const int* rows, Table table, Items side, Rules rules, Described of) {
    if (blockIdx.x >= of.taken[PARTS]) return;
    __shared__ Sample samples[PART];
    const Part part = of.parts[blockIdx.x];
    const int user = rows[part.user], first = part.number * PART, n = min(PART, of.lengths[part.user] - first);
    const Rated rated = rated_by(of, side, rules, part.user, table.by_user.lengths[user] <= rules.max_ratings);
    Sample mine = {-1, 0, 0, 0};
    if (threadIdx.x < n) {
        const float value = IMPLICIT ? 1.0f : of.values[of.starts[part.user] + first + threadIdx.x];
        mine = sample_of(table, side, rules, rated, user, users.keys[user], first + threadIdx.x, value);
    }
    const bool is_drawn = IMPLICIT && (first + threadIdx.x) % (1 + draws_of(rules, rated.n)) > 0;
    count_samples(mine.item >= 0 && !is_drawn, of.rated + part.user);
    count_samples(mine.item >= 0 && is_drawn, of.drawn + part.user);
    samples[threadIdx.x] = mine;
    __syncthreads();
    for (int at = threadIdx.x / 32; K > 0 && at < n; at += PART / 32) {
        if (samples[at].item < 0) continue;
        const float terms = neighbor_terms(side, samples[at].item, rated);
        if (threadIdx.x % 32 == 0) samples[at].offset += terms;
    }
    __syncthreads();
    if (threadIdx.x < n) of.samples[of.starts[part.user] + first + threadIdx.x] = samples[threadIdx.x];
}

struct Solving {
    Shared shared;
    Sample samples[PART];
};

__device__ __forceinline__ void stage_samples(Solving& held, int turn, int first, int n, const Items& side) {
    const auto item_of = [&](int at) { return first + at < n ? held.samples[first + at].item : -1; };
    stage_columns<F, 0>(held.shared, turn, side.factors, [&](int at) { return item_of(at) < 0 ? -1ll : (long long)item_of(at) * F; });
    if (threadIdx.x >= STAGE) return;
    float* row = held.shared.rows[turn][threadIdx.x];
    const bool is_there = item_of(threadIdx.x) >= 0;
    const Sample& sample = held.samples[min(first + (int)threadIdx.x, PART - 1)];
    row[F] = is_there;
    if (!IMPLICIT) row[LAST] = is_there ? sample.target - sample.offset : 0.0f;
}

// Start of the step and ridge of a user with `count` observations.
__device__ __forceinline__ void begin(Shared& shared, const Users& users, long long user, float count, const Rules& rules, int step) {
    for (int at = threadIdx.x; at < WIDTH; at += THREADS) {
        shared.start[at] = step == 0 || at > F ? 0.0f : at < F ? users.factors[user * F + at] : users.bias[user];
        shared.ridge[at] = at < F ? rules.factor * count + rules.factor_prior : at == F ? rules.bias * count + rules.bias_prior : 1.0f;
    }
}

// Grid: a block a part, or more. `step`: of Newton's method, from 0. `spread`: P, see gpu/data/refit_rules.py, as `add_matrix` takes it,
// or null; models of ratings only, whose steps start from 0.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
solve_users(Users users, const int* rows, Items side, Rules rules, Described from, int step, const float* spread) {
    if (blockIdx.x >= from.taken[PARTS]) return;
    Solving& held = *(Solving*)memory;
    Shared& shared = held.shared;
    const Part part = from.parts[blockIdx.x];
    const int length = from.lengths[part.user], first = part.number * PART, n = min(PART, length - first);
    const Sample* samples = from.samples + from.starts[part.user] + first;
    const long long user = rows[part.user];
    const int n_draws = draws_of(rules, from.learned[part.user]);
    const float share = n_draws ? (float)rules.n_negatives / n_draws : 0.0f;
    begin(shared, users, user, from.rated[part.user] + share * from.drawn[part.user], rules, step);
    for (int at = threadIdx.x; at < n; at += THREADS) held.samples[at] = samples[at];
    Sums sums[HELD];
    clear(sums);
    add_observations<IMPLICIT>(
        sums, shared, n, [&](int at, int turn) { stage_samples(held, turn, at, n, side); },
        [&](int at) { return Observation{held.samples[at].offset, held.samples[at].target, held.samples[at].count}; });
    if (length > PART) {
        float* partials = from.partials + from.slots[part.user] * PARTIAL;
        if (!is_last(sums, partials, part.number, (length + PART - 1) / PART, from.arrived + part.user)) return;
    }
    if (!IMPLICIT && spread) for_tiles(sums, [&](Tile tile, Sums& mine) { add_matrix(mine, tile, spread); });
    solve(sums, shared);
    for (int f = threadIdx.x; f < F; f += THREADS) users.factors[user * F + f] = shared.start[f];
    if (threadIdx.x == 0) users.bias[user] = shared.start[F];
}

// Of `solve_users`: threads, bytes of shared memory, numbers of a block's sums.
extern "C" __constant__ int geometry[3] = {THREADS, (int)sizeof(Solving), PARTIAL};
