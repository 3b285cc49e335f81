// Errors of ALS models and their data loss, FP32 products, FP64 sums; both precisions of the solvers use it.
//
// Compiled for one problem: D floats used in a row of a table, STRIDE between two rows; BIASES: 1 where the last of
// them is a bias, 2 where biases are arrays of their own; IMPLICIT as 0 or 1; ERROR_THREADS of a block.
//
// Who owns what. A block owns an item, a warp 32 ratings of it at a time, a lane the errors of its own. Every sum has a
// fixed order: equal inputs give equal bits. Limits: D up to 1024. Races: none; every sum has one writer.

constexpr int WARP = 32;
constexpr int N_FACTORS = D - (BIASES == 1);

template <class Number> __device__ __forceinline__ Number warp_sum(Number x) {
    for (int reach = WARP / 2; reach; reach /= 2) x += __shfl_xor_sync(~0u, x, reach);
    return x;
}

// Σ (r − clip(r̂))² and the data loss of one item, to `sums`: Σ (r − r̂)²; implicit Σ c (p − r̂)² − r̂² over r ≠ 0. Only
// ratings count whose rows are in both tables: `table` has `n_rows` rows from `first_row` on, `fixed` those of columns.
extern "C" __global__ void __launch_bounds__(ERROR_THREADS) errors(
    const Item* items, const int* columns, const float* values, const float* table, const float* fixed,
    const float* table_biases, const float* fixed_biases, int first_row, int n_rows, int first_column, int n_columns,
    Solver solver, float low, float high, double2* sums
) {
    constexpr int HELD = (D + WARP - 1) / WARP;
    const Item item = items[blockIdx.x];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row = item.row - first_row;
    if ((unsigned)row >= (unsigned)n_rows) {
        if (threadIdx.x == 0) sums[blockIdx.x] = make_double2(0, 0);
        return;
    }
    float x[HELD];
#pragma unroll
    for (int n = 0; n < HELD; ++n) x[n] = lane + WARP * n < D ? table[(long long)row * STRIDE + lane + WARP * n] : 0.0f;

    double squares = 0, loss = 0;
    for (int done = warp * WARP; done < item.length; done += ERROR_THREADS) {
        const int count = min(WARP, item.length - done);
        const long long place = item.begin + done + lane;
        const int found = lane < count ? __ldg(columns + place) - first_column : 0;
        const bool is_there = lane < count && (unsigned)found < (unsigned)n_columns;
        const int column = is_there ? found : 0;
        const float rating = lane < count ? __ldg(values + place) : 0.0f;
        float mine = 0;
#pragma unroll 4
        for (int k = 0; k < count; ++k) {
            const float* const y = fixed + (long long)__shfl_sync(~0u, column, k) * STRIDE;
            float estimate = 0;
#pragma unroll
            for (int n = 0; n < HELD; ++n) {
                const int c = lane + WARP * n;
                if (c < N_FACTORS) estimate += x[n] * y[c];
                else if (c < D) estimate += x[n] + y[c];
            }
            estimate = warp_sum(estimate);
            if (lane == k) mine = solver.mean + estimate;
        }
        if (!is_there) continue;
        if (BIASES == 2) mine += table_biases[row] + fixed_biases[column];
        const double off = rating - fminf(fmaxf(mine, low), high);
        squares += off * off;
        if (!IMPLICIT) loss += (double)(rating - mine) * (rating - mine);
        else if (rating != 0) {
            const double away = (rating > 0 ? 1.0 : 0.0) - mine;
            loss += (double)(1 + solver.alpha * fabsf(rating)) * (away * away) - (double)mine * mine;
        }
    }
    __shared__ double2 parts[ERROR_THREADS / WARP];
    squares = warp_sum(squares), loss = warp_sum(loss);
    if (lane == 0) parts[warp] = make_double2(squares, loss);
    __syncthreads();
    if (threadIdx.x > 0) return;
    double2 total = parts[0];
    for (int n = 1; n < ERROR_THREADS / WARP; ++n) total.x += parts[n].x, total.y += parts[n].y;
    sums[blockIdx.x] = total;
}
