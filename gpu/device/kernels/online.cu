// Refits of single users ([004] Alg. 4 in closed form): see gpu/host/online.py, whose steps and draws these are.
//
//   (Σ w z zᵀ + diag(λ n + λ0) + P) [u; b] = Σ w y z   over samples of one user's ratings of trained items, z = [v_j; 1],
//   y = r − μ − b̂_j − the neighbour terms of [004] eq. 1; implicit: Newton steps on the cross-entropy, with drawn negatives.
//
// Compiled for one kind of model: F factors, K neighbours, IMPLICIT as 0 or 1, DIM = F + 1.
//
// Who owns what. `describe_users`: a block a user; lists what is learned and draws negatives. `explain_samples`: a block a
// part of PART samples of a user, whose ratings lie in shared memory, ascending; a warp works out the neighbour terms of a
// sample, a lane a neighbour, which is looked up by bisection. `solve_users`: a block a part forms its share of the system,
// see ridge.cuh; the last block of a user adds all shares in order and solves. So a user with very many ratings takes hardly
// longer than any other, and the result depends on nothing but that user. One launch a Newton step.
//
// Shared memory: 8 bytes a learned rating; two stages of samples. Limits: compute capability 8.0; `max_ratings` times 8
// bytes fit a block's shared memory. Races: flags, which all set to 1; where samples and parts lie is given out by atomic
// adds and leaves no trace.
//
// Its parts are put before it, in this order: rows, blocks, draws, ridge.

struct Items {  // the side that stands still
    const float *factors, *bias, *baseline, *explicit_weights, *implicit_weights;
    const unsigned* neighbours;  // none: 2^32 − 1
    const unsigned char* is_trained;
    const Word* keys;
    const long long* pool;       // trained items in the order of their keys
    long long n_items, n_pool;
    float mean;
    int unused;
};
static_assert(sizeof(Items) == 96, "as NumPy writes it");

struct Sample {
    int item;  // −1: none
    float offset, target, count;
};

struct Users {  // those that are refitted, and where what is found goes
    const int* rows;
    const Word* keys;            // of all users
    float *factors, *bias, *baseline;
    unsigned char *is_touched, *is_due;  // by user: refitted just now; by item: new, and rated by one of these
};

struct Part {  // of the samples of a user of the batch
    int user, number;
};

struct Described {
    Sample* samples;
    int* items;             // what is learned, at the places of the samples,
    float* residuals;       // and what neighbour terms make of it
    long long *starts, *slots;  // by user of the batch: the first sample, the first place in `partials`
    int *lengths, *learned, *arrived;
    float* counts;          // observations that the samples stand for
    Part* parts;
    Word* taken;            // SAMPLES, PARTS, SLOTS
    float* partials;
};

enum Taken { SAMPLES, PARTS, SLOTS };
constexpr int PART = 512;  // as gpu/device/online.py has it
constexpr int DESCRIBE_THREADS = 256, DESCRIBE_WARPS = DESCRIBE_THREADS / 32, EXPLAIN_THREADS = 512;

extern __shared__ __align__(16) unsigned char memory[];

// Put the ratings that are learned into `items` and `values`, still ascending; returns how many.
__device__ __forceinline__ int learn(const Table& table, long long start, long long length, int most, int* items, float* values) {
    if (length <= most) {
        for (int n = threadIdx.x; n < length; n += DESCRIBE_THREADS) items[n] = table.items[start + n], values[n] = table.values[start + n];
        __syncthreads();
        return (int)length;
    }
    const long long* positions = table.positions + start;
    const Word first = ranked_word<DESCRIBE_WARPS>(length, length - most + 1, [&](long long n) { return (Word)positions[n]; });
    int n_learned = 0;
    for (long long at = 0; at < length; at += DESCRIBE_THREADS) {
        const long long n = at + threadIdx.x;
        const bool is_learned = n < length && (Word)positions[n] >= first;
        int total;
        const int place = n_learned + rank_in_block<DESCRIBE_WARPS>(is_learned, total);
        if (is_learned) items[place] = table.items[start + n], values[place] = table.values[start + n];
        n_learned += total;
    }
    __syncthreads();
    return n_learned;
}

// Ratings become the residuals that neighbour terms are made of. Returns b̄_i.
__device__ __forceinline__ double to_residuals(const Items& side, const Rules& rules, const int* items, float* values, int n) {
    double total = 0;
    for (int at = threadIdx.x; at < n; at += DESCRIBE_THREADS) total += IMPLICIT ? 0.0f : values[at] - side.mean;
    const double baseline = sum_of_block<DESCRIBE_WARPS>(total) / (n + rules.baseline_prior);
    for (int at = threadIdx.x; at < n; at += DESCRIBE_THREADS)
        values[at] = IMPLICIT ? 1.0f : (float)(values[at] - (side.mean + baseline + side.baseline[items[at]]));
    return IMPLICIT ? 0.0 : baseline;
}

// A trained item that is not among those rated, −1 if none was hit.
__device__ __forceinline__ int draw_unrated(const Table& table, const Items& side, int user, Word key, Word item_key, int number, Word seed) {
    for (int attempt = 0; attempt < MAX_DRAWS; ++attempt) {
        const Word word = draw(seed, key, item_key, number * MAX_DRAWS + attempt);
        const int item = (int)side.pool[(word >> 32) * (Word)side.n_pool >> 32];
        if (!has_rated(table, user, item)) return item;
    }
    return -1;
}

// Sum of both neighbour terms of `item`; for all lanes of a warp.
__device__ __forceinline__ float neighbour_terms(const Items& side, int item, const int* items, const float* residuals, int n) {
    float rated = 0, unrated = 0;
    int n_rated = 0, n_unrated = 0;
    for (int first = 0; first < K; first += 32) {
        const int k = first + threadIdx.x % 32;
        const long long at = (long long)item * K + k;
        const unsigned other = k < K ? side.neighbours[at] : ~0u;
        const bool is_there = other < (Word)side.n_items;
        const float one = is_there ? side.explicit_weights[at] : 0.0f, two = is_there ? side.implicit_weights[at] : 0.0f;
        const int place = (int)find(items, 0, n, (int)other);
        const bool is_rated = is_there && place < n && items[place] == (int)other;
        if (is_rated) rated += residuals[place] * one;
        else unrated += two;
        n_rated += __popc(__ballot_sync(~0u, is_rated)), n_unrated += __popc(__ballot_sync(~0u, is_there && !is_rated));
    }
    return sum_of_warp(rated * rsqrtf(max(n_rated, 1)) + unrated * rsqrtf(max(n_unrated, 1)));
}

// Give the samples of a user their places, and list the parts they are solved in.
__device__ __forceinline__ long long place_samples(Described& to, int n_samples) {
    __shared__ long long place, part;
    const int n_parts = max(1, (n_samples + PART - 1) / PART);
    if (threadIdx.x == 0) {
        place = atomicAdd(to.taken + SAMPLES, (Word)n_samples), part = atomicAdd(to.taken + PARTS, (Word)n_parts);
        to.starts[blockIdx.x] = place, to.lengths[blockIdx.x] = n_samples, to.arrived[blockIdx.x] = 0;
        if (n_parts > 1) to.slots[blockIdx.x] = atomicAdd(to.taken + SLOTS, (Word)n_parts);
    }
    __syncthreads();
    for (int n = threadIdx.x; n < n_parts; n += DESCRIBE_THREADS) to.parts[part + n] = {(int)blockIdx.x, n};
    return place;
}

// Grid: a block a user. Shared memory: `max_ratings` items and as many residuals.
extern "C" __global__ void __launch_bounds__(DESCRIBE_THREADS)
describe_users(Users users, Table table, Items side, Rules rules, Described to) {
    int* items = (int*)memory;
    float* values = (float*)(items + rules.max_ratings);
    const int user = users.rows[blockIdx.x];
    const long long start = table.by_user.starts[user], length = table.by_user.lengths[user];
    const int n = learn(table, start, length, rules.max_ratings, items, values);
    for (long long at = threadIdx.x; at < length; at += DESCRIBE_THREADS) {
        const int item = table.items[start + at];
        if (!side.is_trained[item]) users.is_due[item] = 1;
    }
    int n_draws = 0;
    if (IMPLICIT) n_draws = min(rules.n_negatives, max(1, rules.max_negatives / max(1, n)));
    const int each = 1 + n_draws, n_samples = n * each;
    const long long place = place_samples(to, n_samples);
    const float share = n_draws ? (float)rules.n_negatives / n_draws : 1.0f;
    double observed = 0;
    for (int s = threadIdx.x; s < n_samples; s += DESCRIBE_THREADS) {
        const int item = items[s / each], number = s % each - 1;
        int drawn = side.is_trained[item] ? item : -1;
        if (IMPLICIT && drawn >= 0 && number >= 0)
            drawn = draw_unrated(table, side, user, users.keys[user], side.keys[item], number, rules.seed);
        const float count = drawn < 0 ? 0.0f : number < 0 ? 1.0f : share, offset = drawn < 0 ? 0.0f : side.mean + side.bias[drawn];
        to.samples[place + s] = {drawn, offset, number >= 0 ? 0.0f : IMPLICIT ? 1.0f : values[s / each], count};
        observed += count;
    }
    const double count = sum_of_block<DESCRIBE_WARPS>(observed);
    const double baseline = to_residuals(side, rules, items, values, n);
    for (int at = threadIdx.x; at < n; at += DESCRIBE_THREADS)  // each thread what it has made a residual of
        to.items[place + at] = items[at], to.residuals[place + at] = values[at];
    if (threadIdx.x > 0) return;
    to.learned[blockIdx.x] = n, to.counts[blockIdx.x] = count;
    users.baseline[user] = baseline;
    users.is_touched[user] = 1;
}

// Grid: a block a part, or more. Adds the neighbour terms to the offsets. Shared memory as above.
extern "C" __global__ void __launch_bounds__(EXPLAIN_THREADS) explain_samples(Items side, Rules rules, Described of) {
    if (blockIdx.x >= of.taken[PARTS]) return;
    int* items = (int*)memory;
    float* residuals = (float*)(items + rules.max_ratings);
    const Part part = of.parts[blockIdx.x];
    const long long start = of.starts[part.user];
    const int n = of.learned[part.user], last = min((part.number + 1) * PART, of.lengths[part.user]);
    for (int at = threadIdx.x; at < n; at += EXPLAIN_THREADS) items[at] = of.items[start + at], residuals[at] = of.residuals[start + at];
    __syncthreads();
    for (int s = part.number * PART + threadIdx.x / 32; s < last; s += EXPLAIN_THREADS / 32) {
        Sample& sample = of.samples[start + s];
        if (sample.item < 0) continue;
        const float terms = neighbour_terms(side, sample.item, items, residuals, n);
        if (threadIdx.x % 32 == 0) sample.offset += terms;
    }
}

__device__ __forceinline__ void stage_samples(Shared& shared, int turn, const Sample* samples, int n, const Items& side) {
    stage_columns<F, 0>(shared, turn, side.factors, [&](int at) {
        const int item = at < n ? samples[at].item : -1;
        return item < 0 ? -1ll : (long long)item * F;
    });
    if (threadIdx.x >= STAGE) return;
    float* row = shared.rows[turn][threadIdx.x];
    const Sample sample = (int)threadIdx.x < n ? samples[threadIdx.x] : Sample{-1, 0, 0, 0};
    row[F] = sample.item < 0 ? 0.0f : 1.0f;
    if (!IMPLICIT) row[LAST] = sample.item < 0 ? 0.0f : sample.target - sample.offset;
}

// Where the step starts, and the ridge, of a user with so many observations.
__device__ __forceinline__ void begin(Shared& shared, const Users& users, long long user, float count, const Rules& rules, int step) {
    for (int at = threadIdx.x; at < WIDTH; at += THREADS) {
        shared.start[at] = step == 0 || at > F ? 0.0f : at < F ? users.factors[user * F + at] : users.bias[user];
        shared.ridge[at] = at < F ? rules.factor * count + rules.factor_prior : at == F ? rules.bias * count + rules.bias_prior : 1.0f;
    }
}

// Grid: a block a part, or more. `step`: of Newton's method, from 0. `spread`: P, see gpu/rules.py, as `add_matrix` takes it,
// or null; models of ratings only, whose steps start from 0.
extern "C" __global__ void __launch_bounds__(THREADS)
solve_users(Users users, Items side, Rules rules, Described from, int step, const float* spread) {
    if (blockIdx.x >= from.taken[PARTS]) return;
    Shared& shared = *(Shared*)memory;
    const Part part = from.parts[blockIdx.x];
    const int length = from.lengths[part.user], first = part.number * PART, n = min(PART, length - first);
    const Sample* samples = from.samples + from.starts[part.user] + first;
    const long long user = users.rows[part.user];
    begin(shared, users, user, from.counts[part.user], rules, step);
    Sums sums[HELD];
    clear(sums);
    add_observations<IMPLICIT>(
        sums, shared, n, [&](int from, int turn) { stage_samples(shared, turn, samples + from, n - from, side); },
        [&](int from, int turn) {
            for (int at = threadIdx.x / 32; at < STAGE; at += WARPS) {
                const Sample sample = from + at < n ? samples[from + at] : Sample{-1, 0, 0, 0};
                weigh(shared, turn, at, sample.offset, sample.target, sample.count);
            }
        });
    if (length > PART) {
        float* partials = from.partials + from.slots[part.user] * PARTIAL;
        if (!is_last(sums, partials, part.number, (length + PART - 1) / PART, from.arrived + part.user)) return;
    }
    if (!IMPLICIT && spread) for_tiles(sums, [&](Tile tile, Sums& mine) { add_matrix(mine, tile, spread); });
    solve(sums, shared);
    for (int f = threadIdx.x; f < F; f += THREADS) users.factors[user * F + f] = shared.start[f];
    if (threadIdx.x == 0) users.bias[user] = shared.start[F];
}

extern "C" __constant__ int geometry[3] = {THREADS, (int)sizeof(Shared), PARTIAL};
