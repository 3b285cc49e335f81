// ALS half-iteration on tensor cores: [000] Alg. 1 with A formed and solved in one kernel, never written to memory.
//
//   (A + ρ I) x = b,  A = Σ w z zᵀ (+ G),  b = Σ y z   over the ratings of one row; z = a row of the FP16 table.
//
// Compiled for one problem: F factors, BIASES and IMPLICIT as 0 or 1.
//
// Columns of a staged rating: C of the table (F factors; with biases then 1, b̂ in FP16 and the rest of b̂), zeros up to
// LD. A's rows F + 1 and F + 2 then add up to Σ b̂ z. The right-hand side y, in two FP16 parts, is
//   NARROW (up to 28 tiles): two more columns of the staged rating, so that A's rows LD and LD + 1 are Σ y z;
//   else: a second operand of its own, two columns wide, for every tile of rows.
//
// Who owns what. A block takes one work item (a row, or a part of a long one) at a time. Its warps share the lower
// triangle of 16 x 16 tiles of A as accumulators. NARROW: one or two warps, each with its own code for consecutive tiles,
// last row first (few distinct tiles to read). Else: squares of EDGE x EDGE tiles, one a warp, and one code for all: more
// than two codes no longer fit the instruction cache (measured: three times slower at F = 128). Vectors of the solver are
// held by every warp alike, a lane two neighbours of each 64.
//
// Shared memory: STAGES stages of STAGE ratings, row stride an odd multiple of 16 bytes (neither `cp.async` nor `ldmatrix`
// conflicts); rings of column numbers, ratings and work items that run ahead of them; parts of products. The pipeline runs
// on across items: the next row's ratings load while this row is solved.
//
// Limits: compute capability 8.0; F up to 256; |x| of the fixed side below 65,504. Races: none; rows and slots have one
// writer, and every sum has a fixed order, so equal inputs give equal bits.

constexpr int D = F + BIASES;                  // unknowns of a row
constexpr int C = F + 3 * BIASES;              // columns of the table that are used
constexpr int LD = (C + 7) / 8 * 8;            // halves in a row of the table
constexpr int DT = (D + 15) / 16;              // tiles across the unknowns
constexpr int NARROW_T = (LD + 8 + 15) / 16;   // tiles across A and its right-hand side
constexpr bool NARROW = NARROW_T <= 7;
#ifndef WIDEST
#define WIDEST 4
#endif
constexpr int SQUARES = ((LD + 15) / 16 + WIDEST - 1) / WIDEST;                          // across A
constexpr int EDGE = NARROW ? NARROW_T : ((LD + 15) / 16 + SQUARES - 1) / SQUARES;  // tiles across what a warp may hold
constexpr int T = NARROW ? NARROW_T : EDGE * SQUARES;                      // tiles across a staged rating
constexpr int N_TILES = T * (T + 1) / 2;                                   // of the triangle
constexpr int WARPS = NARROW ? (N_TILES + 13) / 14 : SQUARES * (SQUARES + 1) / 2;
constexpr int PER_WARP = NARROW ? (N_TILES + WARPS - 1) / WARPS : EDGE * EDGE;
constexpr int THREADS = 32 * WARPS;
constexpr int VT = NARROW ? DT : T;            // tiles across a vector of the solver
constexpr int PARTS = NARROW ? WARPS : SQUARES;  // of a product, each entry's, to be added
constexpr int PAIRS = (16 * VT + 63) / 64;     // of neighbouring entries of a vector that a lane holds
constexpr int VECTOR = 2 * PAIRS;
constexpr int WORDS = 8 * PAIRS + 4;           // a lane's operands, room included; an odd multiple of 4

#ifndef STAGE
#define STAGE 64
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef UNROLL
#define UNROLL (NARROW ? 1 : 2)
#endif
constexpr int STEPS = UNROLL;
#ifndef STRIDE
#define STRIDE LD
#endif
constexpr int CHUNKS = LD / 8;                 // 16-byte pieces of a row of the table
constexpr int PASS = THREADS / CHUNKS < STAGE ? THREADS / CHUNKS : STAGE;  // rows of the table that the block gathers at once
constexpr int ROUNDS = (STAGE + PASS - 1) / PASS, RUN = (ROUNDS + 3) / 4 * 4;
constexpr int ROW_BYTES = 32 * T + 16;
constexpr int RING = STAGES <= 2 ? 2 : 4;      // stages whose column numbers and ratings are held
constexpr int NOTES = STAGES <= 2 ? 4 : 8;     // stages whose `Note` is held: 2 (STAGES - 1) + 1 at least
#ifndef WAVE
#define WAVE 132
#endif
constexpr int ITEMS = 16, AHEAD = 8;           // work items held, and how far ahead they are fetched
static_assert(STAGES >= 2 && STAGES <= RING && 2 * (STAGES - 1) < NOTES, "rings are too short");
static_assert(PASS >= 1, "a row of the table is longer than the block is wide");

// Item, SplitRow and Solver are in common.cuh, which is put before this text.
struct Half {  // what a half-iteration reads and writes
    const int* columns;
    const float* values;
    const unsigned short* fixed;
    const uint4* gram;        // implicit problems: G in FP16, in the order of the accumulators, and
    const float* gram_unit;   // what it is to be multiplied by
    float* solved;
    unsigned short* table;
    float4* partials;
};
struct Note {         // of a stage: how many ratings | LAST | END, and the turn of its item
    int count;
    unsigned turn;
};
constexpr int LAST = 1 << 8, END = 1 << 9;

struct Shared {
    alignas(16) unsigned char tiles[STAGES][STAGE][ROW_BYTES];
    alignas(16) Item items[ITEMS];
    alignas(16) int columns[RING][PASS * RUN];  // rating r at [r % PASS][r / PASS]: what a thread gathers stands together
    float values[RING][STAGE];
    alignas(16) unsigned short weights[STAGES][IMPLICIT ? STAGE : 8];
    alignas(16) unsigned short targets[STAGES][3][NARROW ? 8 : STAGE];  // y in two parts, and zeros; where y is no column
    alignas(16) float right[2 + 2 * BIASES][16 * T];
    alignas(16) float parts[2][PARTS][64 * PAIRS];
    alignas(16) unsigned operands[WARPS][3][4][WORDS];  // a vector's high parts, its low parts, zeros; as `mma` takes them
    float largest[WARPS];
    Note notes[NOTES];
};
#ifndef REGISTERS
#define REGISTERS (NARROW ? PER_WARP * 8 + 56 : PER_WARP * 6 + 72)
#endif
constexpr int BY_REGISTERS = 65536 / (REGISTERS * THREADS), BY_MEMORY = 227 * 1024 / (sizeof(Shared) + 1024);
constexpr int BLOCKS_PER_SM = BY_REGISTERS < 1 ? 1 : BY_REGISTERS < BY_MEMORY ? BY_REGISTERS : BY_MEMORY;

// --- compile-time loops and the tiles of a warp ----------------------------------------------------------------------

template <int N> struct Int { static constexpr int value = N; };
template <int I, int N, class Body> __device__ __forceinline__ void repeat(Body body) {
    if constexpr (I < N) {
        body(Int<I>());
        repeat<I + 1, N>(body);
    }
}
constexpr __host__ __device__ int tile_row(int n) {  // NARROW: of the n-th tile; last row first, in a row last column first
    int row = T - 1;
    while (n > row) n -= row-- + 1;
    return row;
}
constexpr __host__ __device__ int tile_column(int n) {
    int row = T - 1;
    while (n > row) n -= row-- + 1;
    return row - n;
}

// The tiles of a warp; rows and columns count from its `Corner`. Without NARROW they are a square, alike for all warps.
template <int WARP> struct Share {
    static constexpr int first = NARROW ? WARP * PER_WARP : 0;
    static constexpr int count = NARROW && N_TILES - first < PER_WARP ? N_TILES - first : PER_WARP;
    static constexpr __host__ __device__ int row(int n) { return NARROW ? tile_row(first + n) : n / EDGE; }
    static constexpr __host__ __device__ int column(int n) { return NARROW ? tile_column(first + n) : n % EDGE; }
    static constexpr __host__ __device__ bool has(int tile, bool by_row, int below) {
        for (int n = 0; n < count; ++n)
            if (row(n) < below && (by_row ? row(n) : column(n)) == tile) return true;
        return false;
    }
    static constexpr __host__ __device__ bool has_row(int tile) { return has(tile, true, EDGE); }
    static constexpr __host__ __device__ bool has_column(int tile) { return has(tile, false, EDGE); }
    static constexpr __host__ __device__ bool solves(int n) { return !NARROW || row(n) < DT; }
    static constexpr __host__ __device__ bool solves_column(int tile) { return has(tile, false, NARROW ? DT : EDGE); }
    static constexpr __host__ __device__ bool solves_row(int tile) { return has_row(tile) && (!NARROW || tile < DT); }
};
struct Corner {  // of a warp's square
    int row, column;  // tiles
    __device__ __forceinline__ bool on_diagonal() const { return NARROW || row == column; }
};
template <int WARP> __device__ __forceinline__ Corner corner() {
    if constexpr (NARROW) return {0, 0};
    int column = threadIdx.x / 32, row = 0;
    while (column > row) column -= ++row;
    return {row * EDGE, column * EDGE};
}

// --- instructions ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(unsigned to, const void* from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}
__device__ __forceinline__ void copy4(unsigned to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_but() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
__device__ __forceinline__ void load_tile(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void multiply(float* c, const unsigned* a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned transposed(unsigned matrix) {
    unsigned result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(matrix));
    return result;
}
__device__ __forceinline__ unsigned short half_of(float x) {
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
__device__ __forceinline__ float float_of(unsigned short h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
__device__ __forceinline__ unsigned pair_of(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
__device__ __forceinline__ unsigned times(unsigned x, unsigned y) {  // two FP16 products
    unsigned product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
    return product;
}
__device__ __forceinline__ float inverse(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float inverse_root(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ void meet() {  // all warps of the block
    if constexpr (WARPS == 1) __syncwarp(); else __syncthreads();
}
__device__ __forceinline__ float total_of(float x) {
    for (int reach = 16; reach; reach /= 2) x += __shfl_xor_sync(~0u, x, reach);
    return x;
}

// --- staging: what runs ahead of the arithmetic ----------------------------------------------------------------------

// Block b of G takes items b, 2G − 1 − b, 2G + b, …: sorted by length, every block gets as much. Parts of rows keep their
// order, by which they find the fixed table in the cache. Every other wave of blocks takes its whole rows shortest first:
// at any time some blocks wait for memory (long rows) and some for the solver (short ones).
struct Work {
    const Item* items;
    unsigned n_items, n_ordered, n_turns;
    bool is_reversed;
    __device__ __forceinline__ Work(const Item* items, unsigned n_items, unsigned n_parts) : items(items), n_items(n_items) {
        n_ordered = (n_parts + gridDim.x - 1) / gridDim.x;
        n_turns = n_items / gridDim.x;
        if (at(n_turns) < n_items) ++n_turns;
        is_reversed = blockIdx.x / WAVE % 2;
    }
    __device__ __forceinline__ unsigned at(unsigned turn) const {
        return turn * gridDim.x + (turn & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    }
    __device__ __forceinline__ unsigned number(unsigned turn) const {
        return at(is_reversed && turn >= n_ordered ? n_ordered + n_turns - 1 - turn : turn);
    }
};
struct Cursor {  // the stage whose column numbers are fetched next; alike in all threads but for `place`
    long long place;  // of this thread's rating
    int left;         // ratings of the item
    unsigned turn;
    bool ended;
};

__device__ __forceinline__ void fetch_item(Shared& shared, const Work& work, unsigned turn) {
    if (turn >= work.n_turns) return;
    const unsigned number = work.number(turn);
    if (threadIdx.x < 2)
        copy16(address(&shared.items[turn % ITEMS]) + 16 * threadIdx.x, (const char*)(work.items + number) + 16 * threadIdx.x, true);
}

__device__ __forceinline__ void enter_item(Shared& shared, const Work& work, Cursor& cursor) {
    cursor.ended = cursor.turn >= work.n_turns;
    if (cursor.ended) return;
    const Item& item = shared.items[cursor.turn % ITEMS];
    cursor.place = item.begin + threadIdx.x;
    cursor.left = item.length;
    fetch_item(shared, work, cursor.turn + AHEAD);
}

// Fetch column numbers and ratings of the cursor's stage, which is the block's `number`-th, and move on.
__device__ __forceinline__ void fetch_numbers(Shared& shared, const Work& work, Cursor& cursor, const Half& half, unsigned number) {
    if (threadIdx.x == 0) {
        const int count = cursor.ended ? END : cursor.left > STAGE ? STAGE : cursor.left | LAST;
        shared.notes[number % NOTES] = {count, cursor.turn};
    }
    if (cursor.ended) return;
#pragma unroll
    for (int rating = threadIdx.x, n = 0; n < STAGE; rating += THREADS, n += THREADS) {
        if (rating < min(cursor.left, STAGE)) {
            copy4(address(&shared.columns[number % RING][rating % PASS * RUN + rating / PASS]), half.columns + cursor.place + n);
            copy4(address(&shared.values[number % RING][rating]), half.values + cursor.place + n);
        }
    }
    cursor.place += STAGE;
    cursor.left -= STAGE;
    if (cursor.left > 0) return;
    ++cursor.turn;
    enter_item(shared, work, cursor);
}

// Write the right-hand side of a rating, and in implicit problems its weight.
__device__ __forceinline__ void write_right(
    Shared& shared, const Solver& solver, unsigned tiles, int slot, unsigned number, Note note, int rating
) {
    float y = 0, share = 0;
    if (rating < (note.count & (LAST - 1))) {
        const float value = shared.values[number % RING][rating];
        const float weight = shared.items[note.turn % ITEMS].weight;
        if (IMPLICIT) {
            share = solver.alpha * value * inverse(weight);
            y = value > 0 ? (1 + solver.alpha * value) * inverse(1 + weight) : 0.0f;
        } else {
            y = (value - solver.mean) * inverse(weight);
        }
    }
    const unsigned short high = half_of(y);
    const float rest = y - float_of(high);
    if (NARROW)
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %2, %2};" ::"r"(tiles + rating * ROW_BYTES + LD * 2), "r"(pair_of(y, rest)), "r"(0)
                     : "memory");
    else
        shared.targets[slot][0][rating] = high, shared.targets[slot][1][rating] = half_of(rest);
    if (IMPLICIT) shared.weights[slot][rating] = half_of(share);
}

// Gather the rows of the table that the block's `number`-th stage needs, and write its right-hand sides.
__device__ __forceinline__ void gather(Shared& shared, const Half& half, const Solver& solver, unsigned number, int slot) {
    const Note note = shared.notes[number % NOTES];
    if (note.count & END) return;
    const unsigned tiles = address(shared.tiles[slot]);
    const int all = note.count & (LAST - 1), first = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
#pragma unroll
    for (int rating = threadIdx.x, n = 0; n < STAGE; rating += THREADS, n += THREADS)
        if (STAGE % THREADS == 0 || rating < STAGE) write_right(shared, solver, tiles, slot, number, note, rating);
    if (PASS * CHUNKS < THREADS && first >= PASS) return;
    const int* columns = shared.columns[number % RING] + first * RUN;
    const unsigned to = tiles + first * ROW_BYTES + chunk * 16;
    const char* from = (const char*)half.fixed + chunk * 16;
    asm("" : "+l"(from));  // one multiply-add an address: the compiler would add the parts anew each time
    if (all == STAGE) {
#pragma unroll
        for (int n = 0; n < ROUNDS; n += 4) {
            const int4 four = *(const int4*)(columns + n);
            const int each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int k = 0; k < 4 && n + k < ROUNDS; ++k)
                if ((n + k + 1) * PASS <= STAGE || first + (n + k) * PASS < STAGE)
                    copy16(to + (n + k) * PASS * ROW_BYTES, from + (long long)each[k] * (STRIDE * 2), true);
        }
    } else {  // the arithmetic takes 16 ratings at a time: the rest of them must be zeros
        const int rounded = (all + 15) / 16 * 16;
#pragma unroll 1
        for (int n = 0; first + n * PASS < rounded; ++n) {
            const bool is_there = first + n * PASS < all;
            copy16(to + n * PASS * ROW_BYTES, from + (is_there ? (long long)columns[n] * (STRIDE * 2) : 0), is_there);
        }
    }
}

// --- A and b ---------------------------------------------------------------------------------------------------------

typedef float Sums[PER_WARP][8];  // of a warp's tiles, as `mma` lays them out: columns 0–7, then 8–15

// Rows of a product with a vector in two parts, which are the first two columns.
__device__ __forceinline__ void put(float* to, const float* result) {
    const int lane = threadIdx.x % 32;
    if (lane % 4 == 0) to[lane / 4] = result[0] + result[1], to[lane / 4 + 8] = result[2] + result[3];
}
__device__ __forceinline__ void add_to(float* to, const float* result) {
    const int lane = threadIdx.x % 32;
    if (lane % 4 == 0) to[lane / 4] += result[0] + result[1], to[lane / 4 + 8] += result[2] + result[3];
}

// Where y is no column: Σ y z of the rows of a square's tiles i on the diagonal. The tiles above the diagonal would repeat
// those below; two of them hold these sums instead.
template <class Any> __device__ __forceinline__ auto right_of(Any& sums, int i) { return sums[1 + i / 2] + i % 2 * 4; }

// Add one stage, 16 ratings a step, both operands from the same staged rows.
template <int WARP> __device__ __forceinline__ void accumulate(Sums& sums, Shared& shared, Corner corner, int slot, int count) {
    using Mine = Share<WARP>;
    const int lane = threadIdx.x % 32;
    const unsigned tiles = address(shared.tiles[slot]);
    const unsigned left = tiles + (lane % 8 + lane / 16 * 8) * ROW_BYTES + lane / 8 % 2 * 16 + corner.row * 32;
    const unsigned right = tiles + (lane % 8 + lane / 8 % 2 * 8) * ROW_BYTES + lane / 16 * 16 + corner.column * 32;
#pragma unroll STEPS
    for (int step = 0; step * 16 < count; ++step) {
        unsigned a[EDGE][4];
        unsigned first = 0, second = 0;
        if (IMPLICIT) {
            const unsigned* weights = (const unsigned*)shared.weights[slot] + step * 8 + lane % 4;
            first = weights[0], second = weights[4];
        }
        repeat<0, EDGE>([&](auto row) {
            constexpr int i = decltype(row)::value;
            if constexpr (Mine::has_row(i)) load_tile(a[i], left + step * 16 * ROW_BYTES + i * 32);
        });
        if constexpr (!NARROW) {
            if (corner.on_diagonal()) {
                const unsigned* y = (const unsigned*)shared.targets[slot][lane < 8 ? lane / 4 : 2] + step * 8 + lane % 4;
                const unsigned low = y[0], high = y[4];
#pragma unroll
                for (int i = 0; i < EDGE; ++i) multiply(right_of(sums, i), a[i], low, high);
            }
        }
        repeat<0, EDGE>([&](auto row) {
            constexpr int i = decltype(row)::value;
            if constexpr (IMPLICIT && Mine::has_row(i) && (!NARROW || 16 * i < LD)) {  // y counts as it is
                a[i][0] = times(a[i][0], first), a[i][2] = times(a[i][2], second);
                if constexpr (!NARROW || 16 * i + 8 < LD) a[i][1] = times(a[i][1], first), a[i][3] = times(a[i][3], second);
            }
        });
        repeat<0, EDGE>([&](auto column) {
            constexpr int j = decltype(column)::value;
            if constexpr (Mine::has_column(j)) {
                unsigned b[4];
                load_tile(b, right + step * 16 * ROW_BYTES + j * 32);
                repeat<0, Mine::count>([&](auto place) {
                    constexpr int n = decltype(place)::value;
                    if constexpr (Mine::column(n) == j && (NARROW || Mine::row(n) >= j)) {
                        multiply(sums[n], a[Mine::row(n)], b[0], b[1]);
                        multiply(sums[n] + 4, a[Mine::row(n)], b[2], b[3]);
                    }
                });
                if constexpr (!NARROW && j > 0) {
                    if (!corner.on_diagonal()) {
#pragma unroll
                        for (int i = 0; i < j; ++i) {
                            multiply(sums[i * EDGE + j], a[i], b[0], b[1]);
                            multiply(sums[i * EDGE + j] + 4, a[i], b[2], b[3]);
                        }
                    }
                }
            }
        });
    }
}

// Write A's row ROW, as far as the unknowns go, to `to`.
template <int WARP, int ROW> __device__ __forceinline__ void extract_row(const Sums& sums, Corner corner, float* to) {
    using Mine = Share<WARP>;
    const int lane = threadIdx.x % 32;
    if (lane / 4 != ROW % 8) return;
    repeat<0, Mine::count>([&](auto place) {
        constexpr int n = decltype(place)::value, half = ROW % 16 / 8 * 2;
        if constexpr (!NARROW || (Mine::row(n) == ROW / 16 && Mine::column(n) < DT)) {
            if (NARROW || corner.row + Mine::row(n) == ROW / 16) {
                float* at = to + 16 * (corner.column + Mine::column(n)) + lane % 4 * 2;
                at[0] = sums[n][half], at[1] = sums[n][half + 1];
                at[8] = sums[n][4 + half], at[9] = sums[n][5 + half];
            }
        }
    });
}

// Leave the parts of b in `shared.right`.
template <int WARP> __device__ __forceinline__ void extract_right(const Sums& sums, Shared& shared, Corner corner) {
    if constexpr (NARROW) {
        extract_row<WARP, LD>(sums, corner, shared.right[0]);
        extract_row<WARP, LD + 1>(sums, corner, shared.right[1]);
    } else if (corner.on_diagonal()) {
#pragma unroll
        for (int i = 0; i < EDGE; ++i) put(shared.right[0] + 16 * (corner.row + i), right_of(sums, i));
    }
    if constexpr (BIASES) {
        extract_row<WARP, F + 1>(sums, corner, shared.right[2]);
        extract_row<WARP, F + 2>(sums, corner, shared.right[3]);
    }
}

// Implicit problems: A's sums in units of 1, plus G, packed as `pack_gram` leaves it; `unit` is its largest element.
template <int WARP> __device__ __forceinline__ void add_gram(Sums& sums, const Half& half, float weight) {
    using Mine = Share<WARP>;
    const float unit = __ldg(half.gram_unit);
    const uint4* mine = half.gram + threadIdx.x / 32 * PER_WARP * 32 + threadIdx.x % 32;
    repeat<0, Mine::count>([&](auto place) {
        constexpr int n = decltype(place)::value;
        if constexpr (Mine::solves(n)) {
            const uint4 packed = __ldg(mine + 32 * n);
            const unsigned pairs[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                sums[n][2 * k] = sums[n][2 * k] * weight + float_of(pairs[k] & 0xffff) * unit;
                sums[n][2 * k + 1] = sums[n][2 * k + 1] * weight + float_of(pairs[k] >> 16) * unit;
            }
        }
    });
}

// The largest diagonal element among a warp's tiles.
template <int WARP> __device__ __forceinline__ float largest_of(const Sums& sums, Corner corner) {
    using Mine = Share<WARP>;
    const int lane = threadIdx.x % 32, group = lane / 4;
    const bool is_even = group == lane % 4 * 2, is_odd = group == lane % 4 * 2 + 1;
    float largest = 0;
    repeat<0, Mine::count>([&](auto place) {
        constexpr int n = decltype(place)::value;
        if constexpr (Mine::row(n) == Mine::column(n) && Mine::solves(n)) {
            const int entry = 16 * (corner.row + Mine::row(n)) + group;
            const float low = is_even ? sums[n][0] : sums[n][1], high = is_even ? sums[n][6] : sums[n][7];
            if ((is_even || is_odd) && corner.on_diagonal() && entry < D) largest = fmaxf(largest, low);
            if ((is_even || is_odd) && corner.on_diagonal() && entry + 8 < D) largest = fmaxf(largest, high);
        }
    });
    return __int_as_float(__reduce_max_sync(~0u, __float_as_int(largest)));
}

// --- the solver ------------------------------------------------------------------------------------------------------

constexpr float TINY = 1e-30f, LARGEST = 3e38f;  // squares below are zeros, above overflows
typedef float Vector[VECTOR];
__device__ __forceinline__ int entry(int n) { return threadIdx.x % 32 * 2 + n % 2 + n / 2 * 64; }  // that a lane's n-th is
struct Matrix { unsigned tile[PER_WARP][4], mirrored[PER_WARP][4]; };  // FP16 fragments of a warp's tiles and of their transposes

// A as FP16 fragments; what does not belong to an unknown becomes 0.
template <int WARP> __device__ __forceinline__ void convert(Matrix& matrix, const Sums& sums, Corner corner) {
    using Mine = Share<WARP>;
    const int row = 16 * corner.row + threadIdx.x % 32 / 4, column = 16 * corner.column + threadIdx.x % 4 * 2;
    repeat<0, Mine::count>([&](auto place) {
        constexpr int n = decltype(place)::value;
        if constexpr (Mine::solves(n)) {
            float e[8];
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const int i = row + 16 * Mine::row(n) + k / 2 % 2 * 8, j = column + 16 * Mine::column(n) + k % 2 + k / 4 * 8;
                const bool is_inside = NARROW ? 16 * Mine::row(n) + 16 <= D : D == 16 * T;
                e[k] = is_inside || (i < D && j < D) ? sums[n][k] : 0.0f;
            }
            unsigned* tile = matrix.tile[n];
            tile[0] = pair_of(e[0], e[1]), tile[1] = pair_of(e[2], e[3]);
            tile[2] = pair_of(e[4], e[5]), tile[3] = pair_of(e[6], e[7]);
            if constexpr (!NARROW || Mine::row(n) != Mine::column(n)) {
                unsigned* mirrored = matrix.mirrored[n];
                mirrored[0] = transposed(tile[0]), mirrored[1] = transposed(tile[2]);
                mirrored[2] = transposed(tile[1]), mirrored[3] = transposed(tile[3]);
            }
        }
    });
}

// Write v times `scale`, split into two FP16 numbers, where this warp's `mma` will take it from.
__device__ __forceinline__ void stage_vector(Shared& shared, const Vector& v, float scale) {
    const int lane = threadIdx.x % 32;
    unsigned* to = &shared.operands[threadIdx.x / 32][0][lane % 4][lane / 4];
#pragma unroll
    for (int n = 0; n < PAIRS; ++n) {
        const float low = v[2 * n] * scale, high = v[2 * n + 1] * scale;
        const unsigned pair = pair_of(low, high);
        to[8 * n] = pair;
        to[8 * n + 4 * WORDS] = pair_of(low - float_of(pair & 0xffff), high - float_of(pair >> 16));
    }
    __syncwarp();
}

// product = A v + ridge v, where v times `scale` fits FP16. A tile gives its rows' part and, mirrored, its columns'.
template <int WARP> __device__ __forceinline__ void apply(
    Vector& product, const Vector& v, const Matrix& matrix, Shared& shared, Corner corner, float scale, float ridge, int& parity
) {
    using Mine = Share<WARP>;
    const int lane = threadIdx.x % 32;
    stage_vector(shared, v, scale);
    const uint2* operands = (const uint2*)shared.operands[threadIdx.x / 32][lane < 8 ? lane / 4 : 2][lane % 4];
    parity ^= 1;
    float* row_part = shared.parts[parity][NARROW ? WARP : corner.column / EDGE] + 16 * corner.row;
    float* column_part = shared.parts[parity][NARROW ? WARP : corner.row / EDGE] + 16 * corner.column;
    float rows[EDGE][4];
    uint2 across[EDGE];
    repeat<0, EDGE>([&](auto tile) {
        constexpr int i = decltype(tile)::value;
        if constexpr (Mine::solves_row(i)) {
            across[i] = operands[corner.row + i];
            rows[i][0] = rows[i][1] = rows[i][2] = rows[i][3] = 0;
        }
    });
    repeat<0, EDGE>([&](auto tile) {
        constexpr int j = decltype(tile)::value;
        if constexpr (Mine::solves_column(j)) {
            constexpr bool is_row = NARROW && Mine::solves_row(j);
            const uint2 down = is_row ? across[j] : operands[corner.column + j];
            float alone[4] = {0, 0, 0, 0};
            float (&column)[4] = is_row ? rows[j] : alone;
            repeat<0, Mine::count>([&](auto place) {
                constexpr int n = decltype(place)::value, i = Mine::row(n);
                if constexpr (Mine::column(n) == j && Mine::solves(n) && (NARROW || i >= j)) {
                    multiply(rows[i], matrix.tile[n], down.x, down.y);
                    if constexpr (NARROW && i != j) multiply(column, matrix.mirrored[n], across[i].x, across[i].y);
                }
            });
            if constexpr (!NARROW) {
#pragma unroll
                for (int i = 0; i < EDGE; ++i)
                    if (i > j) multiply(alone, matrix.mirrored[i * EDGE + j], across[i].x, across[i].y);
                if (!corner.on_diagonal()) {
#pragma unroll
                    for (int i = 0; i <= j; ++i) {
                        if (i < j) multiply(rows[i], matrix.tile[i * EDGE + j], down.x, down.y);
                        multiply(alone, matrix.mirrored[i * EDGE + j], across[i].x, across[i].y);
                    }
                }
            }
            if constexpr (!is_row) put(column_part + 16 * j, alone);
        }
    });
    repeat<0, EDGE>([&](auto tile) {
        constexpr int i = decltype(tile)::value;
        if constexpr (Mine::solves_row(i)) {
            if (!NARROW && corner.on_diagonal()) add_to(row_part + 16 * i, rows[i]);  // both parts go to one place
            else put(row_part + 16 * i, rows[i]);
        }
    });
    meet();
    const float back = inverse(scale);
#pragma unroll
    for (int n = 0; n < PAIRS; ++n) {
        float2 sum = *(const float2*)(shared.parts[parity][0] + 2 * lane + 64 * n);
#pragma unroll
        for (int part = 1; part < PARTS; ++part) {
            const float2 more = *(const float2*)(shared.parts[parity][part] + 2 * lane + 64 * n);
            sum.x += more.x, sum.y += more.y;
        }
        product[2 * n] = sum.x * back + ridge * v[2 * n], product[2 * n + 1] = sum.y * back + ridge * v[2 * n + 1];
    }
}

__device__ __forceinline__ float dot(const Vector& x, const Vector& y) {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) sum += x[n] * y[n];
    return sum;
}

// Sums of x and of y over the warp, each lane's; the halves of the warp share the work.
__device__ __forceinline__ float2 totals_of(float x, float y) {
    const bool is_upper = threadIdx.x & 16;
    float sum = (is_upper ? y : x) + __shfl_xor_sync(~0u, is_upper ? x : y, 16);
    for (int reach = 8; reach; reach /= 2) sum += __shfl_xor_sync(~0u, sum, reach);
    return make_float2(__shfl_sync(~0u, sum, 0), __shfl_sync(~0u, sum, 16));
}

// Conjugate gradients with one reduction a step (Chronopoulos and Gear, 1989), from the x that is there; r is b at first.
template <int WARP> __device__ __forceinline__ void descend(
    Vector& x, Vector& r, const Matrix& matrix, Shared& shared, Corner corner, const Solver& solver, float ridge, int& parity
) {
    Vector p, s, w;
    const float2 norms = totals_of(dot(r, r), dot(x, x));
    const float goal = fmaxf(solver.tolerance * solver.tolerance * norms.x, TINY);
    apply<WARP>(w, x, matrix, shared, corner, norms.y > TINY ? inverse_root(norms.y) : 1.0f, ridge, parity);
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) r[n] -= w[n], p[n] = s[n] = 0;
    float gamma = total_of(dot(r, r)), alpha = 1, beta = 0;
    if (!(gamma < LARGEST)) {  // an overflow must not look like a solution
#pragma unroll
        for (int n = 0; n < VECTOR; ++n) x[n] = __int_as_float(0x7fffffff);
    }
    if (!(gamma > goal)) return;
#pragma unroll 1
    for (int step = 0; step < solver.n_steps; ++step) {
        apply<WARP>(w, r, matrix, shared, corner, inverse_root(gamma), ridge, parity);
        const float2 next = totals_of(dot(r, r), dot(w, r));
        beta = step ? next.x * inverse(gamma) : 0.0f;
        const float curvature = next.y - beta * next.x * inverse(alpha);
        if (!(next.x > goal && curvature > TINY)) return;
        alpha = next.x * inverse(curvature), gamma = next.x;
#pragma unroll
        for (int n = 0; n < VECTOR; ++n) {
            p[n] = r[n] + beta * p[n], s[n] = w[n] + beta * s[n];
            x[n] += alpha * p[n], r[n] -= alpha * s[n];
        }
    }
}

// Write x to both forms of the solved table; the first warp the one, the last the other.
__device__ __forceinline__ void write(const Vector& x, const Half& half, long long row) {
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) {
        const int e = entry(n);
        if (e < D && threadIdx.x < 32) half.solved[row * D + e] = x[n];
        if (e < D && threadIdx.x / 32 == WARPS - 1) {
            unsigned short* to = half.table + row * STRIDE + e;
            const unsigned short high = half_of(x[n]);
            if (e < F) to[0] = high;
            else to[0] = half_of(1.0f), to[1] = high, to[2] = half_of(x[n] - float_of(high));
        }
    }
}

// Solve a row whose sums are complete.
template <int WARP> __device__ __forceinline__ void solve(
    Sums& sums, Shared& shared, Corner corner, const Solver& solver, const Half& half, int row, int total, float weight, int& parity
) {
    const int lane = threadIdx.x % 32;
    Vector x, r;
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) x[n] = entry(n) < D ? half.solved[(long long)row * D + entry(n)] : 0.0f;
    extract_right<WARP>(sums, shared, corner);
    if constexpr (IMPLICIT) add_gram<WARP>(sums, half, weight);
    const float mine = largest_of<WARP>(sums, corner);
    if (lane == 0) shared.largest[threadIdx.x / 32] = mine;
    meet();
    float largest = shared.largest[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; ++warp) largest = fmaxf(largest, shared.largest[warp]);
    const float scale = largest > 0.01f && largest < 30000 ? 1.0f : largest > TINY ? inverse(largest) : 1.0f;  // keeps A within FP16
    const float ridge = solver.regularization * __powf(total + solver.offset, solver.exponent) * scale;
    const float unit = (IMPLICIT + weight) * scale;  // of y
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) {
        const int e = entry(n);
        r[n] = e < D ? shared.right[0][e] : 0.0f;
        if (NARROW && e < D) r[n] += shared.right[1][e];
        r[n] *= unit;
        if (BIASES && e < D) r[n] -= (shared.right[2][e] + shared.right[3][e]) * scale;
    }
    if (scale != 1)
#pragma unroll
        for (int n = 0; n < PER_WARP; ++n)
#pragma unroll
            for (int e = 0; e < 8; ++e) sums[n][e] *= scale;
    Matrix matrix;
    convert<WARP>(matrix, sums, corner);
    descend<WARP>(x, r, matrix, shared, corner, solver, ridge, parity);
    write(x, half, row);
}

// --- kernels ---------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int n = 0; n < PER_WARP; ++n)
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[n][e] = 0;
}

constexpr int PART_VECTORS = WARPS * PER_WARP * 64;  // float4 of the sums of a part of a row

__device__ __forceinline__ float4* partial_of(const Half& half, int slot) {
    return half.partials + (long long)slot * PART_VECTORS + threadIdx.x / 32 * PER_WARP * 64 + threadIdx.x % 32;
}

template <int WARP> __device__ __forceinline__ void store_partial(const Sums& sums, const Half& half, int slot) {
    float4* to = partial_of(half, slot);
#pragma unroll
    for (int n = 0; n < Share<WARP>::count; ++n) {
        const float (&e)[8] = sums[n];
        to[64 * n] = make_float4(e[0], e[1], e[2], e[3]), to[64 * n + 32] = make_float4(e[4], e[5], e[6], e[7]);
    }
}

__device__ __forceinline__ void add(float* to, float4 more) { to[0] += more.x, to[1] += more.y, to[2] += more.z, to[3] += more.w; }

template <int WARP> __device__ __forceinline__ void add_partial(Sums& sums, const Half& half, int slot) {
    const float4* from = partial_of(half, slot);
#pragma unroll
    for (int n = 0; n < Share<WARP>::count; ++n)
        add(sums[n], __ldcg(from + 64 * n)), add(sums[n] + 4, __ldcg(from + 64 * n + 32));
}

template <int WARP> __device__ __forceinline__ void run(Shared& shared, const Work& work, const Half& half, const Solver& solver) {
    Cursor cursor = {0, 0, 0, true};
    unsigned fetched = 0, gathered = 0, number = 0;
    int parity = 0;
    enter_item(shared, work, cursor);
    while (fetched < STAGES - 1) fetch_numbers(shared, work, cursor, half, fetched++);
    commit();
    wait_but<0>();
    __syncthreads();
    while (gathered < STAGES - 1) {
        gather(shared, half, solver, gathered, gathered);
        ++gathered;
        fetch_numbers(shared, work, cursor, half, fetched++);
        commit();
    }
    const Corner corner = ::corner<WARP>();
    Sums sums;
    int slot = 0;
    for (;;) {
        clear(sums);
        Note note;
        do {
            wait_but<STAGES - 2>();
            __syncthreads();  // stage `number` has landed for all, and nobody reads the stage before it any more
            note = shared.notes[number++ % NOTES];
            if (note.count & END) return;
            gather(shared, half, solver, gathered++, slot ? slot - 1 : STAGES - 1);
            fetch_numbers(shared, work, cursor, half, fetched++);
            commit();
            accumulate<WARP>(sums, shared, corner, slot, note.count & (LAST - 1));
            slot = slot + 1 < STAGES ? slot + 1 : 0;
        } while (!(note.count & LAST));
        const Item& item = shared.items[note.turn % ITEMS];
        if (item.slot >= 0) store_partial<WARP>(sums, half, item.slot);
        else solve<WARP>(sums, shared, corner, solver, half, item.row, item.total, item.weight, parity);
    }
}

template <int WARP> __device__ __forceinline__ void finish(Shared& shared, const SplitRow& split, const Half& half, const Solver& solver) {
    const Corner corner = ::corner<WARP>();
    Sums sums;
    clear(sums);
    for (int n = 0; n < split.n_slots; ++n) add_partial<WARP>(sums, half, split.first_slot + n);
    int parity = 0;
    solve<WARP>(sums, shared, corner, solver, half, split.row, split.total, split.weight, parity);
}

extern __shared__ __align__(16) unsigned char memory[];

__device__ __forceinline__ Shared& start() {
    for (int at = 16 * threadIdx.x; at < (int)sizeof(Shared); at += 16 * THREADS) *(uint4*)(memory + at) = make_uint4(0, 0, 0, 0);
    __syncthreads();
    return *(Shared*)memory;
}

template <int WARP, class Body> __device__ __forceinline__ void as_warp(Body body) {
    if constexpr (NARROW && WARP + 1 < WARPS) {
        if (threadIdx.x / 32 != WARP) return as_warp<WARP + 1>(body);
    }
    body(Int<WARP>());
}

// Solve all whole rows among the items and sum the parts of the others. Grid: as many blocks as fit at once.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
solve_rows(const Item* items, unsigned n_items, unsigned n_parts, Half half, Solver solver) {
    Shared& shared = start();
    const Work work(items, n_items, n_parts);
    for (unsigned turn = 0; turn < AHEAD; ++turn) fetch_item(shared, work, turn);
    commit();
    wait_but<0>();
    __syncthreads();
    as_warp<0>([&](auto warp) { run<decltype(warp)::value>(shared, work, half, solver); });
}

// Solve the rows that were summed in parts. Grid: one block a row.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
solve_split_rows(const SplitRow* rows, Half half, Solver solver) {
    Shared& shared = start();
    const SplitRow split = rows[blockIdx.x];
    as_warp<0>([&](auto warp) { finish<decltype(warp)::value>(shared, split, half, solver); });
}

// Pack G, float32 (16 T, 16 T), for `add_gram`: FP16 shares of its largest element. Grid: one block.
template <int WARP> __device__ __forceinline__ void pack(const float* gram, uint4* packed, float largest) {
    using Mine = Share<WARP>;
    const Corner corner = ::corner<WARP>();
    const float share = largest > 0 ? 1 / largest : 0.0f;
    const float* mine = gram + (16 * corner.row + threadIdx.x % 32 / 4) * 16 * T + 16 * corner.column + threadIdx.x % 4 * 2;
    repeat<0, Mine::count>([&](auto place) {
        constexpr int n = decltype(place)::value;
        unsigned pairs[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {  // rows g and g + 8 of the left half, then of the right
            const float* at = mine + (16 * Mine::row(n) + k % 2 * 8) * 16 * T + 16 * Mine::column(n) + k / 2 * 8;
            pairs[k] = pair_of(at[0] * share, at[1] * share);
        }
        packed[(threadIdx.x / 32 * PER_WARP + n) * 32 + threadIdx.x % 32] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS) pack_gram(const float* gram, uint4* packed, float* unit) {
    __shared__ float found[WARPS];
    float largest = 0;  // it stands on the diagonal
    for (int e = threadIdx.x; e < 16 * T; e += THREADS) largest = fmaxf(largest, gram[e * (16 * T + 1)]);
    largest = __int_as_float(__reduce_max_sync(~0u, __float_as_int(largest)));
    if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int warp = 0; warp < WARPS; ++warp) largest = fmaxf(largest, found[warp]);
    if (threadIdx.x == 0) *unit = largest;
    as_warp<0>([&](auto warp) { pack<decltype(warp)::value>(gram, packed, largest); });
}

// What the launcher must know: threads of a block, blocks that fit a multiprocessor, bytes of shared memory, bytes of a
// partial sum, the edge of the Gram matrix, bytes of
// the packed one.
extern "C" __constant__ int geometry[6] = {THREADS, BLOCKS_PER_SM, (int)sizeof(Shared), PART_VECTORS * 16, 16 * T, WARPS * PER_WARP * 512};
