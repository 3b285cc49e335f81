// Packs rows of several arrays, so that one copy brings all changes of a batch to the host, and one copy brings rows of
// the host to the device: see gpu/online/device/packing.py. A packed row is its number, then its entries of each array.
//
// Who owns what: a warp a row. No shared memory. Races: none; written rows are distinct. Limits: entries of
// four bytes, MOST arrays.

constexpr int MOST = 5;

struct Columns {
    unsigned* arrays[MOST];
    int widths[MOST];  // entries of a row; 0: no array
    int unused;
};

// Grid: a warp a row. `rows`: `long long` where `is_long`, else `int`.
extern "C" __global__ void pack_rows(Columns columns, const void* rows, int is_long, int n, int width, unsigned* out) {
    const int at = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (at >= n) return;
    const long long row = is_long ? ((const long long*)rows)[at] : ((const int*)rows)[at];
    unsigned* to = out + (long long)at * width;
    if (lane == 0) *to = (unsigned)row;
    ++to;
    for (int k = 0; k < MOST; ++k) {
        const int length = columns.widths[k];
        for (int n = lane; n < length; n += 32) to[n] = columns.arrays[k][row * length + n];
        to += length;
    }
}

// Grid: a warp a row. `given`: packed rows.
extern "C" __global__ void unpack_rows(Columns columns, const unsigned* given, int n, int width) {
    const int at = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (at >= n) return;
    const unsigned* from = given + (long long)at * width;
    const long long row = *from;
    ++from;
    for (int k = 0; k < MOST; ++k) {
        const int length = columns.widths[k];
        for (int n = lane; n < length; n += 32) columns.arrays[k][row * length + n] = from[n];
        from += length;
    }
}
