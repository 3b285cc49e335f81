// NMF: products of a sparse matrix with a table of factors, and tables turned from columns to rows and back.
//
// Compiled for DOUBLE 0 or 1: float or double; HELD: 16-byte pieces of a table's row that a lane holds in `gather`.
//
// Layout. `gather` takes tables by rows of `width` numbers, zeros up to whole 16-byte pieces, so that a warp reads a
// row in one piece; sweeps (hals.cu) take them by columns, and `transpose` converts one into the other.
//
// Who owns what. `gather`: a warp owns an item, a lane HELD pieces of its sum; long rows come in items whose sums
// `add_slots` adds, a warp a row. `transpose`: a block owns a square. Every sum has a fixed order: equal inputs give
// equal bits on equal devices.
//
// Limits: `width` up to HELD · 512 bytes. Races: none; no thread reads what another one writes.

#if DOUBLE
using Number = double;
#else
using Number = float;
#endif

constexpr int WARP = 32;
constexpr int PIECE = 16 / sizeof(Number);
constexpr int GATHER_THREADS = 256;
constexpr int EDGE = 32, DEPTH = 8;  // size of a square that is transposed at once, and rows of its threads
constexpr int IN_FLIGHT = HELD >= 8 ? 1 : 8 / HELD;  // entries whose rows a warp reads at once

struct alignas(16) Piece { Number x[PIECE]; };

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
    const bool is_whole = item.slot < 0;
    Piece* const out = (Piece*)((is_whole ? to : slots) + (long long)(is_whole ? item.row : item.slot) * width);
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

// to[c][r] = from[r][c] for r below n_rows, c below n_columns. Grid: a block a square, row after row of squares.
extern "C" __global__ void __launch_bounds__(EDGE * DEPTH) transpose(
    const Number* __restrict__ from, long long from_stride, Number* __restrict__ to, long long to_stride,
    long long n_rows, long long n_columns
) {
    __shared__ Number square[EDGE][EDGE + 1];  // a column then has no bank conflicts
    const long long across = (n_columns + EDGE - 1) / EDGE;
    const long long row = blockIdx.x / across * EDGE, column = blockIdx.x % across * EDGE;
    const int x = threadIdx.x % EDGE, y = threadIdx.x / EDGE;
    for (int r = y; r < EDGE; r += DEPTH)
        if (row + r < n_rows && column + x < n_columns) square[r][x] = from[(row + r) * from_stride + column + x];
    __syncthreads();  // the square is complete
    for (int c = y; c < EDGE; c += DEPTH)
        if (column + c < n_columns && row + x < n_rows) to[(column + c) * to_stride + row + x] = square[x][c];
}
