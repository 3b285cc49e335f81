// Sums and signatures of simLSH ([004] eq. 3) kept exact while ratings change, and the lists of new items; see gpu/device/signatures.py.
//
// A change adds (Ψ(new) − Ψ(old)) Φ to the sums of its item, Ψ bit for bit as gpu/simlsh.py has it. The list of an item
// are the K others with ratings whose signatures agree most, ties by row: their agreements are counted, which gives the least
// one that gets in, those above it are collected in any order, those equal to it in the order of rows, and then sorted.
//
// Compiled for S half-words of a signature and one kind of Ψ: STEPS and LIMIT of the fixed point, KIND. Who owns what: a
// block a change, an item or a list. Shared memory: a count for each number of equal bits, and 16 bytes a place of a list. Limits:
// 65,535 bits. Races: sums are whole numbers, added atomically, exact in every order; flags all set to 1.
//
// Its parts are put before it, in this order: splitmix, lsh_bits, lsh_phi, ranks, blocks.

enum Kind { ALL_ONE, POWER, RESIDUAL };  // as gpu/device/lsh.py has them

struct Ratings {
    const int *users, *items;
    const float *old, *now;  // NaN: none
};
struct Hash {
    const float *user_baseline, *item_baseline;  // those of the snapshot
    const Word* user_keys;
    double mean, unit;                           // `unit`: what Ψ of STEPS stands for
    Word seed;
};
struct Signed {  // by item
    unsigned* signatures;
    int* ones;                // bits that are 1
    unsigned char* is_rated;  // whether it has ratings: lists hold no others
};

constexpr int HASH_THREADS = 128, LIST_THREADS = 256, LIST_WARPS = LIST_THREADS / 32;
constexpr int AT_ONCE = 8;  // candidates that a thread reads at once

__device__ __forceinline__ int psi(float value, double mean, float user, float item, double unit) {
    if (value != value) return 0;
    if (KIND == ALL_ONE) return 1;
    const double exact = value, weight = (KIND == POWER ? exact * exact : exact - mean - user - item) / unit;
    return (int)fmin(fmax(rint(weight * STEPS), -(double)LIMIT), (double)LIMIT);
}

// Grid: a block a change.
extern "C" __global__ void __launch_bounds__(HASH_THREADS) add_changes(Ratings ratings, Hash hash, int* sums) {
    __shared__ State state;
    const int user = ratings.users[blockIdx.x], item = ratings.items[blockIdx.x];
    const float one = hash.user_baseline[user], two = hash.item_baseline[item];
    const int now = psi(ratings.now[blockIdx.x], hash.mean, one, two, hash.unit);
    const int weight = now - psi(ratings.old[blockIdx.x], hash.mean, one, two, hash.unit);
    if (weight == 0) return;
    if (threadIdx.x == 0) state = state_of(hash.seed, hash.user_keys[user]);
    __syncthreads();
    add_hashed<S>(sums + (long long)item * (WARP * S), state, weight);
}

// Grid: a block an item; `counts`: ratings of each item.
extern "C" __global__ void __launch_bounds__(HASH_THREADS) sign_items(const int* items, const long long* counts, const int* sums, Signed to) {
    const long long item = items[blockIdx.x];
    int ones = 0;
    for (int w = threadIdx.x; w < S; w += HASH_THREADS) {
        const unsigned word = signed_word<S>(sums + item * (WARP * S), w);
        to.signatures[item * S + w] = word;
        ones += __popc(word);
    }
    ones = sum_of_block<HASH_THREADS / 32>(ones);
    if (threadIdx.x == 0) to.ones[item] = ones, to.is_rated[item] = counts[item] > 0;
}

struct Agreements {  // of an item with all: equal bits
    const unsigned short* of_items;
    const unsigned char* is_rated;
    long long item, n_items;
};

// `take(candidate, agreement)` for those of the AT_ONCE from `first` on that may be in the list, ascending.
template <class Take> __device__ __forceinline__ void visit(const Agreements& all, long long first, Take take) {
    if (first >= all.n_items) return;
    const uint4 words = __ldg((const uint4*)(all.of_items + first));
    const unsigned pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int n = 0; n < AT_ONCE; ++n) {
        const long long other = first + n;
        if (other < all.n_items && other != all.item && all.is_rated[other]) take(other, (int)(n % 2 ? pairs[n / 2] >> 16 : pairs[n / 2] & 0xFFFF));
    }
}

struct Bound { int least, above; };  // the least agreement that gets in, −1: all do; how many are larger

// For all threads of a block, by the counts of each agreement.
__device__ __forceinline__ Bound bound_of(const int* bins, int n_bins, int k) {
    __shared__ Bound found;
    const int each = (n_bins + LIST_THREADS - 1) / LIST_THREADS;
    const int last = n_bins - min(n_bins, (int)threadIdx.x * each), first = max(0, last - each);  // from the top
    int mine = 0, total;
    for (int bin = first; bin < last; ++bin) mine += bins[bin];
    int above = sum_before<LIST_WARPS>(mine, total);
    if (threadIdx.x == 0) found = {-1, total};
    __syncthreads();
    if (above < k && above + mine >= k && total > k)
        for (int bin = last - 1; above < k; above += bins[bin--])
            if (above + bins[bin] >= k) found = {bin, above};
    __syncthreads();
    return found;
}

// Grid: a block a new item, which becomes due where its list differs. Rows of `agreements` begin `stride` apart, at 16 bytes.
// Shared memory: two lists of k rank keys, then n_bins counts.
extern "C" __global__ void __launch_bounds__(LIST_THREADS) take_lists(
    const unsigned short* agreements, int stride, const long long* rows, long long n_items, Signed by, int n_bins, int k, int* neighbours,
    unsigned char* is_due
) {
    extern __shared__ __align__(16) Rank list[];
    __shared__ int n_found;
    Rank* const sorted = list + k;
    int* const bins = (int*)(sorted + k);
    const Agreements all = {agreements + (long long)blockIdx.x * stride, by.is_rated, rows[blockIdx.x], n_items};
    const long long end = by.is_rated[all.item] ? n_items : 0;  // without ratings: nobody
    for (int bin = threadIdx.x; bin < n_bins; bin += LIST_THREADS) bins[bin] = 0;
    for (int n = threadIdx.x; n < k; n += LIST_THREADS) sorted[n] = -1;
    if (threadIdx.x == 0) n_found = 0;
    __syncthreads();
    for (long long first = threadIdx.x * AT_ONCE; first < end; first += LIST_THREADS * AT_ONCE)
        visit(all, first, [&](long long, int agreement) { atomicAdd(bins + agreement, 1); });
    __syncthreads();
    const Bound bound = bound_of(bins, n_bins, k);
    int n_equal = bound.above;
    for (long long first = 0; first < end; first += LIST_THREADS * AT_ONCE) {
        int mine = 0, total;
        visit(all, first + threadIdx.x * AT_ONCE, [&](long long other, int agreement) {
            if (agreement > bound.least) list[atomicAdd(&n_found, 1)] = rank_key(agreement, other);
            mine += agreement == bound.least;
        });
        int place = n_equal + sum_before<LIST_WARPS>(mine, total);
        if (mine && place < k)
            visit(all, first + threadIdx.x * AT_ONCE, [&](long long other, int agreement) {
                if (agreement == bound.least && place < k) list[place++] = rank_key(agreement, other);
            });
        n_equal += total;
    }
    __syncthreads();
    const int n = min(k, n_equal);
    for (int at = threadIdx.x; at < n; at += LIST_THREADS) {
        int rank = 0;
        for (int other = 0; other < n; ++other) rank += list[other] > list[at];
        sorted[rank] = list[at];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < k; at += LIST_THREADS) {
        int& known = neighbours[all.item * k + at];
        const int neighbour = row_of(sorted[at]);
        if (known == neighbour) continue;
        known = neighbour;
        is_due[all.item] = 1;
    }
}
