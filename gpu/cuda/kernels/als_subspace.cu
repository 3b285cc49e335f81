// ALS in blocks of factors (gpu/als/device_subspace.py), except for the solvers: the residual of each rating,
// t = y − w (z·x), updated after each block, and the biases of rows.
//
// Compiled for one problem: BLOCK factors of a block, IMPLICIT and BIASES as 0 or 1; HALF: whether the fixed side is FP16,
// BLOCK numbers a row, or FP32 with STRIDE floats between two rows.
//
// Who owns what. `explain`: a block owns an item (a row, or a part of one), a group of LANES lanes one rating at a time;
// each lane holds its piece of the row's step. `solve_biases`: a block owns a row. Every sum has a fixed order: equal inputs
// give equal bits. Limits: BLOCK a multiple of 8. Races: none; every rating and bias has one writer.

constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int PIECE = HALF ? 8 : 4;           // numbers of 16 bytes
constexpr int LANES = BLOCK / PIECE;          // lanes that share a rating
constexpr int GROUPS = THREADS / LANES;       // ratings at once
constexpr int AHEAD = 4;                      // ratings of a group that are loaded at once
static_assert(LANES <= 32 && (LANES & (LANES - 1)) == 0, "lanes of a group add up by exchange");

__device__ __forceinline__ float low_of(unsigned pair) {
    float x;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;\n}" : "=f"(x) : "r"(pair));
    return x;
}
__device__ __forceinline__ float high_of(unsigned pair) {
    float x;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, high;\n}" : "=f"(x) : "r"(pair));
    return x;
}

// This lane's part of z·step.
__device__ __forceinline__ float part_of(uint4 z, const float (&step)[PIECE]) {
    const unsigned words[4] = {z.x, z.y, z.z, z.w};
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (HALF) sum += low_of(words[k]) * step[2 * k % PIECE] + high_of(words[k]) * step[(2 * k + 1) % PIECE];
        else sum += __int_as_float(words[k]) * step[k];
    }
    return sum;
}

// y of a rating.
__device__ __forceinline__ float target_of(float value, int column, const float* offsets, const Solver& solver) {
    if (IMPLICIT) return value > 0 ? 1 + solver.alpha * value : 0.0f;  // below 0 it is a dislike
    return value - solver.mean - (BIASES ? __ldg(offsets + column) : 0.0f);
}

// Subtract from all residuals what `steps` explain; `step_stride` floats between two rows. `is_first`: start from y.
// Grid: a block an item.
extern "C" __global__ void __launch_bounds__(THREADS) explain(
    const Item* items, const int* columns, const float* values, const void* fixed, const float* offsets, const float* steps,
    int step_stride, int is_first, Solver solver, float* lacks
) {
    const Item item = items[blockIdx.x];
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    float step[PIECE];
    const float* const own = steps + (long long)item.row * step_stride + lane * PIECE;
#pragma unroll
    for (int k = 0; k < PIECE; k += 4) {
        const float4 four = *(const float4*)(own + k);
        step[k] = four.x, step[k + 1] = four.y, step[k + 2] = four.z, step[k + 3] = four.w;
    }
    const long long row_bytes = HALF ? 2 * BLOCK : 4ll * STRIDE;
    for (int first = 0; first < item.length; first += GROUPS * AHEAD) {
        int column[AHEAD];
        uint4 z[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; ++n) {
            const int rating = first + n * GROUPS + group;
            column[n] = rating < item.length ? __ldg(columns + item.begin + rating) : 0;
        }
#pragma unroll
        for (int n = 0; n < AHEAD; ++n) z[n] = __ldg((const uint4*)((const char*)fixed + column[n] * row_bytes) + lane);
#pragma unroll
        for (int n = 0; n < AHEAD; ++n) {
            float sum = part_of(z[n], step);
            for (int reach = LANES / 2; reach; reach /= 2) sum += __shfl_xor_sync(~0u, sum, reach);
            const int rating = first + n * GROUPS + group;
            if (lane > 0 || rating >= item.length) continue;
            const float value = is_first || IMPLICIT ? __ldg(values + item.begin + rating) : 0.0f;
            float* const lack = lacks + item.begin + rating;
            const float before = is_first ? target_of(value, column[n], offsets, solver) : *lack;
            *lack = before - (IMPLICIT ? solver.alpha * fabsf(value) : 1.0f) * sum;
        }
    }
}

// Sum over the block, alike in all threads.
__device__ __forceinline__ double block_sum(double x) {
    __shared__ double sums[WARPS];
    for (int reach = 16; reach; reach /= 2) x += __shfl_xor_sync(~0u, x, reach);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();  // the warps' sums are complete
    double total = 0;
    for (int warp = 0; warp < WARPS; ++warp) total += sums[warp];
    return total;
}

// Solve the biases of all rows for fixed factors; residuals include neither the old nor the new bias. Grid: a block
// a row.
extern "C" __global__ void __launch_bounds__(THREADS) solve_biases(
    const long long* starts, const long long* lengths, const double* ridges, float* lacks, float* biases
) {
    const long long length = lengths[blockIdx.x];
    if (!length) return;
    float* const own = lacks + starts[blockIdx.x];
    const double ridge = ridges[blockIdx.x];
    const float before = biases[blockIdx.x];
    double sum = 0;
    for (long long k = threadIdx.x; k < length; k += THREADS) sum += own[k] - before;
    const float step = (float)((block_sum(sum) - ridge * before) / (length + ridge));
    for (long long k = threadIdx.x; k < length; k += THREADS) own[k] = own[k] - before - step;
    if (threadIdx.x == 0) biases[blockIdx.x] = before + step;
}
