// The weight of a rating in the sums of simLSH: Ψ in fixed point, as in gpu/hashing/simlsh.py, and its means.
//
// Compiled for STEPS, LIMIT and KIND of Ψ. Who owns what: `weigh`, a block an item (a column, or a part of one; see
// `list_items`), a thread one rating after another; `row_sums`, a warp a row, its lanes in a fixed order, so equal inputs
// give equal bits. No shared memory. Races: none; only the order of the items differs from run to run.

constexpr int WARP = 32;
enum Kind { SIGN, POWER, RESIDUAL, LINEAR, FOURTH };  // SIGN: 1 for a like, −1 for a dislike, a rating below `middle`

// Cut columns into items of at most `longest` ratings. Grid: a thread a column. `count` is 0 before.
extern "C" __global__ void list_items(
    const long long* __restrict__ starts, const long long* __restrict__ lengths, int n_columns, int longest,
    Item* __restrict__ items, int* __restrict__ count
) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n_columns) return;
    const long long start = starts[column], length = lengths[column];
    const int n = (int)((length + longest - 1) / longest);
    const int first = n ? atomicAdd(count, n) : 0;
    for (int part = 0; part < n; ++part) {
        const long long done = (long long)part * longest;
        const int left = (int)min((long long)longest, length - done);
        items[first + part] = {start + done, column, left, n == 1 ? -1 : part, 0.0f, 0, 0};
    }
}

// Ψ of every rating, in the order of the columns; float64 as on the host. Grid: a block an item, those past `count` idle.
extern "C" __global__ void weigh(
    const Item* __restrict__ items, const int* __restrict__ count, const int* __restrict__ users,
    const float* __restrict__ values, const float* __restrict__ user_baseline, const float* __restrict__ item_baseline,
    double mean, double unit, float middle, signed char* __restrict__ weights
) {
    if (blockIdx.x >= *count) return;
    const Item item = items[blockIdx.x];
    const double of_item = KIND == RESIDUAL ? item_baseline[item.row] : 0.0f;
    for (int n = threadIdx.x; n < item.length; n += blockDim.x) {
        const long long at = item.begin + n;
        double weight = values[at] - mean;
        if (KIND == RESIDUAL) weight = weight - (double)__ldg(user_baseline + users[at]) - of_item;
        if (KIND == POWER || KIND == FOURTH) weight = weight * weight;
        if (KIND == FOURTH) weight = weight * weight;
        const double fixed = rint(weight / unit * STEPS);
        weights[at] = KIND == SIGN ? (values[at] < middle ? -1 : 1) : (signed char)fmin(fmax(fixed, -(double)LIMIT), (double)LIMIT);
    }
}

// Σ of the values of each row, float64. Grid: a warp a row.
extern "C" __global__ void row_sums(
    const long long* __restrict__ starts, const long long* __restrict__ lengths, int n_rows, const float* __restrict__ values,
    double* __restrict__ sums
) {
    const int row = (int)(((long long)blockIdx.x * blockDim.x + threadIdx.x) / WARP), lane = threadIdx.x % WARP;
    if (row >= n_rows) return;
    const float* const from = values + starts[row];
    const long long length = lengths[row];
    double sum = 0;
#pragma unroll 8
    for (long long n = lane; n < length; n += WARP) sum += __ldg(from + n);
    for (int by = WARP / 2; by; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
    if (lane == 0) sums[row] = sum;
}
