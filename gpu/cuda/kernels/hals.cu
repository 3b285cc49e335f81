// NMF: a sweep of FAST-HALS in tiles (PL-NMF, [002] Alg. 3 to 5) over all columns, in one launch; sums of products.
//
//   x_k ← max(ε, x_k d + p_k − Σ_s g_ks x_s),  new columns x_s left of k, old ones from k on; W: then x_k ← x_k / ‖x_k‖
//
// Before a tile of T columns is updated, `take_all` computes its targets x_k d + p_k − Σ_s g_ks x_s with the old
// columns of the tile: phases 1 and 3, which read the table once a tile. So within a tile a column only subtracts what
// columns before it have changed: Σ_s g_ks (new_s − old_s), phase 2.
//
// Compiled for DOUBLE 0 or 1: float or double; CHUNK: columns whose targets a thread sums at once, whole pieces of 16
// bytes.
//
// Who owns what. Tables lie by columns (K, n), a thread has a row, so that a warp reads neighboring numbers of one. A
// block owns consecutive rows: no other block reads or writes their part of the table and of the targets, so a block
// can process all tiles alone. In `take_all`, if a block has several times as many threads as rows, groups of
// threads share the columns of the table and add their results one after the other.
// W needs the norm of a column before the next: each block leaves its sum of squares in `parts`, which held MARK
// before, and waits until every block has done so. The sums themselves are the signal, so a column needs one pass
// through the L2 cache. Each block then adds all of them in the same order. While it waits it prepares the next column
// except for one term. `sum_of_products`: the threads of the grid share the numbers.
// Every sum has a fixed order: equal inputs give equal bits on equal devices.
//
// Shared memory: `weights` (K, CHUNK), then, where there is room (`in_shared`), targets (T, rows), which are replaced
// by changes column by column, and a column that waits for its norm (rows,); else they lie in `targets` (T + 1, n).
//
// Limits: blocks of `sweep_normalizing` must all be on the device at once: one a multiprocessor, and no more of them
// than a block has threads. Races: none; every column has `parts` of its own, sums of a block and of the grid have
// shared memory of their own, with a barrier between two uses of it, and a barrier of the block
// separates `take_all` from the rest, because a row may have different threads there.

#if DOUBLE
using Number = double;
#else
using Number = float;
#endif

constexpr int WARP = 32;
constexpr int PIECE = 16 / sizeof(Number);
constexpr int IN_FLIGHT = 8;               // columns that a thread reads at once
constexpr int SUM_THREADS = 256;
constexpr int ROW_THREADS = 128;           // threads of `sweep`
constexpr int NORM_THREADS = 1024;         // threads of `sweep_normalizing`

struct alignas(16) Piece { Number x[PIECE]; };

template <class Sum> __device__ __forceinline__ Sum warp_sum(Sum x) {
    for (int reach = WARP / 2; reach; reach /= 2) x += __shfl_xor_sync(~0u, x, reach);
    return x;
}

// parts[block] = Σ one · other over the block's share of n numbers.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) sum_of_products(
    const Number* __restrict__ one, const Number* __restrict__ other, long long n, double* __restrict__ parts
) {
    __shared__ double sums[SUM_THREADS / WARP];
    double sum = 0;
    const long long step = (long long)gridDim.x * SUM_THREADS;
    for (long long i = (long long)blockIdx.x * SUM_THREADS + threadIdx.x; i < n; i += step)
        sum += (double)one[i] * other[i];
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = sum;
    __syncthreads();  // sums of all warps are written
    if (threadIdx.x) return;
    for (int warp = 1; warp < SUM_THREADS / WARP; ++warp) sum += sums[warp];
    parts[blockIdx.x] = sum;
}

// --- tiles -----------------------------------------------------------------------------------------------------------

struct Side {                // n rows, K columns
    Number* table;           // (K, n)
    const Number* products;  // (K, n)
    const Number* gram;      // (K, K) of the other side; row k is column k, it is symmetric
    Number* targets;         // (T + 1, n)
    long long n;
    Number epsilon;
    int n_factors, tile, rows, in_shared;  // K, T, rows of a block
};

struct Block {               // the part of a block
    Number* table;           // its first row, stride n
    const Number* products;  // (K, n), from its first row
    Number* own;             // targets and changes, (T, stride), and a column that waits
    Number* weights;         // (K, CHUNK)
    long long stride;
    int n_rows;
};

__device__ __forceinline__ Block block_of(const Side& side, unsigned char* memory) {
    const long long begin = (long long)blockIdx.x * side.rows;
    Number* const weights = (Number*)memory;
    Number* const own = side.in_shared ? weights + side.n_factors * CHUNK : side.targets + begin;
    const int n_rows = (int)min((long long)side.rows, side.n - begin);
    return {side.table + begin, side.products + begin, own, weights, side.in_shared ? side.rows : side.n, n_rows};
}

// sums −= Σ_s weights_s x_s over columns s in [from, to) of one row.
__device__ __forceinline__ void take(
    Number (&sums)[CHUNK], const Number* x, long long n, const Number* weights, int from, int to
) {
    for (int first = from; first < to; first += IN_FLIGHT) {
        Number values[IN_FLIGHT];
#pragma unroll
        for (int s = 0; s < IN_FLIGHT; ++s) values[s] = first + s < to ? x[(first + s) * n] : Number(0);
#pragma unroll
        for (int s = 0; s < IN_FLIGHT; ++s) {
            const Number* const of_s = weights + min(first + s, to - 1) * CHUNK;
#pragma unroll
            for (int c = 0; c < CHUNK; c += PIECE) {
                const Piece weight = *(const Piece*)(of_s + c);
#pragma unroll
                for (int i = 0; i < PIECE; ++i) sums[c + i] -= weight.x[i] * values[s];
            }
        }
    }
}

// Weights of columns first … first + count − 1. Where d = g_kk (W), x_k itself drops out.
template <bool IS_W>
__device__ __forceinline__ void weigh(const Side& side, const Block& block, int first, int count) {
    for (int i = threadIdx.x; i < side.n_factors * CHUNK; i += blockDim.x) {
        const int s = i / CHUNK, c = i % CHUNK;
        Number weight = c < count ? __ldg(side.gram + (long long)s * side.n_factors + first + c) : Number(0);
        if (c < count && s == first + c) weight = IS_W ? Number(0) : weight - 1;
        block.weights[i] = weight;
    }
}

// Targets of columns first … first + count − 1, a chunk of them at a time.
template <bool IS_W>
__device__ __forceinline__ void take_all(const Side& side, const Block& block, int first, int count) {
    const int span = min(side.rows, (int)blockDim.x), groups = blockDim.x / span;
    const int group = threadIdx.x / span, limit = groups > 1 ? span : block.n_rows;  // groups: a thread has one row
    const int from = side.n_factors * group / groups, to = side.n_factors * (group + 1) / groups;
    for (int begin = 0; begin < count; begin += CHUNK) {
        const int width = min(CHUNK, count - begin);
        __syncthreads();  // all threads have read the weights of the last chunk, and rows of the last tile are written
        weigh<IS_W>(side, block, first + begin, width);
        __syncthreads();  // weights are written
        for (int row = threadIdx.x % span; row < limit; row += span) {
            const bool works = group < groups && row < block.n_rows;
            Number sums[CHUNK] = {};
            if (works) take(sums, block.table + row, side.n, block.weights, from, to);
            for (int turn = 0; turn < groups; ++turn) {
                if (works && turn == group)
#pragma unroll
                    for (int c = 0; c < CHUNK; ++c) {
                        if (c >= width) break;
                        Number* const target = block.own + (begin + c) * block.stride + row;
                        *target = (turn ? *target : block.products[(first + begin + c) * side.n + row]) + sums[c];
                    }
                if (groups > 1) __syncthreads();  // the next group adds to it
            }
        }
    }
    __syncthreads();  // targets are written
}

// Weight of column s of a tile in column t; the weights of a tile are in shared memory if it has one chunk.
__device__ __forceinline__ const Number* weights_of(const Side& side, const Block& block, int first, int t) {
    if (side.tile <= CHUNK) return block.weights + first * CHUNK + t;
    return side.gram + (long long)(first + t) * side.n_factors + first;
}

// The target of column t of a tile in one row, less what the `n` columns before it in the tile have changed.
__device__ __forceinline__ Number target(const Side& side, const Block& block, int first, int t, int n, int row) {
    const Number* const weights = weights_of(side, block, first, t);
    const int step = side.tile <= CHUNK ? CHUNK : 1;
    const Number* const own = block.own + row;
    Number x = own[t * block.stride];
#pragma unroll 4
    for (int s = 0; s < n; ++s) x -= weights[s * step] * own[s * block.stride];
    return x;
}

// At least ε. NaN stays NaN, so that the error shows it.
__device__ __forceinline__ Number clipped(Number x, Number epsilon) { return x < epsilon ? epsilon : x; }

// All columns of H: no row waits for another. Grid: enough blocks of at most ROW_THREADS rows.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) sweep(const Side side) {
    extern __shared__ __align__(16) unsigned char memory[];
    const Block block = block_of(side, memory);
    const int row = threadIdx.x;
    for (int first = 0; first < side.n_factors; first += side.tile) {
        const int count = min(side.tile, side.n_factors - first);
        take_all<false>(side, block, first, count);
        if (row >= block.n_rows) continue;
        Number* const table = block.table + first * side.n + row;
        Number old = table[0];
        for (int t = 0; t < count; ++t) {
            const Number next = t + 1 < count ? table[(t + 1) * side.n] : Number(0);  // loads during the sums
            const Number found = clipped(target(side, block, first, t, t, row), side.epsilon);
            table[t * side.n] = found;
            block.own[t * block.stride + row] = found - old;
            old = next;
        }
    }
}

constexpr unsigned long long MARK = ~0ull;  // not a sum: a NaN that arithmetic does not produce

// Write the block's Σ x to `parts` (blocks,), in place of MARK; x is 0 in threads from n_rows on.
__device__ __forceinline__ void publish(double x, int n_rows, double* sums, unsigned long long* parts) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_warps = min(n_rows, NORM_THREADS) / WARP + 1;
    if (warp < n_warps) x = warp_sum((Number)x);
    if (warp < n_warps && lane == 0) sums[warp] = x;
    __syncthreads();  // sums of all warps are written
    if (warp) return;
    x = warp_sum(lane < min(n_warps, NORM_THREADS / WARP) ? sums[lane] : 0.0);
    const unsigned long long bits = x != x ? 0x7FF8000000000000ull : (unsigned long long)__double_as_longlong(x);
    if (lane == 0) asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(parts + blockIdx.x), "l"(bits) : "memory");
}

// Σ x over the grid, in all threads; waits for all blocks.
__device__ __forceinline__ double awaited(const unsigned long long* parts, double* sums) {
    const int n_warps = (gridDim.x + WARP - 1) / WARP;
    if (threadIdx.x < n_warps * WARP) {
        unsigned long long bits = 0;  // without a block: 0.0
        if (threadIdx.x < gridDim.x)
            do asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(parts + threadIdx.x) : "memory");
            while (bits == MARK);
        const double sum = warp_sum(__longlong_as_double((long long)bits));
        if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = sum;
    }
    __syncthreads();  // sums of all warps are written
    double sum = sums[0];
    for (int warp = 1; warp < n_warps; ++warp) sum += sums[warp];
    return sum;
}

// All columns of W. A pass over the block's rows completes column t − 1 of a tile, whose norm is known, and computes
// column t except for its norm. `parts`: (K, blocks), all MARK when the kernel starts.
extern "C" __global__ void __launch_bounds__(NORM_THREADS) sweep_normalizing(
    const Side side, unsigned long long* parts
) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ double sums[2][WARP];
    const Block block = block_of(side, memory);
    Number* const waiting = block.own + side.tile * block.stride;
    const int step = side.tile <= CHUNK ? CHUNK : 1;
    for (int first = 0; first < side.n_factors; first += side.tile) {
        const int count = min(side.tile, side.n_factors - first);
        take_all<true>(side, block, first, count);
        Number factor = 1;
        for (int t = 0; t <= count; ++t) {
            const int k = first + t;
            const Number weight = t % count ? weights_of(side, block, first, t)[(t - 1) * step] : Number(0);
            double squares = 0;
            for (int row = threadIdx.x; row < block.n_rows; row += NORM_THREADS) {
                Number* const at = block.table + k * side.n + row;
                Number* const own = block.own + t * block.stride + row;
                Number done = 0;
                if (t > 0) {
                    done = clipped(waiting[row] * factor, side.epsilon);
                    at[-side.n] = done;
                    own[-block.stride] += done;
                }
                if (t == count) continue;
                const Number x = clipped(*own - weight * done, side.epsilon);
                waiting[row] = x;
                squares += (double)x * x;
            }
            if (t == count) break;
            publish(squares, block.n_rows, sums[0], parts + (long long)k * gridDim.x);
            for (int row = threadIdx.x; row < block.n_rows; row += NORM_THREADS) {
                Number* const own = block.own + t * block.stride + row;
                *own = -block.table[k * side.n + row];
                if (t + 1 < count) own[block.stride] = target(side, block, first, t + 1, t + 1, row);
            }
            factor = (Number)rsqrt(awaited(parts + (long long)k * gridDim.x, sums[1]));
        }
    }
}
