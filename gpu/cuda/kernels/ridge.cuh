// One small symmetric system a block, formed and solved in registers, never written to memory:
//
//   (Σ w z zᵀ + diag(ridge)) x = Σ w y z − diag(ridge) x0   over staged observations z (DIM,), y; x0 where the step starts.
//
// y is staged as the last column, so the last row of the matrix is the right-hand side, and factoring the others by
// Cholesky substitutes forward on the way. FP32: the ridge keeps the condition of the systems in the hundreds.
//
// Who owns what. A thread owns a tile of 8 x 8 in the lower triangle (HELD of them where there are more tiles than threads:
// then they lie in local memory, slower). Tile column `a` is the physical columns 4a to 4a + 3 and HALF + 4a to HALF + 4a + 3:
// eight threads that read 16 bytes each then touch every bank of shared memory once.
//
// Factoring goes tile column by tile column: the thread of the diagonal tile factors it, those below solve against it
// and stage their columns as eight observations of weight −1, which all tiles to the right then add by the same code.
// Sums have one order, so equal inputs give equal bits.

constexpr int TILES = (DIM + 1 + 7) / 8, WIDTH = 8 * TILES, HALF = 4 * TILES, LAST = WIDTH - 1;  // LAST: the column of y
constexpr int N_TILES = TILES * (TILES + 1) / 2;
constexpr int MOST_THREADS = 576;  // threads of a block that all have registers for a tile
constexpr int THREADS = N_TILES <= MOST_THREADS ? (N_TILES + 31) / 32 * 32 : 512;
constexpr int HELD = (N_TILES + THREADS - 1) / THREADS;
constexpr int STAGE = DIM <= 512 ? 16 : 8;  // observations staged at once
constexpr int BLOCKS = THREADS < 512 ? 512 / THREADS : 1;  // per multiprocessor: leaves 128 registers per thread

constexpr int power_below(int n) { return n < 2 ? 1 : 2 * power_below(n / 2); }
constexpr int SCORERS = power_below(THREADS / STAGE < 32 ? THREADS / STAGE : 32);  // threads that compute one score
static_assert(SCORERS * STAGE % 32 == 0, "whole warps");

struct Shared {
    alignas(16) float rows[2][STAGE][WIDTH];  // two alternating stages; then columns of the factor
    float weights[2][STAGE];
    float ridge[WIDTH], start[WIDTH];         // by physical column
    float right[WIDTH], inverse[WIDTH], solution[WIDTH];  // by tile; inverse: of the factor's diagonal
    float diagonal[8][8];
};

struct Tile { int row, column; };  // numbers of tile rows; row ≥ column

__device__ __forceinline__ Tile tile_of(int n) {
    int row = (int)((sqrtf(8.0f * n + 1) - 1) / 2);
    if (row * (row + 1) / 2 > n) --row;
    if ((row + 1) * (row + 2) / 2 <= n) ++row;
    return {row, n - row * (row + 1) / 2};
}

__device__ __forceinline__ int physical(int tile, int e) { return e < 4 ? 4 * tile + e : HALF + 4 * tile + e - 4; }

typedef float Sums[8][8];

__device__ __forceinline__ void load8(float (&to)[8], const float* row, int tile) {
    const float4 low = *(const float4*)(row + 4 * tile), high = *(const float4*)(row + HALF + 4 * tile);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w, to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

// sums += Σ weight · row rowᵀ over `N` rows, in this tile. WEIGHTED: by `weights`; else SIGN.
template <bool WEIGHTED, int SIGN, int N> __device__ __forceinline__ void add_rows(Sums& sums, Tile tile, const float (*rows)[WIDTH], const float* weights) {
#pragma unroll 2
    for (int n = 0; n < N; ++n) {
        float x[8], z[8];
        load8(x, rows[n], tile.row), load8(z, rows[n], tile.column);
        if (WEIGHTED || SIGN < 0) {
            const float weight = WEIGHTED ? weights[n] : -1.0f;
#pragma unroll
            for (int r = 0; r < 8; ++r) x[r] *= weight;
        }
#pragma unroll
        for (int r = 0; r < 8; ++r)
#pragma unroll
            for (int c = 0; c < 8; ++c) sums[r][c] += x[r] * z[c];
    }
}

__device__ __forceinline__ void clear(Sums (&sums)[HELD]) {
    for (int h = 0; h < HELD; ++h)
#pragma unroll
        for (int r = 0; r < 8; ++r)
#pragma unroll
            for (int c = 0; c < 8; ++c) sums[h][r][c] = 0;
}

// `body(tile, sums)` for the tiles of this thread.
template <class Body> __device__ __forceinline__ void for_tiles(Sums (&sums)[HELD], Body body) {
    if constexpr (HELD == 1) {
        if (threadIdx.x < N_TILES) body(tile_of(threadIdx.x), sums[0]);
    } else {
        for (int h = 0; h < HELD; ++h)
            if (threadIdx.x + h * THREADS < N_TILES) body(tile_of(threadIdx.x + h * THREADS), sums[h]);
    }
}

__device__ __forceinline__ void add_ridge(Sums& sums, Tile tile, const Shared& shared) {
    if (tile.row == tile.column)
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[e][e] += shared.ridge[physical(tile.row, e)];
    if (tile.row == TILES - 1)
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const int column = physical(tile.column, c);
            if (column != LAST) sums[7][c] -= shared.ridge[column] * shared.start[column];
        }
}

// sums += `matrix` (WIDTH, WIDTH), symmetric, by physical columns, 0 for padding.
__device__ __forceinline__ void add_matrix(Sums& sums, Tile tile, const float* matrix) {
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        float x[8];
        load8(x, matrix + physical(tile.row, r) * WIDTH, tile.column);
#pragma unroll
        for (int c = 0; c < 8; ++c) sums[r][c] += x[c];
    }
}

// Factor the tile on the diagonal in place; the last row of the last one is the right-hand side.
__device__ __forceinline__ void factor_tile(Sums& sums, int tile, Shared& shared) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        if (j == 7 && tile == TILES - 1) break;
        const float inverse = rsqrtf(sums[j][j]);
        shared.inverse[8 * tile + j] = inverse;
#pragma unroll
        for (int r = j; r < 8; ++r) sums[r][j] *= inverse;
#pragma unroll
        for (int c = j + 1; c < 8; ++c)
#pragma unroll
            for (int r = c; r < 8; ++r) sums[r][c] -= sums[r][j] * sums[c][j];
    }
#pragma unroll
    for (int r = 0; r < 8; ++r)
#pragma unroll
        for (int c = 0; c < r; ++c) shared.diagonal[r][c] = sums[r][c];
}

// Solve a tile below the diagonal against it, and stage its columns.
__device__ __forceinline__ void solve_tile(Sums& sums, Tile tile, Shared& shared) {
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        float factors[8];
#pragma unroll
        for (int m = 0; m < c; ++m) factors[m] = shared.diagonal[c][m];
        const float inverse = shared.inverse[8 * tile.column + c];
#pragma unroll
        for (int r = 0; r < 8; ++r) {
            float left = sums[r][c];
#pragma unroll
            for (int m = 0; m < c; ++m) left -= factors[m] * sums[r][m];
            sums[r][c] = left * inverse;
            shared.rows[0][c][physical(tile.row, r)] = sums[r][c];
        }
    }
}

__device__ __forceinline__ void factor(Sums (&sums)[HELD], Shared& shared) {
    for (int k = 0; k < TILES; ++k) {
        for_tiles(sums, [&](Tile tile, Sums& mine) {
            if (tile.row == k && tile.column == k) factor_tile(mine, k, shared);
        });
        __syncthreads();
        for_tiles(sums, [&](Tile tile, Sums& mine) {
            if (tile.column == k && tile.row > k) solve_tile(mine, tile, shared);
        });
        __syncthreads();
        for_tiles(sums, [&](Tile tile, Sums& mine) {
            if (tile.column > k) add_rows<false, -1, 8>(mine, tile, shared.rows[0], nullptr);
        });
    }
}

// Substitute backward from the last row; leaves x in `solution`, by tile.
__device__ __forceinline__ void substitute(Sums (&sums)[HELD], Shared& shared) {
    for_tiles(sums, [&](Tile tile, Sums& mine) {
        if (tile.row == TILES - 1)
#pragma unroll
            for (int c = 0; c < 8; ++c) shared.right[8 * tile.column + c] = mine[7][c];
    });
    __syncthreads();
    for (int k = TILES - 1; k >= 0; --k) {
        for_tiles(sums, [&](Tile tile, Sums& mine) {
            if (tile.row != k || tile.column != k) return;
            float x[8];
#pragma unroll
            for (int j = 7; j >= 0; --j) {
                float left = shared.right[8 * k + j];
#pragma unroll
                for (int r = j + 1; r < 8; ++r) left -= mine[r][j] * x[r];
                x[j] = j == 7 && k == TILES - 1 ? 0.0f : left * shared.inverse[8 * k + j];
                shared.solution[8 * k + j] = x[j];
            }
        });
        __syncthreads();
        for_tiles(sums, [&](Tile tile, Sums& mine) {
            if (tile.row != k || tile.column >= k) return;
#pragma unroll
            for (int c = 0; c < 8; ++c) {
                float less = 0;
#pragma unroll
                for (int r = 0; r < 8; ++r) less += mine[r][c] * shared.solution[8 * k + r];
                shared.right[8 * tile.column + c] -= less;
            }
        });
        __syncthreads();
    }
}

// Add the step that solves the system to `start`. Columns beyond DIM must have ridge 1.
__device__ __forceinline__ void solve(Sums (&sums)[HELD], Shared& shared) {
    for_tiles(sums, [&](Tile tile, Sums& mine) { add_ridge(mine, tile, shared); });
    __syncthreads();  // all threads have read the stages
    factor(sums, shared);
    substitute(sums, shared);
    for (int n = threadIdx.x; n < WIDTH; n += THREADS)
        if (physical(n / 8, n % 8) < DIM) shared.start[physical(n / 8, n % 8)] += shared.solution[n];
    __syncthreads();
}

// --- staging ----------------------------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

// Copy BYTES (4 or 16) to shared memory, from 8.0 on while computing goes on; zeros unless `is_there`.
template <int BYTES> __device__ __forceinline__ void copy(float* to, const float* from, bool is_there) {
#if __CUDA_ARCH__ >= 800
    const int n = is_there ? BYTES : 0;
    if constexpr (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address(to)), "l"(from), "r"(n));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address(to)), "l"(from), "r"(n));
#else
    for (int n = 0; n < BYTES / 4; ++n) to[n] = is_there ? from[n] : 0.0f;
#endif
}
__device__ __forceinline__ void commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}
template <int GROUPS> __device__ __forceinline__ void wait_but() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS));
#endif
}

// Copy LENGTH numbers of each observation n of a stage, from `table` + `place(n)` (below 0: zeros), to its columns from FIRST on.
template <int LENGTH, int FIRST, class Place> __device__ __forceinline__ void stage_columns(Shared& shared, int turn, const float* table, Place place) {
    constexpr int EACH = LENGTH % 4 == 0 && FIRST % 4 == 0 ? 4 : 1, PIECES = LENGTH / EACH;
    for (int at = threadIdx.x; at < STAGE * PIECES; at += THREADS) {
        const int n = at / PIECES, column = at % PIECES * EACH;
        const long long from = place(n);
        copy<4 * EACH>(&shared.rows[turn][n][FIRST + column], table + (from < 0 ? 0 : from + column), from >= 0);
    }
}

struct Rules {  // in the layout of gpu/online/device/refit_users.py; see gpu/data/refit_rules.py
    float factor, factor_prior, bias, bias_prior, weight, weight_prior, weight_unit;
    double baseline_prior;
    int max_ratings, n_negatives, max_negatives, n_steps;
    unsigned long long seed;
};
static_assert(sizeof(Rules) == 64, "as NumPy writes it");

__device__ __forceinline__ float sigmoid(float score) { return 1 / (1 + expf(-score)); }

// (σ(x) − ½) / x: see gpu/online/host/refit_users.py.
__device__ __forceinline__ float curvature(float score) { return fabsf(score) < 1e-3f ? 0.25f : 0.5f * tanhf(0.5f * score) / score; }

// Sum over N neighboring lanes, in a fixed order, the same in each of them.
template <int N = 32> __device__ __forceinline__ float sum_of_lanes(float mine) {
    for (int by = N / 2; by > 0; by /= 2) mine += __shfl_xor_sync(~0u, mine, by);
    return mine;
}

// Zero all stages; a barrier must follow. Elements that no copy writes stay zero or are written after each copy.
__device__ __forceinline__ void clear_stages(Shared& shared) {
    for (int at = threadIdx.x; at < 2 * STAGE * WIDTH; at += THREADS) (&shared.rows[0][0][0])[at] = 0;
}

struct Observation { float offset, target, count; };  // count 0: no observation

// The number y of each staged observation and its weight, by its score: [004] §5.4, as a step of Newton's method.
template <class Observed> __device__ __forceinline__ void weigh(Shared& shared, int turn, Observed observed) {
    if (threadIdx.x >= SCORERS * STAGE) return;
    const int n = threadIdx.x / SCORERS, lane = threadIdx.x % SCORERS;
    const Observation own = observed(n);
    float score = 0;
    for (int column = lane; column < DIM; column += SCORERS) score += shared.rows[turn][n][column] * shared.start[column];
    score = sum_of_lanes<SCORERS>(score) + own.offset;
    const float bound = curvature(score);
    if (lane > 0) return;
    shared.weights[turn][n] = own.count * bound;
    shared.rows[turn][n][LAST] = (own.target - sigmoid(score)) / bound;
}

// Add n observations to `sums`: `stage(first, turn)` begins to copy observations from `first` on to stage `turn`.
// WEIGHTED: `observed(at)` describes one; each gets its weight and its y after its copy has arrived.
template <bool WEIGHTED, class Stage, class Observed>
__device__ __forceinline__ void add_observations(Sums (&sums)[HELD], Shared& shared, int n, Stage stage, Observed observed) {
    clear_stages(shared);
    __syncthreads();
    stage(0, 0);
    commit();
    for (int first = 0; first < n; first += STAGE) {
        const int turn = first / STAGE % 2;
        if (first + STAGE < n) stage(first + STAGE, 1 - turn);
        commit();
        wait_but<1>();
        __syncthreads();
        if (WEIGHTED) {
            weigh(shared, turn, [&](int at) { return first + at < n ? observed(first + at) : Observation{0, 0, 0}; });
            __syncthreads();
        }
        for_tiles(sums, [&](Tile tile, Sums& mine) { add_rows<WEIGHTED, 1, STAGE>(mine, tile, shared.rows[turn], shared.weights[turn]); });
        __syncthreads();
    }
    wait_but<0>();
    __syncthreads();
}

// --- systems that several blocks form ---------------------------------------------------------------------------------

constexpr int PARTIAL = HELD * 64 * THREADS;  // numbers of a block's sums

__device__ __forceinline__ void store(const Sums (&sums)[HELD], float* partial) {
    for (int h = 0; h < HELD; ++h)
#pragma unroll
        for (int e = 0; e < 64; ++e) partial[(h * 64 + e) * THREADS + threadIdx.x] = sums[h][e / 8][e % 8];
}

__device__ __forceinline__ void add(Sums (&sums)[HELD], const float* partial) {
    for (int h = 0; h < HELD; ++h)
#pragma unroll
        for (int e = 0; e < 64; ++e) sums[h][e / 8][e % 8] += __ldcg(partial + (h * 64 + e) * THREADS + threadIdx.x);
}

// Store this block's sums as the `part`-th of `n_parts`; the last block gets the sums of all parts, added in order.
__device__ __forceinline__ bool is_last(Sums (&sums)[HELD], float* partials, int part, int n_parts, int* arrived) {
    __shared__ int before;
    store(sums, partials + (long long)part * PARTIAL);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) before = atomicAdd(arrived, 1);
    __syncthreads();
    if (before < n_parts - 1) return false;
    __threadfence();
    clear(sums);
    for (int other = 0; other < n_parts; ++other) add(sums, partials + (long long)other * PARTIAL);
    if (threadIdx.x == 0) *arrived = 0;
    return true;
}
