// What descent does to whole arrays between two passes over ratings: the pull toward zero, and the changes of items that
// ranks add up (gpu/descent/delayed_items.py). A launch has all arrays, since each of them alone takes less time than a
// launch.
//
// Who owns what: a thread owns every n-th number; in `add_moments` a block a tile of 16 x 16 sums over some users, in
// `norm_of` one block all sums. Sums are added up in a fixed order. Races: none.

constexpr int THREADS = 256, WIDE = 1024;
constexpr int MOST = 6;            // arrays
constexpr int EDGE = 16, CHUNK = 32;  // rows and columns of a tile of sums, and users that are staged at a time
constexpr int SPLITS = 8;          // blocks that share the users of a tile, as in gpu/descent/device_item_changes.py

struct Pulled {                    // arrays that a share pulls toward zero; words are a float, or two halves
    unsigned* words[MOST];
    long long ends[MOST];          // of their words, counted through all arrays
    float kept[MOST];
    int are_halves[MOST];
};

struct Changed {                   // arrays of items
    float *now[4], *old[4];
    long long ends[4];             // of their numbers, counted through all arrays
    float ways[4];                 // γ κ, of the first array without κ
    int widths[4];                 // numbers of an item
};

__device__ __forceinline__ float of_half(unsigned short bits) {
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(bits));
    return number;
}
__device__ __forceinline__ unsigned as_half(float number) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(number));
    return bits;
}

// The array with number `n`, and the place in it.
template <int ARRAYS> __device__ __forceinline__ int array_of(const long long (&ends)[ARRAYS], long long& n) {
    int array = 0;
#pragma unroll
    for (int k = 0; k + 1 < ARRAYS; ++k) array += n >= ends[k];
    if (array) n -= ends[array - 1];
    return array;
}

__device__ __forceinline__ long long first() { return (long long)blockIdx.x * THREADS + threadIdx.x; }
__device__ __forceinline__ long long step() { return (long long)gridDim.x * THREADS; }

// Multiply by `kept`, as CuPy does: numbers of 16 bits are rounded once.
extern "C" __global__ void __launch_bounds__(THREADS) pull(Pulled arrays) {
    for (long long n = first(); n < arrays.ends[MOST - 1]; n += step()) {
        long long at = n;
        const int k = array_of(arrays.ends, at);
        unsigned* word = arrays.words[k] + at;
        const float kept = arrays.kept[k];
        if (arrays.are_halves[k]) {
            const unsigned two = *word;
            *word = as_half(of_half(two & 0xffff) * kept) | as_half(of_half(two >> 16) * kept) << 16;
        } else {
            *word = __float_as_uint(__uint_as_float(*word) * kept);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) remember(Changed arrays) {
    for (long long n = first(); n < arrays.ends[3]; n += step()) {
        long long at = n;
        const int k = array_of(arrays.ends, at);
        arrays.old[k][at] = arrays.now[k][at];
    }
}

// `total` gets the changes of all arrays, one after the other.
extern "C" __global__ void __launch_bounds__(THREADS) collect(Changed arrays, float* total) {
    for (long long n = first(); n < arrays.ends[3]; n += step()) {
        long long at = n;
        const int k = array_of(arrays.ends, at);
        total[n] = arrays.now[k][at] - arrays.old[k][at];
    }
}

// Set arrays to their start and a share of the changes of all ranks: `share_of` of gpu/descent/host_item_changes.py. The
// last number of `total` is the sum of κ.
extern "C" __global__ void __launch_bounds__(THREADS) apply(Changed arrays, const float* total, const float* counts, float size) {
    const long long n_all = arrays.ends[3];
    const float kappa = total[n_all] / size;
    for (long long n = first(); n < n_all; n += step()) {
        long long at = n;
        const int k = array_of(arrays.ends, at);
        const float way = arrays.ways[k] * (k ? 1.0f : kappa);
        const float gone = -expm1f(-way * counts[at / arrays.widths[k]] / size);
        const float p = fminf(fmaxf(gone, 1e-6f), 1 - 1e-6f);
        arrays.now[k][at] = arrays.old[k][at] - expm1f(size * log1pf(-p)) / (size * p) * total[n];
    }
}

// sums[s] = Σ u uᵀ of the users of block row s of SPLITS, of `n` users with `width` numbers and `n_factors` factors in front.
// Grid: tiles x splits.
extern "C" __global__ void __launch_bounds__(THREADS) add_moments(
    const void* users, int are_halves, int width, int n, int n_factors, float* sums
) {
    __shared__ float left[CHUNK][EDGE + 1], right[CHUNK][EDGE + 1];
    const int n_tiles = (n_factors + EDGE - 1) / EDGE, row = blockIdx.x / n_tiles * EDGE, column = blockIdx.x % n_tiles * EDGE;
    const int begin = (long long)n * blockIdx.y / gridDim.y, end = (long long)n * (blockIdx.y + 1) / gridDim.y;
    const int i = threadIdx.x / EDGE, j = threadIdx.x % EDGE;
    const auto number = [&](int user, int factor) {
        if (user >= end || factor >= n_factors) return 0.0f;
        const long long at = (long long)user * width + factor;
        return are_halves ? of_half(((const unsigned short*)users)[at]) : ((const float*)users)[at];
    };
    float sum = 0;
    for (int user = begin; user < end; user += CHUNK) {
        for (int k = i; k < CHUNK; k += EDGE) left[k][j] = number(user + k, row + j), right[k][j] = number(user + k, column + j);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < CHUNK; ++k) sum = fmaf(left[k][i], right[k][j], sum);
        __syncthreads();
    }
    if (row + i < n_factors && column + j < n_factors)
        sums[((long long)blockIdx.y * n_factors + row + i) * n_factors + column + j] = sum;
}

// The norm of the sum of SPLITS arrays of `n` numbers, times `scale`. Grid: one block, whose threads have many loads on
// their way: with one at a time it would take longer than all other kernels here.
extern "C" __global__ void __launch_bounds__(WIDE) norm_of(const float* sums, int n, float scale, float* found) {
    float squares = 0;
#pragma unroll 4
    for (int at = threadIdx.x; at < n; at += WIDE) {
        float sum = 0;
#pragma unroll
        for (int split = 0; split < SPLITS; ++split) sum += __ldg(sums + (long long)split * n + at);
        squares = fmaf(sum, sum, squares);
    }
    const float total = sum_of_block<WIDE / 32>(squares);
    if (threadIdx.x == 0) *found = sqrtf(total) * scale;
}
