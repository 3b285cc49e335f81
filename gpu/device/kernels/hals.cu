// NMF by FAST-HALS in tiles (PL-NMF, [002] Alg. 3 to 5): products of sparse rows with a table, and phase 2 of a sweep.
//
//   x_k ← max(ε, x_k d + p_k − Σ_s g_ks x_s),  new columns x_s left of k, old ones from k on; W: then x_k ← x_k / ‖x_k‖
//
// Phases 1 and 3 are a matrix product before each tile, which leaves in `targets` what all columns of the table take from
// the tile's, the tile's own old ones too. So within a tile (`sweep_tile`, `sweep_tile_normalising`, one launch for a
// whole tile) a column only subtracts what columns before it have changed: Σ_s g_ks (new_s − old_s).
//
// Compiled for DOUBLE 0 or 1: float or double; HELD: 16-byte pieces of a table's row that a lane holds in `gather`.
//
// Layout. Sweeps take tables by columns (K, n): a thread has a row, so that a warp reads neighbouring numbers of one
// column. `gather` takes them by rows of `width` numbers, zeros up to whole 16-byte pieces, so that a warp reads a row in
// one piece; `transpose` leads from one to the other.
//
// Who owns what. `gather`: a warp owns an item, a lane HELD pieces of its sum; long rows come in items whose sums
// `add_slots` adds, a warp a row. `sum_of_products`: a block owns every so many numbers, and leaves their sum in `parts`.
// Sweeps: a block owns consecutive rows, a thread every so many of them: their part of the table, targets and changes is
// read and written by no other. Changes lie in shared memory (`in_shared`: count · rows numbers), else in the place of
// targets that are used up. W needs the norm of a column before the next: each block leaves its sum of squares in
// `parts`, where MARK lay before, and waits until every block has: the sums are their own signal, so that a column
// costs one way through the L2 cache. Each block then adds all of them in the same order.
// Every sum has a fixed order: equal inputs give equal bits on equal devices.
//
// Limits: `width` up to HELD · 512 bytes; blocks of `sweep_tile_normalising` must all be on the device at once: one a
// multiprocessor, and no more of them than a block has threads. Races: none; every column has `parts` of its own, and
// `summed` alternates between two halves of its shared memory, with a barrier between the uses of one half.

#if DOUBLE
using Number = double;
#else
using Number = float;
#endif

constexpr int WARP = 32;
constexpr int PIECE = 16 / sizeof(Number);
constexpr int GATHER_THREADS = 256;
constexpr int SUM_THREADS = 256;
constexpr int ROW_THREADS = 128;           // of `sweep_tile`
constexpr int NORM_THREADS = WARP * WARP;  // of `sweep_tile_normalising`: a warp adds the sums of all warps
constexpr int EDGE = 32, DEPTH = 8;        // of a square that is transposed at once, and its threads
constexpr int IN_FLIGHT = HELD >= 8 ? 1 : 8 / HELD;  // entries whose rows a warp reads at once

struct alignas(16) Piece { Number x[PIECE]; };

template <class Sum> __device__ __forceinline__ Sum warp_sum(Sum x) {
    for (int reach = WARP / 2; reach; reach /= 2) x += __shfl_xor_sync(~0u, x, reach);
    return x;
}

// --- products --------------------------------------------------------------------------------------------------------

// Σ value · (row of `table` at column) over the entries of each item, to row `item.row` of `to` or to its slot.
extern "C" __global__ void __launch_bounds__(GATHER_THREADS) gather(
    const Item* __restrict__ items, int n_items, const int* __restrict__ columns, const float* __restrict__ values,
    const Number* __restrict__ table, int width, Number* __restrict__ to, Number* __restrict__ slots
) {
    const int place = (int)(((long long)blockIdx.x * GATHER_THREADS + threadIdx.x) / WARP), lane = threadIdx.x % WARP;
    if (place >= n_items) return;
    const Item item = items[place];
    const int n_pieces = width / PIECE;
    int offsets[HELD];  // lanes beyond the row read its last piece, and do not write
#pragma unroll
    for (int h = 0; h < HELD; ++h) offsets[h] = min(lane + WARP * h, n_pieces - 1);

    Piece sums[HELD] = {};
    for (int done = 0; done < item.length; done += WARP) {
        const int count = min(WARP, item.length - done);
        const long long at = item.begin + done + lane;
        const int column = lane < count ? __ldg(columns + at) : 0;
        const float value = lane < count ? __ldg(values + at) : 0.0f;
#pragma unroll IN_FLIGHT
        for (int k = 0; k < count; ++k) {
            const Number weight = __shfl_sync(~0u, value, k);
            const long long row = __shfl_sync(~0u, column, k);
            const Piece* const from = (const Piece*)(table + row * width);
#pragma unroll
            for (int h = 0; h < HELD; ++h) {
                const Piece piece = from[offsets[h]];
#pragma unroll
                for (int i = 0; i < PIECE; ++i) sums[h].x[i] += weight * piece.x[i];
            }
        }
    }
    Piece* const out = (Piece*)(item.slot < 0 ? to + (long long)item.row * width : slots + (long long)item.slot * width);
#pragma unroll
    for (int h = 0; h < HELD; ++h)
        if (lane + WARP * h < n_pieces) out[lane + WARP * h] = sums[h];
}

// Add the slots of each row that comes in parts, in their order.
extern "C" __global__ void __launch_bounds__(GATHER_THREADS) add_slots(
    const SplitRow* __restrict__ splits, int n_splits, const Number* __restrict__ slots, int width,
    Number* __restrict__ to
) {
    const int place = (int)(((long long)blockIdx.x * GATHER_THREADS + threadIdx.x) / WARP);
    if (place >= n_splits) return;
    const SplitRow split = splits[place];
    for (int piece = threadIdx.x % WARP; piece < width / PIECE; piece += WARP) {
        Piece sum = {};
#pragma unroll 4
        for (int n = 0; n < split.n_slots; ++n) {
            const Piece part = ((const Piece*)(slots + (long long)(split.first_slot + n) * width))[piece];
#pragma unroll
            for (int i = 0; i < PIECE; ++i) sum.x[i] += part.x[i];
        }
        ((Piece*)(to + (long long)split.row * width))[piece] = sum;
    }
}

// to[c][r] = from[r][c] for r below n_rows, c below n_columns. Grid: a block a square, squares of a row after each other.
extern "C" __global__ void __launch_bounds__(EDGE * DEPTH) transpose(
    const Number* __restrict__ from, long long from_stride, Number* __restrict__ to, long long to_stride,
    long long n_rows, long long n_columns
) {
    __shared__ Number square[EDGE][EDGE + 1];  // a column of it meets no bank twice
    const long long across = (n_columns + EDGE - 1) / EDGE;
    const long long row = blockIdx.x / across * EDGE, column = blockIdx.x % across * EDGE;
    const int x = threadIdx.x % EDGE, y = threadIdx.x / EDGE;
    for (int r = y; r < EDGE; r += DEPTH)
        if (row + r < n_rows && column + x < n_columns) square[r][x] = from[(row + r) * from_stride + column + x];
    __syncthreads();  // the square is complete
    for (int c = y; c < EDGE; c += DEPTH)
        if (column + c < n_columns && row + x < n_rows) to[(column + c) * to_stride + row + x] = square[x][c];
}

// parts[block] = Σ one · other over every so many of n numbers.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) sum_of_products(
    const Number* __restrict__ one, const Number* __restrict__ other, long long n, double* __restrict__ parts
) {
    __shared__ double sums[SUM_THREADS / WARP];
    double sum = 0;
    for (long long i = (long long)blockIdx.x * SUM_THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * SUM_THREADS)
        sum += (double)one[i] * other[i];
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = sum;
    __syncthreads();  // sums of all warps are there
    if (threadIdx.x) return;
    for (int warp = 1; warp < SUM_THREADS / WARP; ++warp) sum += sums[warp];
    parts[blockIdx.x] = sum;
}

// --- phase 2 ---------------------------------------------------------------------------------------------------------

// Columns `first` … `first + count − 1` of K; row k of `gram` (K, K) is column k, it is symmetric.
struct Tile {
    Number* table;           // (K, n)
    const Number* products;  // (count, n)
    Number* targets;         // (count, n), used up
    long long n;
    Number epsilon;
    int n_factors, first, count;
};

// x less what columns before t in the tile have changed in one row.
__device__ __forceinline__ Number less_changes(
    Number x, const Tile& tile, const Number* gram, int t, const Number* changes, long long stride
) {
    const Number* const weights = gram + (long long)(tile.first + t) * tile.n_factors + tile.first;
#pragma unroll 4
    for (int s = 0; s < t; ++s) x -= __ldg(weights + s) * changes[s * stride];
    return x;
}

// At least ε; what is not a number stays so, and shows in the error.
__device__ __forceinline__ Number clipped(Number x, Number epsilon) { return x < epsilon ? epsilon : x; }

// A tile of H: no row waits for another. Grid: enough blocks for all rows, a thread a row.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) sweep_tile(
    const Tile tile, const Number* __restrict__ gram, int rows, int in_shared
) {
    extern __shared__ __align__(16) unsigned char memory[];
    const long long row = (long long)blockIdx.x * rows + threadIdx.x;
    if (row >= tile.n) return;
    Number* const changes = in_shared ? (Number*)memory + threadIdx.x : tile.targets + row;
    const long long stride = in_shared ? rows : tile.n;
    Number* const table = tile.table + tile.first * tile.n + row;
    Number old = table[0], target = tile.products[row] + tile.targets[row];
    for (int t = 0; t < tile.count; ++t) {
        Number next_old = 0, next_target = 0;  // under way while column t is updated
        if (t + 1 < tile.count) {
            const long long at = (t + 1) * tile.n;
            next_old = table[at], next_target = tile.products[at + row] + tile.targets[at + row];
        }
        const Number found = clipped(old + less_changes(target, tile, gram, t, changes, stride), tile.epsilon);
        table[t * tile.n] = found;
        changes[t * stride] = found - old;
        old = next_old, target = next_target;
    }
}

constexpr unsigned long long MARK = ~0ull;  // no sum: a NaN that arithmetic does not make

// Σ x over the block, alike in all threads.
__device__ __forceinline__ double summed(double x, double* sums) {
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = x;
    __syncthreads();  // sums of all warps are there
    return warp_sum(sums[threadIdx.x % WARP]);
}

// Σ x over the grid, alike in all threads: waits for all blocks. `parts`: (blocks,), every one MARK when the kernel starts.
__device__ __forceinline__ double grid_sum(double x, unsigned long long* parts) {
    __shared__ double sums[2 * WARP];
    x = summed(x, sums);
    if (threadIdx.x == 0) {
        const unsigned long long bits = x != x ? 0x7FF8000000000000ull : (unsigned long long)__double_as_longlong(x);
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(parts + blockIdx.x), "l"(bits) : "memory");
    }
    unsigned long long bits = 0;  // no block: 0.0
    if (threadIdx.x < gridDim.x)
        do asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(parts + threadIdx.x) : "memory");
        while (bits == MARK);
    return summed(__longlong_as_double((long long)bits), sums + WARP);
}

// A tile of W, in `rows` rows a block. Each pass over the block's rows completes column t − 1, whose norm is known, and
// updates column t. `parts`: (K, blocks).
extern "C" __global__ void __launch_bounds__(NORM_THREADS) sweep_tile_normalising(
    const Tile tile, const Number* __restrict__ gram, int rows, int in_shared, unsigned long long* parts
) {
    extern __shared__ __align__(16) unsigned char memory[];
    const long long begin = (long long)blockIdx.x * rows, end = min(begin + rows, tile.n);
    const long long stride = in_shared ? rows : tile.n;
    Number* const own = in_shared ? (Number*)memory : tile.targets + begin;
    Number factor = 1;
    for (int t = 0; t <= tile.count; ++t) {
        const int k = tile.first + t;
        const bool is_last = t == tile.count;
        const Number diagonal = is_last ? Number(0) : gram[(long long)k * tile.n_factors + k];
        double squares = 0;
        for (long long row = begin + threadIdx.x; row < end; row += NORM_THREADS) {
            Number* const changes = own + (row - begin);
            Number* const at = tile.table + k * tile.n + row;
            const Number old = is_last ? Number(0) : *at;
            Number x = is_last ? Number(0) : tile.products[t * tile.n + row] + tile.targets[t * tile.n + row];
            if (t > 0) {
                const Number done = clipped(at[-tile.n] * factor, tile.epsilon);
                at[-tile.n] = done;
                changes[(t - 1) * stride] += done;
            }
            if (is_last) continue;
            x = clipped(old * diagonal + less_changes(x, tile, gram, t, changes, stride), tile.epsilon);
            *at = x;
            changes[t * stride] = -old;
            squares += (double)x * x;
        }
        if (!is_last) factor = (Number)(1 / sqrt(grid_sum(squares, parts + (long long)k * gridDim.x)));
    }
}
