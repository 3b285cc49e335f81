// Rows of several arrays side by side, so that one copy brings to the host what a batch has changed, and one brings to
// the device what the host has: see gpu/device/online/packing.py. A packed row is its number, then its entries of each array.
//
// Who owns what: a warp a row. No shared memory. Races: none, as rows that are written are distinct. Limits: entries of
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
