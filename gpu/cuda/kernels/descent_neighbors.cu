// Inputs of the learning kernels besides the ratings: for each pair (i, j), user i's ratings of the K neighbors of item
// j.
//
//   residuals    r_i,J(j,k) − b̄_i,J(j,k) as FP16, NaN where i has not rated J(j,k)   (constants of [004] eq. 1)
//   masks        one bit for each k: i has rated J(j,k), and, where DISLIKES, another: the rating is below `middle`
//                                                       (implicit feedback: residuals are 1, and −1 of a dislike)
//   draw         items that i has not rated, from a counter-based generator           ([004] §5.4)
//
// Compiled for CHUNKS: K in chunks of 8 neighbors; WIDE 0 or 1: neighbors in 16 or 32 bits; SEARCH 0 or 1: the bitmap
// is smaller than N and only a hint; DISLIKES 0 or 1: whether ratings may be dislikes; LINE_THREADS: threads of a block
// with a line.
//
// Who owns what. A block owns a row of ratings (a user) and its pairs at a time, and takes the next row when it has
// finished. It keeps the row in shared memory as N + 1 numbers (`residuals`) or bits (others): every neighbor is one
// look-up. A thread takes 8 neighbors of a pair: 16 bytes of `residuals`, 8 bits of a mask, whose word 2 or 4 lanes
// combine: first all bytes of the rated neighbors, then those of the disliked ones. `draw`: a thread takes a rating and
// all its draws. Shared memory is cleared at the row's own entries only, so that the cost of short rows does not depend
// on N.
//
// Shared memory: `residuals` 2 (N + 1) bytes; others n_bits / 8, a power of two, `masks` once more for dislikes. Where N is larger than n_bits, a bit
// represents all items with equal remainder, and a set bit leads to a binary search in the row.
//
// Limits: 2³² look-ups of 8 neighbors a row. Races: none; a place of the output has one writer, and barriers separate
// filling, reading and clearing of shared memory. Entries of a row are distinct, but share words of a bitmap: atomicOr.

constexpr unsigned short NOT_RATED = 0x7FFF;  // a NaN
constexpr float LARGEST_HALF = 65504.0f;
constexpr int EIGHT = 8;                      // neighbors of a chunk
constexpr int BITS_THREADS = 256;
constexpr int AT_ONCE = WIDE ? 1 : 2;         // chunks that a thread of `residuals` loads before it looks them up
constexpr int PLANES = 1 + DISLIKES, BYTES = PLANES * CHUNKS;  // planes and bytes of masks
constexpr int LANES = BYTES == 1 ? 1 : BYTES == 2 ? 2 : 4;     // bytes of a word
constexpr int WORDS = (BYTES + 3) / 4;

#if WIDE
using Index = int;
#else
using Index = unsigned short;
#endif
struct alignas(16) Chunk { Index x[EIGHT]; };

struct Sparse {           // rows of ratings or of pairs
    const long long *starts, *lengths;
    const int* entries;
    const float* values;  // null where only entries count
};
struct Base {             // b̄_ij = (mean + user[i]) + item[j]
    const float *user, *item;
    float mean;
    int unused;
};
static_assert(sizeof(Sparse) == 32 && sizeof(Base) == 24, "as NumPy writes them");

// --- neighbors ------------------------------------------------------------------------------------------------------

// Neighbors (N, K) in whole chunks; absent neighbors and the padding of the last chunk become N. Grid: a thread a
// number.
extern "C" __global__ void __launch_bounds__(BITS_THREADS) pack(
    const int* __restrict__ neighbors, long long n_items, int n_neighbors, Index* __restrict__ out
) {
    const long long at = (long long)blockIdx.x * BITS_THREADS + threadIdx.x;
    const long long item = at / (CHUNKS * EIGHT);
    const int k = at % (CHUNKS * EIGHT);
    if (item >= n_items) return;
    const int found = k < n_neighbors ? neighbors[item * n_neighbors + k] : -1;
    out[at] = (Index)(found < 0 ? (int)n_items : found);
}

// --- rows ------------------------------------------------------------------------------------------------------------

// Visit rows until all are taken; `taken` must be 0 before the launch. A barrier ends every visit.
template <class Visit> __device__ __forceinline__ void for_each_row(long long n_rows, unsigned* taken, Visit visit) {
    __shared__ unsigned next[2];  // alternate: one is written while threads may still read the other
    long long row = blockIdx.x;
    for (int turn = 0; row < n_rows; turn ^= 1) {
        if (threadIdx.x == 0) next[turn] = gridDim.x + atomicAdd(taken, 1u);
        visit(row);
        __syncthreads();  // shared memory is clear again, and `next` is written
        row = next[turn];
    }
}

// Position of `item` in the ascending entries [begin, begin + length), or −1.
__device__ __forceinline__ long long find(const int* __restrict__ entries, long long begin, long long length, int item) {
    long long low = begin, high = begin + length;
    while (low < high) {
        const long long middle = (low + high) >> 1;
        if (__ldg(entries + middle) < item) low = middle + 1;
        else high = middle;
    }
    return low < begin + length && __ldg(entries + low) == item ? low : -1;
}

// A residual as FP16, never infinite.
__device__ __forceinline__ unsigned short residual(const Sparse& rows, const Base& base, long long at, float of_user) {
    const float x = rows.values[at] - of_user - __ldg(base.item + rows.entries[at]);
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(fminf(fmaxf(x, -LARGEST_HALF), LARGEST_HALF)));
    return half;
}

// Distribute the chunks of the row's pairs among threads: calls `chunk(neighbors, position in the output)`.
template <class Take> __device__ __forceinline__ void for_each_chunk(
    const Sparse& pairs, long long row, const Chunk* __restrict__ neighbors, const int* __restrict__ target, Take take
) {
    const long long begin = pairs.starts[row];
    const unsigned total = (unsigned)pairs.lengths[row] * CHUNKS;
    for (unsigned first = threadIdx.x; first < total; first += AT_ONCE * blockDim.x) {
        int items[AT_ONCE];
        long long places[AT_ONCE];
        Chunk chunks[AT_ONCE];
#pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {  // all loads first, without a branch between them; values past the end are
            const unsigned c = min(first + n * blockDim.x, total - 1);  // loaded and not used
            const long long pair = begin + c / CHUNKS;
            items[n] = __ldg(pairs.entries + pair);
            places[n] = (target ? __ldg(target + pair) : pair) * CHUNKS + c % CHUNKS;
        }
#pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {
            const unsigned c = min(first + n * blockDim.x, total - 1);
            chunks[n] = neighbors[(unsigned long long)max(items[n], 0) * CHUNKS + c % CHUNKS];
        }
#pragma unroll
        for (int n = 0; n < AT_ONCE; ++n)
            if (items[n] >= 0 && first + n * blockDim.x < total) take(chunks[n], places[n]);
    }
}

__device__ __forceinline__ uint4 packed(const unsigned short (&halves)[EIGHT]) {
    return make_uint4(
        halves[0] | (unsigned)halves[1] << 16, halves[2] | (unsigned)halves[3] << 16,
        halves[4] | (unsigned)halves[5] << 16, halves[6] | (unsigned)halves[7] << 16
    );
}

// `out` in pieces of 8: (places, CHUNKS). Grid: as many blocks as fit.
extern "C" __global__ void __launch_bounds__(LINE_THREADS) residuals(
    const Sparse rows, long long n_rows, int n_items, const Sparse pairs, const Chunk* __restrict__ neighbors,
    const Base base, const int* __restrict__ target, uint4* __restrict__ out, unsigned* taken
) {
    extern __shared__ __align__(16) unsigned short line[];  // a number per item; the last one is for absent neighbors
    for (int item = threadIdx.x; item <= n_items; item += LINE_THREADS) line[item] = NOT_RATED;
    __syncthreads();  // the line is empty
    for_each_row(n_rows, taken, [&](long long row) {
        if (!pairs.lengths[row]) return;
        const long long begin = rows.starts[row], end = begin + rows.lengths[row];
        const float of_user = base.mean + base.user[row];
        for (long long at = begin + threadIdx.x; at < end; at += LINE_THREADS)
            line[rows.entries[at]] = residual(rows, base, at, of_user);
        __syncthreads();  // the line is complete
        for_each_chunk(pairs, row, neighbors, target, [&](const Chunk& chunk, long long place) {
            unsigned short halves[EIGHT];
#pragma unroll
            for (int k = 0; k < EIGHT; ++k) halves[k] = line[chunk.x[k]];
            __stcs(out + place, packed(halves));
        });
        __syncthreads();  // all threads have read the line
        for (long long at = begin + threadIdx.x; at < end; at += LINE_THREADS) line[rows.entries[at]] = NOT_RATED;
    });
}

// --- bitmaps ---------------------------------------------------------------------------------------------------------

// The items of a row: a bit each, or one for all items of equal remainder.
struct Bitmap {
    unsigned *words, n_bits;
    const int* entries;
    long long begin, length;

    // Needs a barrier after it, as `clear` does.
    __device__ __forceinline__ void fill(const Sparse& rows, long long row) {
        entries = rows.entries, begin = rows.starts[row], length = rows.lengths[row];
        for (long long n = threadIdx.x; n < length; n += BITS_THREADS) {
            const unsigned bit = entries[begin + n] & (n_bits - 1);
            atomicOr(words + bit / 32, 1u << bit % 32);
        }
    }
    __device__ __forceinline__ void clear() const {
        for (long long n = threadIdx.x; n < length; n += BITS_THREADS)
            words[(entries[begin + n] & (n_bits - 1)) / 32] = 0;
    }
    __device__ __forceinline__ bool may_hold(int item) const {
        const unsigned bit = item & (n_bits - 1);
        return words[bit / 32] >> bit % 32 & 1;
    }
    __device__ __forceinline__ bool holds(int item) const {
        return may_hold(item) && (!SEARCH || find(entries, begin, length, item) >= 0);
    }
};

__device__ __forceinline__ Bitmap empty_bitmap(unsigned n_bits, int n_planes = 1) {
    extern __shared__ __align__(16) unsigned words[];
    for (unsigned word = threadIdx.x; word < n_planes * n_bits / 32; word += BITS_THREADS) words[word] = 0;
    __syncthreads();  // the bitmap is empty
    return {words, n_bits, nullptr, 0, 0};
}

// The disliked items of a row: another bitmap behind the first.
struct Dislikes {
    Bitmap bits;
    const float* values;
    float middle;

    __device__ __forceinline__ Dislikes(const Bitmap& rated, const Sparse& rows, float middle) : bits(rated), values(rows.values), middle(middle) {
        bits.words += bits.n_bits / 32;
    }
    __device__ __forceinline__ void fill() const {
        for (long long n = threadIdx.x; n < bits.length; n += BITS_THREADS) {
            const unsigned bit = bits.entries[bits.begin + n] & (bits.n_bits - 1);
            if (values[bits.begin + n] < middle) atomicOr(bits.words + bit / 32, 1u << bit % 32);
        }
    }
    __device__ __forceinline__ bool holds(int item) const {
        if (!bits.may_hold(item) || !SEARCH) return bits.may_hold(item);
        const long long at = find(bits.entries, bits.begin, bits.length, item);
        return at >= 0 && values[at] < middle;
    }
};

// `residuals` if a line does not fit: items whose bit is set are searched in the row.
extern "C" __global__ void __launch_bounds__(BITS_THREADS) residuals_by_search(
    const Sparse rows, long long n_rows, unsigned n_bits, const Sparse pairs, const Chunk* __restrict__ neighbors,
    const Base base, const int* __restrict__ target, uint4* __restrict__ out, unsigned* taken
) {
    Bitmap bitmap = empty_bitmap(n_bits);
    for_each_row(n_rows, taken, [&](long long row) {
        if (!pairs.lengths[row]) return;
        bitmap.fill(rows, row);
        const float of_user = base.mean + base.user[row];
        __syncthreads();  // the bitmap is complete
        for_each_chunk(pairs, row, neighbors, target, [&](const Chunk& chunk, long long place) {
            unsigned short halves[EIGHT];
#pragma unroll
            for (int k = 0; k < EIGHT; ++k) {
                halves[k] = NOT_RATED;
                if (!bitmap.may_hold(chunk.x[k])) continue;
                const long long at = find(rows.entries, bitmap.begin, bitmap.length, chunk.x[k]);
                if (at >= 0) halves[k] = residual(rows, base, at, of_user);
            }
            __stcs(out + place, packed(halves));
        });
        __syncthreads();  // all threads have read the bitmap
        bitmap.clear();
    });
}

// `out`: (places, WORDS). LANES lanes next to each other take the bytes of a word.
extern "C" __global__ void __launch_bounds__(BITS_THREADS) masks(
    const Sparse rows, long long n_rows, unsigned n_bits, const Sparse pairs, const Chunk* __restrict__ neighbors,
    const int* __restrict__ target, float middle, unsigned* __restrict__ out, unsigned* taken
) {
    Bitmap bitmap = empty_bitmap(n_bits, PLANES);
    const unsigned lane = threadIdx.x % LANES;
    for_each_row(n_rows, taken, [&](long long row) {
        if (!pairs.lengths[row]) return;
        bitmap.fill(rows, row);
        const Dislikes dislikes(bitmap, rows, middle);
        if (DISLIKES) dislikes.fill();
        __syncthreads();  // the bitmap is complete
        const long long begin = pairs.starts[row];
        const unsigned total = (unsigned)pairs.lengths[row] * WORDS * LANES;
        for (unsigned first = 0; first < total; first += BITS_THREADS) {  // lanes of a warp synchronize below
            const unsigned word = (first + threadIdx.x) / LANES, byte = word % WORDS * LANES + lane;
            const long long pair = begin + word / WORDS;
            const int item = first + threadIdx.x < total ? __ldg(pairs.entries + pair) : -1;
            unsigned bits = 0;
            if (item >= 0 && byte < BYTES) {
                const Chunk near = neighbors[(unsigned long long)item * CHUNKS + byte % CHUNKS];
#pragma unroll
                for (int k = 0; k < EIGHT; ++k)
                    bits |= (unsigned)(byte < CHUNKS ? bitmap.holds(near.x[k]) : dislikes.holds(near.x[k])) << k;
            }
            bits <<= EIGHT * lane;
#pragma unroll
            for (int reach = 1; reach < LANES; reach *= 2) bits |= __shfl_xor_sync(~0u, bits, reach);
            if (item < 0 || lane) continue;
            __stcs(out + (target ? __ldg(target + pair) : pair) * WORDS + word % WORDS, bits);
        }
        __syncthreads();  // all threads have read the bitmap
        bitmap.clear();
        if (DISLIKES) dislikes.bits.clear();
    });
}

// --- negatives -------------------------------------------------------------------------------------------------------

// The n-th item, from 0, that the row does not hold: n plus the number of held items before it.
__device__ __forceinline__ long long nth_unrated(const Bitmap& row, long long n) {
    long long low = 0, high = row.length;
    while (low < high) {
        const long long middle = (low + high) >> 1;
        if (row.entries[row.begin + middle] - middle <= n) low = middle + 1;
        else high = middle;
    }
    return n + low;
}

// `n_draws` items for each rating, those of the rating at p to out[p · stride …]; −1 where the row holds all items, and for
// a dislike. Rows that hold more than half of them draw among the rest, others draw again: as on the host, draw for draw.
extern "C" __global__ void __launch_bounds__(BITS_THREADS) draw(
    const Sparse rows, long long n_rows, unsigned n_bits, long long n_items, unsigned long long seed,
    unsigned long long epoch, float middle, int n_draws, int* __restrict__ out, long long stride, unsigned* taken
) {
    Bitmap bitmap = empty_bitmap(n_bits);
    const unsigned long long stream = mixed(mixed(seed + GOLDEN) + epoch * GOLDEN);
    for_each_row(n_rows, taken, [&](long long row) {
        bitmap.fill(rows, row);
        const bool is_dense = 2 * bitmap.length > n_items;
        const unsigned long long n_choices = is_dense ? n_items - bitmap.length : n_items;
        __syncthreads();  // the bitmap is complete
        for (long long n = threadIdx.x; n < bitmap.length; n += BITS_THREADS) {
            unsigned long long key = mixed(stream + (bitmap.begin + n) * GOLDEN);
            const bool is_like = !DISLIKES || rows.values[bitmap.begin + n] >= middle;
            for (int d = 0; d < n_draws; ++d) {
                long long item = -1;
                while (is_like && n_choices && (item < 0 || bitmap.holds((int)item))) {
                    key += GOLDEN;
                    item = (long long)((mixed(key) >> 32) * n_choices >> 32);
                    if (is_dense) item = nth_unrated(bitmap, item);
                }
                out[(bitmap.begin + n) * stride + d] = (int)item;
            }
        }
        __syncthreads();  // all threads have read the bitmap
        bitmap.clear();
    });
}
