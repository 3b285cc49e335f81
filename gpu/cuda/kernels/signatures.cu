// Sums and signatures of simLSH ([004] eq. 3) kept exact while ratings change, and the lists of new items; see gpu/online/device/signatures.py.
//
// A change adds (Ψ(new) − Ψ(old)) Φ to the sums of its item, Ψ bit for bit as in gpu/hashing/simlsh.py. The list of an
// item are the K other rated items whose signatures agree most, ties by row. Counts of each agreement give the least
// one in the list. Items above it are collected in any order, items equal to it in the order of rows; then all are
// sorted. A list stays the same unless its owner or a member has a new signature, or an item with a new one ranks
// before its last.
//
// Compiled for S half-words of a signature and one kind of Ψ: STEPS and LIMIT of the fixed point, KIND. Who owns what:
// a block a change, an item or a list (a wide one where there are many items to read), a warp a list to check. Shared
// memory: a count for each number of equal bits, and 16 bytes a place of a list. Limits: 65,535 bits. Races: sums are
// whole numbers, added atomically, exact in every order; flags are only set to 1; outdated lists are gathered in any
// order, each is made alone.
//
// Its parts are concatenated before it in this order: splitmix, lsh_bits, lsh_phi, ranks, blocks.

enum Kind { SIGN, POWER, RESIDUAL, LINEAR, FOURTH };  // as in gpu/hashing/device_lsh.py

struct Ratings {
    const int *users, *items;
    const float *old, *now;  // NaN: no rating
};
struct Hash {
    const float *user_baseline, *item_baseline;  // baselines of the snapshot
    const Word* user_keys;
    double mean, unit;  // `mean`: origin of Ψ = power; `unit`: the value whose Ψ is STEPS
    Word seed;
    float middle, lift;                          // a merit (evidence.cuh) below `middle` is a dislike
};
struct Signed {  // arrays by item
    unsigned* signatures;
    int* ones;                // bits that are 1
    unsigned char* is_rated;  // whether the item has ratings: lists hold rated items only
    unsigned char* has_changed;  // whether one of these changed since the last check of lists
};

constexpr int HASH_THREADS = 128, FIND_THREADS = 256, LIST_THREADS = 256, WIDE_THREADS = 1024;
constexpr int AT_ONCE = 8;  // candidates that a thread reads at once

__device__ __forceinline__ int psi(float value, const Hash& hash, float user, float item) {
    if (value != value) return 0;
    if (KIND == SIGN) return merit_of(value, hash.lift) < hash.middle ? -1 : 1;
    double weight = (double)value - hash.mean;
    if (KIND == RESIDUAL) weight = weight - user - item;
    if (KIND == POWER || KIND == FOURTH) weight = weight * weight;
    if (KIND == FOURTH) weight = weight * weight;
    return (int)fmin(fmax(rint(weight / hash.unit * STEPS), -(double)LIMIT), (double)LIMIT);
}

// Grid: a block a change.
extern "C" __global__ void __launch_bounds__(HASH_THREADS) add_changes(Ratings ratings, Hash hash, int* sums) {
    __shared__ State state;
    const int user = ratings.users[blockIdx.x], item = ratings.items[blockIdx.x];
    const float one = hash.user_baseline[user], two = hash.item_baseline[item];
    const int weight = psi(ratings.now[blockIdx.x], hash, one, two) - psi(ratings.old[blockIdx.x], hash, one, two);
    if (weight == 0) return;
    if (threadIdx.x == 0) state = state_of(hash.seed, hash.user_keys[user]);
    __syncthreads();
    add_hashed<S>(sums + (long long)item * (WARP * S), state, weight);
}

// Grid: a block an item; `counts`: ratings of each item.
extern "C" __global__ void __launch_bounds__(HASH_THREADS) sign_items(const int* items, const long long* counts, const int* sums, Signed to) {
    const long long item = items[blockIdx.x];
    const bool is_rated = counts[item] > 0;
    int ones = 0, differs = is_rated != to.is_rated[item];
    for (int w = threadIdx.x; w < S; w += HASH_THREADS) {
        const unsigned word = signed_word<S>(sums + item * (WARP * S), w);
        unsigned& known = to.signatures[item * S + w];
        differs |= known != word;
        known = word;
        ones += __popc(word);
    }
    differs = sum_of_block<HASH_THREADS / 32>(differs);  // also a barrier after all reads of `is_rated`
    ones = sum_of_block<HASH_THREADS / 32>(ones);
    if (threadIdx.x) return;
    to.ones[item] = ones, to.is_rated[item] = is_rated;
    if (differs) to.has_changed[item] = 1;
}

// Whether a fresh ranking may differ from the list. For all lanes of a warp.
__device__ __forceinline__ bool is_outdated(const Signed& by, long long owner, const int* list, int k, const int* changed, int n_changed) {
    const Word* const words = (const Word*)by.signatures;
    const int lane = threadIdx.x % WARP, last = list[k - 1];
    bool is_moved = by.has_changed[owner];
    for (int n = lane; n < k; n += WARP) is_moved |= list[n] >= 0 && by.has_changed[list[n]];
    if (__any_sync(ALL, is_moved)) return true;
    if (!by.is_rated[owner]) return false;  // it also had none: its list is empty
    const Rank worst = last < 0 ? -1 : rank_key(agreement_of(words, S / 2, owner, last), last);
    for (int first = 0; first < n_changed; first += WARP) {
        const int item = first + lane < n_changed ? changed[first + lane] : -1;
        const bool counts = item >= 0 && by.has_changed[item] && by.is_rated[item];
        if (__any_sync(ALL, counts && rank_key(agreement_of(words, S / 2, owner, item), item) > worst)) return true;
    }
    return false;
}

// Gather the new items, of `rows`, whose lists the `changed` items have outdated. Grid: a warp a new item.
extern "C" __global__ void __launch_bounds__(FIND_THREADS) find_outdated(
    const long long* rows, int n_rows, const int* changed, int n_changed, Signed by, const int* neighbors, int k, long long* outdated,
    int* n_outdated
) {
    const int at = (blockIdx.x * FIND_THREADS + threadIdx.x) / WARP;
    if (at >= n_rows) return;
    const long long owner = rows[at];
    const bool is_found = is_outdated(by, owner, neighbors + owner * k, k, changed, n_changed);
    if (is_found && threadIdx.x % WARP == 0) outdated[atomicAdd(n_outdated, 1)] = owner;
}

struct Agreements {  // equal bits of one item with all others
    const unsigned short* of_items;
    const unsigned char* is_rated;
    long long item, n_items;
};

// `take(candidate, agreement)` for those of the AT_ONCE candidates from `first` on that may be in the list, ascending.
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

struct Bound { int least, above; };  // least agreement in the list, −1: any; number of larger ones

// For all threads of a block, by the counts of each agreement.
template <int THREADS> __device__ __forceinline__ Bound bound_of(const int* bins, int n_bins, int k) {
    __shared__ Bound found;
    const int each = (n_bins + THREADS - 1) / THREADS;
    const int last = n_bins - min(n_bins, (int)threadIdx.x * each), first = max(0, last - each);  // from the top
    int mine = 0, total;
    for (int bin = first; bin < last; ++bin) mine += bins[bin];
    int above = sum_before<THREADS / WARP>(mine, total);
    if (threadIdx.x == 0) found = {-1, total};
    __syncthreads();
    if (above < k && above + mine >= k && total > k)
        for (int bin = last - 1; above < k; above += bins[bin--])
            if (above + bins[bin] >= k) found = {bin, above};
    __syncthreads();
    return found;
}

// Make the list of `rows[blockIdx.x]`, which becomes due if it differs. Rows of `agreements` begin `stride` apart, at
// 16 bytes.
// Shared memory: two lists of k rank keys, then n_bins counts.
template <int THREADS> __device__ __forceinline__ void take_list(
    const unsigned short* agreements, int stride, const long long* rows, long long n_items, const Signed& by, int n_bins, int k,
    int* neighbors, unsigned char* is_due
) {
    extern __shared__ __align__(16) Rank list[];
    __shared__ int n_found;
    Rank* const sorted = list + k;
    int* const bins = (int*)(sorted + k);
    const Agreements all = {agreements + (long long)blockIdx.x * stride, by.is_rated, rows[blockIdx.x], n_items};
    const long long end = by.is_rated[all.item] ? n_items : 0;  // without ratings the list is empty
    for (int bin = threadIdx.x; bin < n_bins; bin += THREADS) bins[bin] = 0;
    for (int n = threadIdx.x; n < k; n += THREADS) sorted[n] = -1;
    if (threadIdx.x == 0) n_found = 0;
    __syncthreads();
    for (long long first = threadIdx.x * AT_ONCE; first < end; first += THREADS * AT_ONCE)
        visit(all, first, [&](long long, int agreement) { atomicAdd(bins + agreement, 1); });
    __syncthreads();
    const Bound bound = bound_of<THREADS>(bins, n_bins, k);
    int n_equal = bound.above;
    for (long long first = 0; first < end; first += THREADS * AT_ONCE) {
        int mine = 0, total;
        visit(all, first + threadIdx.x * AT_ONCE, [&](long long other, int agreement) {
            if (agreement > bound.least) list[atomicAdd(&n_found, 1)] = rank_key(agreement, other);
            mine += agreement == bound.least;
        });
        int place = n_equal + sum_before<THREADS / WARP>(mine, total);
        if (mine && place < k)
            visit(all, first + threadIdx.x * AT_ONCE, [&](long long other, int agreement) {
                if (agreement == bound.least && place < k) list[place++] = rank_key(agreement, other);
            });
        n_equal += total;
    }
    __syncthreads();
    const int n = min(k, n_equal);
    for (int at = threadIdx.x; at < n; at += THREADS) {
        int rank = 0;
        for (int other = 0; other < n; ++other) rank += list[other] > list[at];
        sorted[rank] = list[at];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < k; at += THREADS) {
        int& known = neighbors[all.item * k + at];
        const int neighbor = row_of(sorted[at]);
        if (known == neighbor) continue;
        known = neighbor;
        is_due[all.item] = 1;
    }
}

// Grid: a block a list.
extern "C" __global__ void __launch_bounds__(LIST_THREADS) take_lists(
    const unsigned short* agreements, int stride, const long long* rows, long long n_items, Signed by, int n_bins, int k, int* neighbors,
    unsigned char* is_due
) {
    take_list<LIST_THREADS>(agreements, stride, rows, n_items, by, n_bins, k, neighbors, is_due);
}

// The same among many items, with a wider block per list, to use more of the memory bandwidth. Grid: a block a list.
extern "C" __global__ void __launch_bounds__(WIDE_THREADS) take_lists_wide(
    const unsigned short* agreements, int stride, const long long* rows, long long n_items, Signed by, int n_bins, int k, int* neighbors,
    unsigned char* is_due
) {
    take_list<WIDE_THREADS>(agreements, stride, rows, n_items, by, n_bins, k, neighbors, is_due);
}
