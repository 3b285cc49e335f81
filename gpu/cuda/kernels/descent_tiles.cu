// Sorts ratings into tiles of users for the learning kernels (sgd.cu): a counting sort by item within each tile.
//
// A tile is a set of users whose factors fit the shared memory of a block. Its ratings become records (user's place in
// the tile, target), those of one item side by side; records of an item are cut into segments of at most `longest`,
// about equally long, and the segments are listed longest first, so that neighbors in the list take equally long.
//
// Who owns what. A block of 1,024 threads sorts one tile after the other: a warp reads the row of a user, a thread
// counts or places one rating; all threads scan the counts of items. Shared memory: the counts (N + 1 ints, where
// SHARED_COUNTS; else in `counts`, a stretch of N + 1 for each block), counts of segment lengths, sums of warps.
//
// Limits: ratings and segments below 2³¹; `longest` up to 255. Races: none; records of an item and segments of equal
// length are in the order of atomic counters, which differs from run to run.

constexpr int WARP = 32, THREADS = 1024, WARPS = THREADS / WARP, MOST = 256;

struct Segment { int item, begin, length, unused; };  // `begin` counts from the first record of the tile

// Exclusive sum over the threads of a block; `total` is the sum of all.
__device__ int scanned(int x, int* sums, int* total) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int sum = x;
#pragma unroll
    for (int step = 1; step < WARP; step *= 2) {
        const int other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == WARP - 1) sums[warp] = sum;
    __syncthreads();
    int before = sums[lane];
#pragma unroll
    for (int step = 1; step < WARP; step *= 2) {
        const int other = __shfl_up_sync(~0u, before, step);
        if (lane >= step) before += other;
    }
    *total = __shfl_sync(~0u, before, WARP - 1);
    const int earlier = __shfl_sync(~0u, before, warp ? warp - 1 : 0);
    __syncthreads();
    return sum - x + (warp ? earlier : 0);
}

// Counts of items become places of their first records; `lengths` counts the segments of each length.
__device__ void place_items(int* items, int n_items, int longest, int* lengths, int* sums) {
    int carry = 0;
    for (int first = 0; first < n_items; first += THREADS) {
        const int item = first + threadIdx.x;
        const int count = item < n_items ? items[item] : 0;
        if (count) {
            const int n = (count + longest - 1) / longest, part = count / n, longer = count - n * part;
            if (longer) atomicAdd(&lengths[part + 1], longer);
            atomicAdd(&lengths[part], n - longer);
        }
        int total;
        const int place = carry + scanned(count, sums, &total);
        if (item < n_items) items[item] = place;
        carry += total;
    }
    if (threadIdx.x == 0) items[n_items] = carry;
    __syncthreads();
}

// Where segments of each length start, longest first, and how they are scattered; `taken` counts the segments that have
// a position.
__device__ void place_lengths(
    const int* lengths, int longest, int* firsts, int* taken, unsigned* strides, int* n_segments
) {
    if (threadIdx.x > 0 && threadIdx.x <= longest) strides[threadIdx.x] = stride_of(lengths[threadIdx.x]);
    if (threadIdx.x == 0) {
        int place = 0;
        for (int length = longest; length > 0; --length) {
            firsts[length] = place, taken[length] = 0;
            place += lengths[length];
        }
        *n_segments = place;
    }
    __syncthreads();
}

__device__ void cut(
    const int* items, int n_items, int longest, const int* lengths, const int* firsts, int* taken,
    const unsigned* strides, Segment* segments
) {
    for (int item = threadIdx.x; item < n_items; item += THREADS) {
        int begin = items[item];
        const int count = items[item + 1] - begin;
        if (!count) continue;
        const int n = (count + longest - 1) / longest, part = count / n, longer = count - n * part;
        for (int s = 0; s < n; ++s) {
            const int length = part + (s < longer);
            const unsigned turn = atomicAdd(&taken[length], 1);
            segments[firsts[length] + scattered(turn, strides[length], lengths[length])] = {item, begin, length, 0};
            begin += length;
        }
    }
    __syncthreads();
}

// Sort the samples of each tile; an entry of −1 is no sample. `per` > 0: each rating has `per` samples and a value. The
// first of them has the target 1, or 0 where the value is below `middle`; all others have 0.
extern "C" __global__ void __launch_bounds__(THREADS) build_tiles(
    const long long* __restrict__ starts, const long long* __restrict__ row_lengths, const int* __restrict__ entries,
    const float* __restrict__ values, int per, float middle, const int* __restrict__ users, const long long* __restrict__ tile_begin,
    const long long* __restrict__ segment_begin, int n_tiles, int tile_users, int n_items, int longest,
    int* counts, uint2* records, int* targets, Segment* segments, int* n_segments
) {
    extern __shared__ int shared[];
    __shared__ int lengths[MOST], firsts[MOST], taken[MOST], sums[WARPS];
    __shared__ unsigned strides[MOST];
#if SHARED_COUNTS
    int* items = shared;
#else
    int* items = counts + (long long)blockIdx.x * (n_items + 1);
#endif
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        const int* owners = users + (long long)tile * tile_users;
        for (int item = threadIdx.x; item < n_items; item += THREADS) items[item] = 0;
        if (threadIdx.x < MOST) lengths[threadIdx.x] = 0;
        __syncthreads();
        for (int local = warp; local < tile_users; local += WARPS) {
            const int user = owners[local];
            if (user < 0) continue;
            const int* row = entries + starts[user];
            const long long length = row_lengths[user];
            for (long long x = lane; x < length; x += WARP)
                if (row[x] >= 0) atomicAdd(&items[row[x]], 1);
        }
        __syncthreads();
        place_items(items, n_items, longest, lengths, sums);
        place_lengths(lengths, longest, firsts, taken, strides, &n_segments[tile]);
        cut(items, n_items, longest, lengths, firsts, taken, strides, segments + segment_begin[tile]);
        uint2* of_tile = records + tile_begin[tile];
        for (int local = warp; local < tile_users; local += WARPS) {
            const int user = owners[local];
            if (user < 0) continue;
            const long long first = starts[user], length = row_lengths[user];
            for (long long x = lane; x < length; x += WARP) {
                const int item = entries[first + x];
                if (targets && item < 0) targets[first + x] = -1;
                if (item < 0) continue;
                const float target = !per ? values[first + x] : x % per == 0 && values[(first + x) / per] >= middle ? 1.0f : 0.0f;
                const int place = atomicAdd(&items[item], 1);
                of_tile[place] = make_uint2(local, __float_as_uint(target));
                if (targets) targets[first + x] = (int)(tile_begin[tile] + place);
            }
        }
        __syncthreads();
    }
}
