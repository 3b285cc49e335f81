// Rows of a model of ALS or NMF, each solved exactly for a fixed other side; twin of gpu/online/host/exact.py.
//
//   ALS   (VᵀV + Σ w z zᵀ + R) x = Σ y z + R p over the ratings of the row, by Cholesky, with R = diag(ρ unit; ρ) and
//         the row's prior p. Implicit: z = v, w = α|r|, y = 1 + w for a like and 0 for a dislike. Else without VᵀV: z = [v; 1] or v, w = 1, y = r − μ − b.
//   NMF   min ½ xᵀ(VᵀV + ρ I)x − (Σ r v)ᵀx over x ≥ 0, by coordinate descent from 0.
//
// FP64. One block a row, so nothing is shared between rows; every sum runs over the ratings in their order, or over a row
// of the matrix in a fixed order. So the bits of a row depend neither on other rows nor on how its ratings are divided
// among launches: a launch continues a row of very many ratings from the sums that the one before left in `carry`.
//
// Who owns what (ALS). The lower triangle, with y as its last row, is cut into tiles of 4 x 4, numbered column by
// column of tiles; number n belongs to thread n % THREADS, and no other thread reads or writes it until the factor is
// done. Exceptions lie between barriers: the ridge, and the tiles that substitution reads. Element e of tile n lies at
// e N_TILES + n, so that neighboring threads access neighboring words. Ratings are staged STAGE at a time: z as
// doubles, in the order of `physical`, by which eight threads that read 16 bytes each touch every bank once. Factoring
// a column of tiles leaves four columns of the factor in the stage, which all tiles to the right subtract as they add
// ratings. With y in the last row, substitution forward happens on the way.
//
// Shared memory: `Stage`, 60 KB at most, and behind it the matrix where it fits (`solve_in_shared`), D up to 219
// on an H100; else the matrix lies in `workspace`, one for each block of the grid, which takes rows one after
// the other (`solve_in_memory`).
//
// NMF has no matrix of its own: a thread owns every N_THREADS-th column and holds its residual of y, x, and the
// next row of VᵀV + ρ I. The owner of the next column publishes its step before the barrier that ends the
// present one; with two alternating slots one barrier per step is enough.
//
// Limits: F ≤ 1,024; N < 2³¹ ratings in a launch.

constexpr int D = F + BIASES;
constexpr int TILES = (D + 4) / 4, WIDTH = 4 * TILES, HALF = WIDTH / 2, LAST = WIDTH - 1;  // LAST: the row of y
constexpr int N_TILES = TILES * (TILES + 1) / 2, SIZE = 16 * N_TILES;                       // numbers of a matrix
constexpr int MOST_THREADS = 288, ROUNDS = (N_TILES + MOST_THREADS - 1) / MOST_THREADS;
constexpr int THREADS = ((N_TILES + ROUNDS - 1) / ROUNDS + 31) / 32 * 32;
constexpr int STAGE = WIDTH <= 256 ? 16 : WIDTH <= 512 ? 8 : 4;  // ratings
constexpr int N_THREADS = F < 256 ? (F + 31) / 32 * 32 : 256, COLUMNS = (F + N_THREADS - 1) / N_THREADS;  // for NMF
constexpr int STORE_THREADS = 256;

struct Rows {
    const long long* bounds;  // (n + 1): row b has the ratings bounds[b] to bounds[b + 1]
    const double* ridges;     // (n,): ρ
    const int* others;        // rows of the fixed side; nullptr: rating k is of row k
    const float* values;
    const double* priors;     // (n, F + 1): [p; b], toward which the ridge draws a row; nullptr: toward 0
    int n, is_begun, is_ended, unused;  // whether `carry` has sums; whether this launch has the last ratings
};
struct Side {                 // the fixed side
    const float *factors, *biases;
    const double *gram;       // VᵀV (F, F), both triangles
    const double *usual, *pull;  // (F,), implicit ALS: m, the factors of rows without likes, and VᵀV m
    double trace;             // trace of `gram`
};
struct Constants { double alpha, mean, unit, smallest, tiny, tolerance; long long n_sweeps; };
static_assert(sizeof(Rows) == 56 && sizeof(Side) == 48 && sizeof(Constants) == 56, "as NumPy writes them");

struct Stage {
    alignas(16) double rows[STAGE][WIDTH];  // z of some ratings; then columns of the factor
    double weights[STAGE], targets[STAGE];
    double right[WIDTH], solution[WIDTH], inverse[WIDTH];  // inverse: of the factor's diagonal
    double diagonal[4][4];                                 // tile of the factor on the diagonal
    double ridge;
    int has_likes;
};

struct Tile { int row, column; };  // row ≥ column
typedef double Sums[4][4];

extern __shared__ __align__(16) double memory[];

__device__ __forceinline__ int first_tile(int column) { return column * TILES - column * (column - 1) / 2; }

__device__ __forceinline__ Tile tile_of(int n) {
    const int back = N_TILES - 1 - n;  // counted from the end it is a triangle row by row
    int row = (int)((sqrtf(8.0f * back + 1) - 1) / 2);
    if (row * (row + 1) / 2 > back) --row;
    if ((row + 1) * (row + 2) / 2 <= back) ++row;
    return {TILES - 1 - (back - row * (row + 1) / 2), TILES - 1 - row};
}

__device__ __forceinline__ int place_of(int row, int column) {
    return (row % 4 * 4 + column % 4) * N_TILES + first_tile(column / 4) + row / 4 - column / 4;
}

__device__ __forceinline__ int physical(int column) { return column % 4 < 2 ? column / 4 * 2 + column % 4 : HALF + column / 4 * 2 + column % 4 - 2; }

__device__ __forceinline__ void load4(double (&to)[4], const double* row, int tile) {
    const double2 low = *(const double2*)(row + 2 * tile), high = *(const double2*)(row + HALF + 2 * tile);
    to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}

// `body(n, tile)` for the tiles of this thread among `first` to `last`.
template <class Body> __device__ __forceinline__ void for_tiles(int first, int last, Body body) {
    int n = threadIdx.x;
    if (n < first) n += (first - n + THREADS - 1) / THREADS * THREADS;
    for (; n < last; n += THREADS) body(n, tile_of(n));
}

__device__ __forceinline__ void load(Sums& sums, const double* matrix, int n) {
#pragma unroll
    for (int e = 0; e < 16; ++e) sums[e / 4][e % 4] = matrix[e * N_TILES + n];
}

__device__ __forceinline__ void store(const Sums& sums, double* matrix, int n) {
#pragma unroll
    for (int e = 0; e < 16; ++e) matrix[e * N_TILES + n] = sums[e / 4][e % 4];
}

// The matrix before the first rating; columns between D and LAST are no unknowns and get x = 0.
__device__ __forceinline__ double initial(int row, int column, const Side& side) {
    if (IMPLICIT && row < F && column < F) return side.gram[(long long)column * F + row];
    return row == column && row >= D && row < LAST ? 1.0 : 0.0;
}

__device__ __forceinline__ void begin(double* matrix, const double* carry, const Rows& rows, const Side& side) {
    for_tiles(0, N_TILES, [&](int n, Tile tile) {
#pragma unroll
        for (int e = 0; e < 16; ++e)
            matrix[e * N_TILES + n] = rows.is_begun ? carry[e * N_TILES + n] : initial(4 * tile.row + e / 4, 4 * tile.column + e % 4, side);
    });
}

__device__ __forceinline__ long long other_of(const Rows& rows, long long rating) { return rows.others ? rows.others[rating] : rating; }

// Stage `n` ratings from `first` on. All threads must have read the stage before.
__device__ __forceinline__ void stage_ratings(Stage& stage, const Rows& rows, const Side& side, const Constants& constants, long long first, int n) {
    for (int at = threadIdx.x; at < n * WIDTH; at += THREADS) {
        const int s = at / WIDTH, column = at % WIDTH;
        double z = column < D ? 1.0 : 0.0;
        if (column < F) z = side.factors[other_of(rows, first + s) * F + column];
        stage.rows[s][physical(column)] = z;
    }
    if (threadIdx.x >= n) return;
    const double value = rows.values[first + threadIdx.x];
    double weight = 1.0, target;
    if (IMPLICIT) {
        weight = constants.alpha * fabs(value);
        target = value > 0 ? 1.0 + weight : 0.0;
    } else {
        target = value - constants.mean - side.biases[other_of(rows, first + threadIdx.x)];
    }
    stage.weights[threadIdx.x] = weight, stage.targets[threadIdx.x] = target;
}

// sums += Σ w z zᵀ over `n` staged ratings, y zᵀ in the row of y.
__device__ __forceinline__ void add_staged(Sums& sums, Tile tile, const Stage& stage, int n) {
#pragma unroll 2
    for (int s = 0; s < n; ++s) {
        double x[4], z[4];
        load4(x, stage.rows[s], tile.row), load4(z, stage.rows[s], tile.column);
#pragma unroll
        for (int r = 0; r < 4; ++r) x[r] *= stage.weights[s];
        if (tile.row == TILES - 1) x[3] = stage.targets[s];
#pragma unroll
        for (int e = 0; e < 16; ++e) sums[e / 4][e % 4] = fma(x[e / 4], z[e % 4], sums[e / 4][e % 4]);
    }
}

__device__ __forceinline__ void
add_ratings(double* matrix, Stage& stage, const Rows& rows, const Side& side, const Constants& constants, long long first, long long last) {
    for (; first < last; first += STAGE) {
        const int n = last - first < STAGE ? (int)(last - first) : STAGE;
        __syncthreads();
        stage_ratings(stage, rows, side, constants, first, n);
        __syncthreads();
        for_tiles(0, N_TILES, [&](int at, Tile tile) {
            Sums sums;
            load(sums, matrix, at);
            add_staged(sums, tile, stage, n);
            store(sums, matrix, at);
        });
    }
}

// Find ρ, which is not below a small share of the mean diagonal, and whether anything was liked; by one thread.
__device__ __forceinline__ void measure(const double* matrix, Stage& stage, double given, const Constants& constants) {
    double diagonal = 0;
    int has_likes = 0;
#pragma unroll 4
    for (int a = 0; a < D; ++a) {
        diagonal += matrix[place_of(a, a)];
        has_likes |= matrix[place_of(LAST, a)] != 0;
    }
    stage.ridge = fmax(fmax(given, constants.smallest * diagonal / D), constants.tiny);
    stage.has_likes = has_likes;
}

// Add the ridge, and ρ p to y for a prior p; set y to (VᵀV + ρ I) m for rows without likes: without dislikes their
// solution is m.
__device__ __forceinline__ void add_ridge(double* matrix, Stage& stage, double given, const double* prior, const Side& side, const Constants& constants) {
    __syncthreads();
    if (threadIdx.x == 0) measure(matrix, stage, given, constants);
    __syncthreads();
    for (int a = threadIdx.x; a < D; a += THREADS) {
        const double own = a < F ? stage.ridge * constants.unit : stage.ridge;
        matrix[place_of(a, a)] += own;
        if (IMPLICIT && !stage.has_likes) matrix[place_of(LAST, a)] = given * side.usual[a] + side.pull[a];
        if (prior) matrix[place_of(LAST, a)] += own * prior[a];
    }
    __syncthreads();
}

// Factor the tile on the diagonal; the last row of the last one is y.
__device__ __forceinline__ void factor_tile(Sums& sums, int k, Stage& stage) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (j == 3 && k == TILES - 1) break;
        const double inverse = 1.0 / sqrt(sums[j][j]);
        stage.inverse[4 * k + j] = inverse;
#pragma unroll
        for (int r = j; r < 4; ++r) sums[r][j] *= inverse;
#pragma unroll
        for (int c = j + 1; c < 4; ++c)
#pragma unroll
            for (int r = c; r < 4; ++r) sums[r][c] -= sums[r][j] * sums[c][j];
    }
#pragma unroll
    for (int e = 0; e < 16; ++e) stage.diagonal[e / 4][e % 4] = sums[e / 4][e % 4];
}

// Solve a tile below the diagonal against it, and stage its columns.
__device__ __forceinline__ void solve_tile(Sums& sums, Tile tile, Stage& stage) {
#pragma unroll
    for (int c = 0; c < 4; ++c)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            double left = sums[r][c];
#pragma unroll
            for (int m = 0; m < c; ++m) left -= stage.diagonal[c][m] * sums[r][m];
            sums[r][c] = left * stage.inverse[4 * tile.column + c];
            stage.rows[c][physical(4 * tile.row + r)] = sums[r][c];
        }
}

__device__ __forceinline__ void subtract_staged(Sums& sums, Tile tile, const Stage& stage) {
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        double x[4], z[4];
        load4(x, stage.rows[m], tile.row), load4(z, stage.rows[m], tile.column);
#pragma unroll
        for (int e = 0; e < 16; ++e) sums[e / 4][e % 4] = fma(-x[e / 4], z[e % 4], sums[e / 4][e % 4]);
    }
}

__device__ __forceinline__ void factor(double* matrix, Stage& stage) {
    for (int k = 0; k < TILES; ++k) {
        const int first = first_tile(k), next = first_tile(k + 1);
        for_tiles(first, first + 1, [&](int n, Tile) {
            Sums sums;
            load(sums, matrix, n);
            factor_tile(sums, k, stage);
            store(sums, matrix, n);
        });
        __syncthreads();
        for_tiles(first + 1, next, [&](int n, Tile tile) {
            Sums sums;
            load(sums, matrix, n);
            solve_tile(sums, tile, stage);
            store(sums, matrix, n);
        });
        __syncthreads();
        for_tiles(next, N_TILES, [&](int n, Tile tile) {
            Sums sums;
            load(sums, matrix, n);
            subtract_staged(sums, tile, stage);
            store(sums, matrix, n);
        });
    }
    __syncthreads();
}

// Substitute backward; leaves x in `solution`.
__device__ __forceinline__ void substitute(const double* matrix, Stage& stage) {
    for (int a = threadIdx.x; a < LAST; a += THREADS) stage.right[a] = matrix[place_of(LAST, a)];
    for (int k = TILES - 1; k >= 0; --k) {
        const int end = k == TILES - 1 ? LAST : 4 * k + 4;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int a = end - 1; a >= 4 * k; --a) {
                double left = stage.right[a];
                for (int row = a + 1; row < end; ++row) left -= matrix[place_of(row, a)] * stage.solution[row];
                stage.solution[a] = left * stage.inverse[a];
            }
        __syncthreads();
        for (int a = threadIdx.x; a < 4 * k; a += THREADS) {
            double left = stage.right[a];
            for (int row = 4 * k; row < end; ++row) left -= matrix[place_of(row, a)] * stage.solution[row];
            stage.right[a] = left;
        }
    }
    __syncthreads();
}

__device__ __forceinline__ void solve_row(int b, double* matrix, const Rows& rows, const Side& side, const Constants& constants, double* carry, double* found) {
    Stage& stage = *(Stage*)memory;
    const long long first = rows.bounds[b], last = rows.bounds[b + 1];
    double* to = found + (long long)b * (F + 1);
    if (first == last) {
        for (int a = threadIdx.x; a <= F; a += THREADS) to[a] = 0;
        return;
    }
    begin(matrix, carry, rows, side);
    add_ratings(matrix, stage, rows, side, constants, first, last);
    if (!rows.is_ended) {
        for_tiles(0, N_TILES, [&](int n, Tile) {
            for (int e = 0; e < 16; ++e) carry[e * N_TILES + n] = matrix[e * N_TILES + n];
        });
        return;
    }
    const double* prior = rows.priors ? rows.priors + (long long)b * (F + 1) : nullptr;
    add_ridge(matrix, stage, rows.ridges[b], prior, side, constants);
    factor(matrix, stage);
    substitute(matrix, stage);
    for (int a = threadIdx.x; a <= F; a += THREADS) to[a] = a < D ? stage.solution[a] : 0;
    __syncthreads();
}

// Grid: a block a row. Shared memory: `Stage` and a matrix.
// Args: found (n, F + 1): [x; b], zeros for rows without ratings, b = 0 without biases.
extern "C" __global__ void __launch_bounds__(THREADS)
solve_in_shared(Rows rows, Side side, Constants constants, double* carry, double* found) {
    solve_row(blockIdx.x, memory + sizeof(Stage) / sizeof(double), rows, side, constants, carry, found);
}

// Grid: as many blocks as there are matrices in `workspace`, or rows. Shared memory: `Stage`.
extern "C" __global__ void __launch_bounds__(THREADS)
solve_in_memory(Rows rows, Side side, Constants constants, double* carry, double* found, double* workspace) {
    for (int b = blockIdx.x; b < rows.n; b += gridDim.x)
        solve_row(b, workspace + (long long)blockIdx.x * SIZE, rows, side, constants, carry, found);
}

// --- NMF --------------------------------------------------------------------------------------------------------------

struct Step { double change, x; };  // step of one column

struct Descent {                    // a thread's values of its columns
    double left[COLUMNS], x[COLUMNS], line[COLUMNS];
};

__device__ __forceinline__ int column_of(int held) { return threadIdx.x + held * N_THREADS; }

// The row of VᵀV + ρ I of column `k`, where this thread has columns.
__device__ __forceinline__ void read_line(Descent& mine, int k, const Side& side, double ridge) {
#pragma unroll
    for (int held = 0; held < COLUMNS; ++held) {
        const int column = column_of(held);
        if (column < F) mine.line[held] = side.gram[(long long)k * F + column] + (column == k ? ridge : 0.0);
    }
}

// Let the owner of column `k`, whose row has been read, publish its step.
__device__ __forceinline__ void propose(const Descent& mine, int k, Step& to) {
#pragma unroll
    for (int held = 0; held < COLUMNS; ++held)
        if (column_of(held) == k) {
            to.change = fmax(-mine.x[held], mine.left[held] / mine.line[held]);
            to.x = mine.x[held] + to.change;
        }
}

__device__ __forceinline__ void descend(Descent& mine, const Side& side, const Constants& constants, double ridge) {
    Step* steps = (Step*)memory;  // steps of the present and of the next column, alternating
    int turn = 0;
    read_line(mine, 0, side, ridge);
    propose(mine, 0, steps[turn]);
    __syncthreads();
    for (long long sweep = 0; sweep < constants.n_sweeps; ++sweep) {
        double change = 0, largest = 0;
        for (int k = 0; k < F; ++k, turn ^= 1) {
            const Step step = steps[turn];
            const int next = k + 1 < F ? k + 1 : 0;
#pragma unroll
            for (int held = 0; held < COLUMNS; ++held) {
                mine.left[held] -= step.change * mine.line[held];
                if (column_of(held) == k) mine.x[held] = step.x;
            }
            read_line(mine, next, side, ridge);
            propose(mine, next, steps[turn ^ 1]);
            change = fmax(change, fabs(step.change)), largest = fmax(largest, step.x);
            __syncthreads();
        }
        if (change <= constants.tolerance * largest) break;
    }
}

// Grid: a block a row. Shared memory: two `Step`s.
extern "C" __global__ void __launch_bounds__(N_THREADS)
solve_nonnegative(Rows rows, Side side, Constants constants, double* carry, double* found) {
    const long long first = rows.bounds[blockIdx.x], last = rows.bounds[blockIdx.x + 1];
    double* to = found + (long long)blockIdx.x * (F + 1);
    Descent mine;
#pragma unroll
    for (int held = 0; held < COLUMNS; ++held) {
        const int column = column_of(held);
        mine.left[held] = mine.x[held] = mine.line[held] = 0;
        if (column >= F) continue;
        if (rows.is_begun) mine.left[held] = carry[column];
#pragma unroll 4
        for (long long rating = first; rating < last; ++rating)
            mine.left[held] = fma((double)rows.values[rating], (double)side.factors[other_of(rows, rating) * F + column], mine.left[held]);
        if (!rows.is_ended) carry[column] = mine.left[held];
    }
    if (!rows.is_ended) return;
    if (first < last) descend(mine, side, constants, fmax(fmax(rows.ridges[blockIdx.x], constants.smallest * side.trace / F), constants.tiny));
#pragma unroll
    for (int held = 0; held < COLUMNS; ++held)
        if (column_of(held) < F) to[column_of(held)] = mine.x[held];
    if (threadIdx.x == 0) to[F] = 0;
}

// --- the fixed side ---------------------------------------------------------------------------------------------------

// Write factors (n, F) and biases (n,) to `places` (n,) of a side. Grid: a thread a number; distinct places.
extern "C" __global__ void __launch_bounds__(STORE_THREADS)
store_rows(const int* places, const float* factors, const float* biases, int n, float* to_factors, float* to_biases) {
    const long long at = (long long)blockIdx.x * STORE_THREADS + threadIdx.x;
    if (at >= (long long)n * (F + 1)) return;
    const long long row = at / (F + 1), column = at % (F + 1), place = places[row];
    if (column < F)
        to_factors[place * F + column] = factors[row * F + column];
    else
        to_biases[place] = biases[row];
}

// Threads of `solve_…`, bytes of `Stage`, and of a matrix.
extern "C" __constant__ int geometry[3] = {THREADS, (int)sizeof(Stage), SIZE * 8};
