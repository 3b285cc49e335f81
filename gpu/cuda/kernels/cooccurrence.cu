// Lists of the items that are liked together with each item: equations in gpu/hashing/cooccurrence.py, twin of
// gpu/hashing/host_cooccurrence.py with equal bits.
//
// Who owns what: blocks take items from a counter. A block has a line of I sums, zero between items, and a line of I entries
// (row and weight) in global memory. Its warps take users of the item, and add their rows to the sums by integer atomics,
// exact in every order. Then the block packs the sums that are not 0 into entries, in the order of rows, and zeroes them.
// The L-th largest weight is found by its bits, a byte at a time, and so is the L-th key among equal weights.
// Races: sums are changed by atomics in the second-level cache, so they are read and zeroed there. Shared memory: 2 KB.

constexpr int THREADS = 512, WARP = 32, WARPS = THREADS / WARP, DIGITS = 256;
constexpr unsigned ALL = 0xFFFFFFFFu;
typedef unsigned long long Word;

struct Block {
    int counts[DIGITS];
    int of_warps[WARPS];
    int item, digit, left;
};

// Places of the threads that `has`, in their order, after `n` others; n grows by their number. For all threads of a block.
__device__ __forceinline__ int place_of(Block& block, bool has, int& n) {
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const unsigned votes = __ballot_sync(ALL, has);
    __syncthreads();  // the last counts are read
    if (lane == 0) block.of_warps[warp] = __popc(votes);
    __syncthreads();
    int before = 0, total = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        before += w < warp ? block.of_warps[w] : 0;
        total += block.of_warps[w];
    }
    const int place = n + before + __popc(votes & ((1u << lane) - 1));
    n += total;
    return place;
}

// Take the counts of digits from the highest down, or from the lowest up, until they reach `left`: sets the digit that
// reaches it, and what is left for that digit. For all threads of a block.
__device__ __forceinline__ void choose(Block& block, int& left, int& digit, bool from_highest) {
    __syncthreads();
    if (threadIdx.x == 0) {
        int at = from_highest ? DIGITS - 1 : 0;
        for (; block.counts[at] < left; at += from_highest ? -1 : 1) left -= block.counts[at];
        block.digit = at;
        block.left = left;
    }
    __syncthreads();
    digit = block.digit;
    left = block.left;
}

__device__ __forceinline__ void clear_counts(Block& block) {
    __syncthreads();
    for (int at = threadIdx.x; at < DIGITS; at += THREADS) block.counts[at] = 0;
    __syncthreads();
}

// Likes of each row. Grid: a thread a row.
extern "C" __global__ void count_likes(
    const long long* __restrict__ starts, const long long* __restrict__ lengths, const float* __restrict__ values, int n_rows,
    float middle, float lift, int* __restrict__ n_likes
) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n_rows) return;
    int n = 0;
    for (long long at = starts[row]; at < starts[row] + lengths[row]; ++at) n += merit_of(values[at], lift) >= middle;
    n_likes[row] = n;
}

extern "C" __global__ void __launch_bounds__(THREADS) list_all(
    const long long* __restrict__ column_starts, const long long* __restrict__ column_lengths, const int* __restrict__ users,
    const float* __restrict__ of_users, const long long* __restrict__ row_starts, const long long* __restrict__ row_lengths,
    const int* __restrict__ items, const float* __restrict__ of_items, const int* __restrict__ n_likes,
    const Word* __restrict__ user_weights, int n_weights, const double* __restrict__ scales, const Word* __restrict__ keys,
    float middle, float lift, int n_items, int length, int* __restrict__ next, Word* all_sums, int* all_found,
    float* all_weights, int* __restrict__ listed, float* __restrict__ weights
) {
    __shared__ Block block;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const long long own = (long long)blockIdx.x * n_items;
    Word* const sums = all_sums + own;
    int* const found = all_found + own;
    float* const of_found = all_weights + own;
    while (true) {
        __syncthreads();  // all have read the last item
        if (threadIdx.x == 0) block.item = atomicAdd(next, 1);
        __syncthreads();
        const int item = block.item;
        if (item >= n_items) return;

        const long long begin = column_starts[item], end = begin + column_lengths[item];
        for (long long n = begin + warp; n < end; n += WARPS) {
            const int user = users[n], likes = n_likes[user];
            if (!(merit_of(of_users[n], lift) >= middle) || likes >= n_weights || !user_weights[likes]) continue;
            const Word weight = user_weights[likes];
            const long long last = row_starts[user] + row_lengths[user];
            for (long long at = row_starts[user] + lane; at < last; at += WARP)
                if (merit_of(of_items[at], lift) >= middle) atomicAdd(sums + items[at], weight);
        }
        __syncthreads();

        int n = 0;
        for (int first = 0; first < n_items; first += THREADS) {
            const int other = first + threadIdx.x;
            const Word sum = other < n_items ? __ldcg(sums + other) : 0;
            const bool has = sum && other != item;
            const int place = place_of(block, has, n);
            if (has) {
                found[place] = other;
                of_found[place] = __double2float_rn(__dmul_rn(__dmul_rn((double)sum, scales[item]), scales[other]));
            }
            if (sum) __stcg(sums + other, 0ull);
        }
        __syncthreads();

        unsigned least = 0;  // bits of the smallest listed weight; those of numbers above 0 are in their order
        Word last_key = ~0ull;
        if (n > length) {
            int left = length, digit;
            for (int shift = 24; shift >= 0; shift -= 8) {
                clear_counts(block);
                for (int at = threadIdx.x; at < n; at += THREADS) {
                    const unsigned bits = __float_as_uint(of_found[at]);
                    if ((Word)bits >> (shift + 8) == (Word)least >> (shift + 8)) atomicAdd(block.counts + (bits >> shift & 255), 1);
                }
                choose(block, left, digit, true);
                least |= (unsigned)digit << shift;
            }
            last_key = 0;
            for (int shift = 56; shift >= 0; shift -= 8) {  // of equal weights the `left` lowest keys
                clear_counts(block);
                for (int at = threadIdx.x; at < n; at += THREADS) {
                    const Word key = keys[found[at]];
                    const bool agrees = shift == 56 || key >> (shift + 8) == last_key >> (shift + 8);
                    if (agrees && __float_as_uint(of_found[at]) == least) atomicAdd(block.counts + (key >> shift & 255), 1);
                }
                choose(block, left, digit, false);
                last_key |= (Word)digit << shift;
            }
        }
        int n_listed = 0;
        for (int first = 0; first < n; first += THREADS) {
            const int at = first + threadIdx.x;
            const unsigned bits = at < n ? __float_as_uint(of_found[at]) : 0;
            const bool has = at < n && (bits > least || (bits == least && keys[found[at]] <= last_key));
            const int place = place_of(block, has, n_listed);
            if (has && place < length) {
                listed[(long long)item * length + place] = found[at];
                weights[(long long)item * length + place] = of_found[at];
            }
        }
        for (int place = n_listed + threadIdx.x; place < length; place += THREADS) {
            listed[(long long)item * length + place] = -1;
            weights[(long long)item * length + place] = 0;
        }
    }
}
