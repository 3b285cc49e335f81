// Comparators of simLSH: one-bit minHash, and the exact Pearson similarity (GSM) from six moments of every pair of items.
//
// Moments of two items' common raters, n, Σx, Σy, Σx², Σy², Σxy, are products of dense matrices: a 1 per rating (M),
// the ratings (X) and their squares (Q), users × items, zero without a rating: MᵀM, XᵀM, MᵀX, QᵀM, MᵀQ, XᵀX. `spread`
// writes some users' rows of the three, cuBLAS multiplies, and `select_correlated` turns moments into lists.
//
// Compiled for HASHES, hash functions a thread; HALF, whether the three matrices are float16 (else float32). Who owns what:
// `hash_columns`, a block of 256 threads an item (a column, or a part of one), a thread every 256-th hash function, whose
// smallest values stay in registers; parts of a column are joined by integer atomics, exact in every order. `spread`: a block
// a user. `select_correlated`: a warp an item, its list in shared memory (8 K bytes). Shared memory of `hash_columns`: 2 KB.
// Races: none but those atomics.

constexpr int THREADS = 256;

#if HALF
using Entry = unsigned short;  // bits of a float16
__device__ __forceinline__ Entry entry_of(float x) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}
#else
using Entry = float;
__device__ __forceinline__ Entry entry_of(float x) { return x; }
#endif

// --- minHash ---------------------------------------------------------------------------------------------------------

// smallest[column][h]: least value of hash function h over the raters; all ones before. Grid: a block an item.
extern "C" __global__ void __launch_bounds__(THREADS) hash_columns(
    const Item* __restrict__ items, const int* __restrict__ count, const int* __restrict__ users,
    const Word* __restrict__ keys, Word seed, int n_bits, Word* __restrict__ smallest
) {
    __shared__ Word states[THREADS];
    if (blockIdx.x >= *count) return;
    const Item item = items[blockIdx.x];
    Word least[HASHES];
#pragma unroll
    for (int n = 0; n < HASHES; ++n) least[n] = ~0ull;
    for (int first = 0; first < item.length; first += THREADS) {
        const int held = min(THREADS, item.length - first);
        __syncthreads();  // all threads have read the last states
        if (threadIdx.x < held) states[threadIdx.x] = mixed(keys[users[item.begin + first + threadIdx.x]] ^ mixed(seed));
        __syncthreads();  // states are written
        for (int user = 0; user < held; ++user) {
            const Word state = states[user] + (threadIdx.x + 1) * GOLDEN;
#pragma unroll
            for (int n = 0; n < HASHES; ++n) least[n] = min(least[n], mixed(state + n * THREADS * GOLDEN));
        }
    }
#pragma unroll
    for (int n = 0; n < HASHES; ++n) {
        const int h = n * THREADS + threadIdx.x;
        if (h < n_bits) atomicMin(smallest + (long long)item.row * n_bits + h, least[n]);
    }
}

// The lowest bit of each smallest value, packed. Grid: a thread a word.
extern "C" __global__ void pack_bits(const Word* __restrict__ smallest, long long n, Word* __restrict__ words) {
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    Word word = 0;
    for (int b = 0; b < 64; ++b) word |= (smallest[at * 64 + b] & 1) << b;
    words[at] = word;
}

// --- GSM -------------------------------------------------------------------------------------------------------------

// Rows of the three matrices for users from `first` on; zero before. Grid: a block a user.
extern "C" __global__ void spread(
    const long long* __restrict__ starts, const long long* __restrict__ lengths, const int* __restrict__ items,
    const float* __restrict__ values, long long first, float shift, int stride, Entry* __restrict__ marks,
    Entry* __restrict__ ratings, Entry* __restrict__ squares
) {
    const long long user = first + blockIdx.x, row = (long long)blockIdx.x * stride, start = starts[user];
    for (long long n = threadIdx.x; n < lengths[user]; n += blockDim.x) {
        const float value = values[start + n] - shift;
        const long long at = row + items[start + n];
        marks[at] = entry_of(1.0f), ratings[at] = entry_of(value), squares[at] = entry_of(value * value);
    }
}

struct Moments { const float *n, *x, *y, *xx, *yy, *xy; };  // (rows of a batch, stride) each

// Pearson correlation times n / (n + shrinkage); 0 where a variance is 0.
__device__ __forceinline__ float correlation(const Moments& of, long long at, double shrinkage) {
    const double n = of.n[at], x = of.x[at], y = of.y[at];
    const double covariance = n * of.xy[at] - x * y;
    const double variances = (n * of.xx[at] - x * x) * (n * of.yy[at] - y * y);
    return n < 2 || !(variances > 1e-9) ? 0.0f : (float)(covariance / sqrt(variances) * n / (n + shrinkage));
}

// Rank keys of the items of largest positive correlation with items `first` … Grid: a warp an item.
extern "C" __global__ void __launch_bounds__(WARP) select_correlated(
    Moments moments, int stride, int n_items, int first, double shrinkage, int k, Rank* __restrict__ best
) {
    extern __shared__ __align__(16) Rank list[];
    const int item = first + blockIdx.x;
    for (int n = threadIdx.x; n < k; n += WARP) list[n] = -1;
    __syncwarp();
    for (int begin = 0; begin < n_items; begin += WARP) {
        const int other = begin + threadIdx.x;
        const bool is_other = other < n_items && other != item;
        const float similarity = is_other ? correlation(moments, (long long)blockIdx.x * stride + other, shrinkage) : 0.0f;
        offer(list, k, rank_key(__float_as_int(similarity), other), similarity > 0.0f);  // floats above 0 order as integers
    }
    for (int n = threadIdx.x; n < k; n += WARP) best[(long long)item * k + n] = list[n];
}
