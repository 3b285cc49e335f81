// Adds up the sums A and b of rows that mode reduce of several ranks forms in parts (gpu/als/device_sums.py).
//
// A row's first part has the slot of the row, and further parts consecutive slots after those of all rows. A thread owns
// every n-th number of a row; parts are added in their order. Races: none.

constexpr int THREADS = 256;

// Grid: any x rows in parts.
extern "C" __global__ void __launch_bounds__(THREADS) add_parts(
    float* slots, const int* rows, const int* firsts, const int* counts, int width
) {
    float* own = slots + (long long)rows[blockIdx.y] * width;
    const float* others = slots + (long long)firsts[blockIdx.y] * width;
    const int count = counts[blockIdx.y];
    for (int n = blockIdx.x * THREADS + threadIdx.x; n < width; n += gridDim.x * THREADS) {
        float sum = own[n];
        for (int part = 0; part < count; ++part) sum += others[(long long)part * width + n];
        own[n] = sum;
    }
}
