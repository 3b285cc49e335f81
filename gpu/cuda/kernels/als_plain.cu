// ALS without tensor cores, FP32 throughout, in the two phases of [000]: `form` writes A and b of a batch of rows to
// memory, `solve_cg` or `solve_cholesky` solves them.
//
//   (A + ρ I) x = b,  A = Σ w z zᵀ (+ G),  b = Σ y z   over the ratings of one row; ρ = λ (n + offset)^ν + λ0
//
// Compiled for one problem: D unknowns of a row, BIASES and IMPLICIT as 0 or 1; a thread owns TILE x TILE elements of
// A, N_TILES such tiles lie across A and b; FORM_THREADS and SOLVE_THREADS of a block; IN_SHARED: whether A fits into
// shared memory when it is solved. STRIDE floats lie between two rows of a table. STEP is 1 where the D unknowns are a
// block of a row's factors: then y is the residual of each rating, and the solution the step to add to x
// (gpu/als/device_subspace.py).
//
// A and b are the lower triangle of one symmetric matrix: a rating is √w [z; y/w], so b is row D of Σ of its outer
// products. In memory ("slot") row i of it begins at `slot_row(i)` and is as long as its tiles reach: whole 16-byte
// pieces. A row with many ratings has several slots, summed in their order when the row is solved.
//
// Who owns what. `form`: a block owns an item, a thread one tile of its triangle. Solvers: a block owns a row, thread i
// its unknown i (row i of A). Every sum has a fixed order: equal inputs give equal bits.
//
// Limits: D from 4 to 257; solvers need more threads than D, `form` one per tile. Races: none; every slot, row and sum has
// one writer, and the barriers that separate readers from writers of shared memory are named at their calls.

constexpr int WARP = 32;
constexpr int BIN = 32;                      // ratings staged at once: one a lane
constexpr int WIDTH = N_TILES * TILE;        // floats of a staged rating
constexpr int N_OWNED = N_TILES * (N_TILES + 1) / 2;
constexpr int SLOT = N_OWNED * TILE * TILE;  // floats
constexpr int SOLVE_WARPS = SOLVE_THREADS / WARP;
constexpr int N_FACTORS = D - BIASES;
static_assert(!STEP || !BIASES, "a bias is a block of its own");
constexpr float LARGEST = 3.402823466e38f;
static_assert(WIDTH > D && FORM_THREADS >= N_OWNED && FORM_THREADS % WARP == 0, "a thread has one tile at most");
static_assert(SOLVE_THREADS > D && SOLVE_THREADS % WARP == 0, "a thread has one unknown at most");
static_assert(TILE == 4 || TILE == 8, "tiles are read as one or two float4");

__device__ __forceinline__ int triangle(int i) { return i * (i + 1) / 2; }
__device__ __forceinline__ int slot_row(int i) {
    const int tile = i / TILE;
    return triangle(tile) * TILE * TILE + i % TILE * (tile + 1) * TILE;
}
template <class Number> __device__ __forceinline__ Number warp_sum(Number x) {
    for (int reach = WARP / 2; reach; reach /= 2) x += __shfl_xor_sync(~0u, x, reach);
    return x;
}

// --- A and b ---------------------------------------------------------------------------------------------------------

// Where column c of a staged rating lies: pieces of four, first those that begin a tile, then the rest, so that lanes
// with neighboring tiles read neighboring 16 bytes.
__device__ __forceinline__ int staged(int c) {
    const int piece = c % TILE / 4;
    return (piece * N_TILES + c / TILE) * 4 + c % 4;
}

// One rating as √w [z; y/w]; `value` is r, `lack` its residual, which replaces y if a block is solved.
__device__ __forceinline__ void stage(float* to, const float* z, float value, float lack, const Solver& solver) {
    const int lane = threadIdx.x % WARP;
    float y = STEP ? lack : value - solver.mean, root = 1;
    if (BIASES) y -= z[D - 1];
    if (IMPLICIT) {
        root = sqrtf(solver.alpha * fabsf(value));
        if (STEP) y = root > 0 ? lack / root : 0.0f;
        else y = value > 0 ? (1 + solver.alpha * value) / root : 0.0f;  // below 0 it is a dislike
    }
#pragma unroll
    for (int first = 0; first < WIDTH; first += WARP) {
        const int c = first + lane;
        float element = 0;
        if (c < N_FACTORS) element = root * z[c];
        else if (c < D) element = 1;
        else if (c == D) element = y;
        if (c < WIDTH) to[staged(c)] = element;
    }
}

__device__ __forceinline__ void load_tile(float (&to)[TILE], const float* rating, int tile) {
#pragma unroll
    for (int piece = 0; piece < TILE / 4; ++piece) {
        const float4 four = *(const float4*)(rating + (piece * N_TILES + tile) * 4);
        to[4 * piece] = four.x, to[4 * piece + 1] = four.y, to[4 * piece + 2] = four.z, to[4 * piece + 3] = four.w;
    }
}

// Write A and b of one item to its slot (counted from `first_slot`). Grid: a block an item.
extern "C" __global__ void __launch_bounds__(FORM_THREADS) form(
    const Item* items, const int* columns, const float* values, const float* lacks, const float* fixed, Solver solver,
    int first_slot, float* slots
) {
    __shared__ __align__(16) float bin[BIN][WIDTH];
    const Item item = items[blockIdx.x];
    const int thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP;
    int tile_row = 0;
    while (triangle(tile_row + 1) <= thread && tile_row + 1 < N_TILES) ++tile_row;
    const int tile_column = thread - triangle(tile_row);
    const bool is_owner = thread < N_OWNED;

    float sums[TILE][TILE] = {};
    const int* const from = columns + item.begin + lane;
    const float* const rated = values + item.begin + lane;
    const float* const lacking = lacks + item.begin + lane;
    int next_column = lane < item.length ? __ldg(from) : 0;
    float next_value = lane < item.length ? __ldg(rated) : 0.0f;
    float next_lack = STEP && lane < item.length ? __ldg(lacking) : 0.0f;
    for (int done = 0; done < item.length; done += BIN) {
        const int count = min(BIN, item.length - done), column = next_column;
        const float value = next_value, lack = next_lack;
        __syncthreads();  // all threads have read the last bin
#pragma unroll 4
        for (int k = warp; k < count; k += FORM_THREADS / WARP) {
            const long long row = __shfl_sync(~0u, column, k);
            stage(bin[k], fixed + row * STRIDE, __shfl_sync(~0u, value, k), STEP ? __shfl_sync(~0u, lack, k) : 0.0f, solver);
        }
        if (done + BIN + lane < item.length) {  // loads while this bin is multiplied
            next_column = __ldg(from + done + BIN);
            next_value = __ldg(rated + done + BIN);
            if (STEP) next_lack = __ldg(lacking + done + BIN);
        }
        __syncthreads();  // the bin is complete
        if (!is_owner) continue;
#pragma unroll 2
        for (int k = 0; k < count; ++k) {
            float left[TILE], right[TILE];
            load_tile(left, bin[k], tile_row);
            load_tile(right, bin[k], tile_column);
#pragma unroll
            for (int i = 0; i < TILE; ++i)
#pragma unroll
                for (int j = 0; j < TILE; ++j) sums[i][j] += left[i] * right[j];
        }
    }
    if (!is_owner) return;
    float* to = slots + (long long)(item.slot - first_slot) * SLOT + tile_column * TILE;
#pragma unroll
    for (int i = 0; i < TILE; ++i)
#pragma unroll
        for (int j = 0; j < TILE; j += 4)
            *(float4*)(to + slot_row(tile_row * TILE + i) + j) =
                make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
}

// --- solvers ---------------------------------------------------------------------------------------------------------

// A with b as its row D: in shared memory a packed lower triangle, in which the lanes of a warp meet no bank twice
// neither along a column nor, at one column, down their 32 rows; else the row's first slot itself.
struct Matrix {
    float* elements;
    static __device__ __forceinline__ int row(int i) { return IN_SHARED ? triangle(i) : slot_row(i); }
    __device__ __forceinline__ float& at(int i, int j) const { return elements[row(i) + j]; }
};

__device__ __forceinline__ float ridge_of(const SplitRow& split, const Solver& solver) {
    return solver.regularization * powf(split.total + solver.offset, solver.exponent) + solver.prior;
}

// Sum the slots of a row, in their order, add G and ρ. A warp takes every SOLVE_WARPS-th row of A, a lane its columns.
__device__ __forceinline__ Matrix gathered(
    const SplitRow& split, float* own, float* memory, const float* gram, const Solver& solver
) {
    const Matrix matrix = {IN_SHARED ? memory : own};
    const float ridge = ridge_of(split, solver);
    for (int i = threadIdx.x / WARP; i <= D; i += SOLVE_WARPS) {
        for (int j = threadIdx.x % WARP; j <= min(i, D - 1); j += WARP) {
            const float* from = own + slot_row(i) + j;
            float sum = from[0];
#pragma unroll 4
            for (int slot = 1; slot < split.n_slots; ++slot) sum += from[(long long)slot * SLOT];
            if (IMPLICIT && i < D) sum += gram[i * D + j];
            if (i == j) sum += ridge;
            matrix.at(i, j) = sum;
        }
    }
    __syncthreads();  // A and b are complete
    return matrix;
}

// Sum over the block, alike in all threads. `sums` must not be the one of the sum before.
__device__ __forceinline__ float block_sum(float x, float* sums) {
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = x;
    __syncthreads();
    float total = 0;
#pragma unroll
    for (int warp = 0; warp < SOLVE_WARPS; ++warp) total += sums[warp];
    return total;
}

// (A v)_i. Below the warp's own 32 rows the rows of A are read, above them its columns, between them each as it lies.
__device__ __forceinline__ float product(const Matrix& matrix, const float* v, int i) {
    const int first = i / WARP * WARP, last = min(first + WARP, D);
    const float* row = matrix.elements + Matrix::row(i);
    float sum = 0;
#pragma unroll 4
    for (int j = 0; j < first; ++j) sum += row[j] * v[j];
#pragma unroll 4
    for (int j = first; j < last; ++j) sum += (j <= i ? row[j] : matrix.at(j, i)) * v[j];
#pragma unroll 4
    for (int j = last; j < D; ++j) sum += matrix.at(j, i) * v[j];
    return sum;
}

// Approximate conjugate gradients ([000] Alg. 1) from the present x. STEP: the unknown is a step from x; it starts at
// zero and is added at the end, and `product` (rows, D) is VᵀV x of the block. Grid: a block a row.
extern "C" __global__ void __launch_bounds__(SOLVE_THREADS) solve_cg(
    const SplitRow* rows, int first_slot, float* slots, const float* gram, Solver solver, float* solved,
    const float* product_of_x, float* steps
) {
    extern __shared__ __align__(16) float memory[];
    __shared__ float direction[SOLVE_THREADS], sums[2][SOLVE_WARPS];
    const SplitRow split = rows[blockIdx.x];
    float* own = slots + (long long)(split.first_slot - first_slot) * SLOT;
    const Matrix matrix = gathered(split, own, memory, gram, solver);

    const int thread = threadIdx.x, i = min(thread, D - 1);
    const bool is_owner = thread < D;
    float* const at = solved + (long long)split.row * STRIDE + i;
    float x = *at;
    const float b = is_owner ? matrix.at(D, i) : 0.0f;
    const float goal = solver.tolerance * solver.tolerance * block_sum(b * b, sums[0]);
    float r = 0;
    if (STEP) {
        const float known = IMPLICIT ? product_of_x[(long long)split.row * D + i] : 0.0f;
        r = is_owner ? b - known - ridge_of(split, solver) * x : 0.0f;
    } else {
        direction[thread] = is_owner ? x : 0.0f;
        __syncthreads();  // the direction is complete
        r = is_owner ? b - product(matrix, direction, i) : 0.0f;
    }
    const float before = STEP ? x : 0.0f;
    if (STEP) x = 0;
    float squares = block_sum(r * r, sums[1]);  // and all threads have read the direction
    if (!(squares <= LARGEST)) x = squares - squares;  // an overflow becomes NaN, not a solution
    float p = r;
    for (int step = 0; step < solver.n_steps && squares > goal; ++step) {
        direction[thread] = p;
        __syncthreads();  // the direction is complete
        const float q = is_owner ? product(matrix, direction, i) : 0.0f;
        const float curvature = block_sum(p * q, sums[0]);  // and all threads have read the direction
        if (curvature <= 0) break;
        const float length = squares / (curvature <= LARGEST ? curvature : curvature - curvature);
        x += length * p;
        r -= length * q;
        const float next = block_sum(r * r, sums[1]);
        p = r + next / squares * p;
        squares = next;
    }
    if (is_owner) *at = before + x;
    if (STEP && is_owner) steps[(long long)split.row * D + i] = x;
}

// A = L Lᵀ in place, column by column, with L y = b as row D of it; then Lᵀ x = y. Grid: a block a row.
extern "C" __global__ void __launch_bounds__(SOLVE_THREADS) solve_cholesky(
    const SplitRow* rows, int first_slot, float* slots, const float* gram, Solver solver, float* solved
) {
    extern __shared__ __align__(16) float memory[];
    __shared__ float pivot;
    const SplitRow split = rows[blockIdx.x];
    float* own = slots + (long long)(split.first_slot - first_slot) * SLOT;
    const Matrix matrix = gathered(split, own, memory, gram, solver);

    const int i = threadIdx.x;
    float* const row = matrix.elements + Matrix::row(min(i, D));
    for (int k = 0; k < D; ++k) {
        const float* const top = matrix.elements + Matrix::row(k);
        float rest = 0;
        if (i >= k && i <= D) {
            rest = row[k];
#pragma unroll 4
            for (int j = 0; j < k; ++j) rest -= row[j] * top[j];
        }
        if (i == k) pivot = sqrtf(rest <= LARGEST ? rest : rest - rest);  // overflow becomes NaN, like a negative pivot
        __syncthreads();  // the pivot is written
        if (i == k) row[k] = pivot;
        if (i > k && i <= D) row[k] = rest / pivot;
        __syncthreads();  // column k is complete, and all threads have read the pivot
    }
    float x = i < D ? matrix.at(D, i) : 0.0f;
    for (int k = D - 1; k >= 0; --k) {
        if (i == k) pivot = x /= row[k];
        __syncthreads();  // x_k is written
        if (i < k) x -= matrix.at(k, i) * pivot;
        __syncthreads();  // all threads have read x_k
    }
    if (i < D) solved[(long long)split.row * STRIDE + i] = x;
}
