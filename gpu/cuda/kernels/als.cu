// ALS half-iteration on tensor cores: [000] Alg. 1 with A formed and solved in one kernel, never written to memory.
//
//   (A + ρ I) x = b,  A = Σ w z zᵀ (+ G),  b = Σ y z   over the ratings of one row; z = a row of the FP16 table.
//
// Compiled for one problem: F factors, BIASES and IMPLICIT as 0 or 1; STRIDE floats in a row of the solved table. STEP
// is 1 where F is a block of a row's factors: then the right-hand side is the gradient at the present x, y the residual
// of each rating, and the solution the step to add to x (gpu/als/device_subspace.py).
//
// Columns of a staged rating: C of the table (F factors; with biases then 1, b̂ in FP16 and the rest of b̂), zeros up to
// LD. A's rows F + 1 and F + 2 then add up to Σ b̂ z. The right-hand side y, in two FP16 parts, is
//   two more columns of the staged rating where its last tile has room, so that A's rows LD and LD + 1 are Σ y z;
//   else an operand of its own, two columns wide, for the rows of every tile on the diagonal.
//
// Who owns what. A block takes one work item (a row, or a part of a long one) at a time. Its warps share the lower
// triangle of 16 x 16 tiles of A as accumulators. NARROW (up to 144 columns): up to three warps, each with its own code for
// consecutive tiles, last row first (few distinct tiles to read). Else: squares of EDGE x EDGE tiles, one a warp, and one
// code for all: more codes exceed the instruction cache (measured: several times slower). Vectors of the solver
// are held by every warp; a lane has two neighbors of each 64.
//
// Shared memory: STAGES stages of STAGE ratings, row stride an odd multiple of 16 bytes (neither `cp.async` nor
// `ldmatrix` conflicts); rings of column numbers, ratings and work items that run ahead of them; parts of products. The
// pipeline continues across items: the next row's ratings load while this row is solved.
//
// Limits: compute capability 8.0; F up to 256; |x| of the fixed side below 65,504. Races: none; rows and slots have one
// writer, and every sum has a fixed order, so equal inputs give equal bits.
//
// Its parts are concatenated before it in this order: als_records, als_tiles, als_mma, als_work, als_staging, als_sums,
// als_solver, als_short.

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int n = 0; n < HELD; ++n)
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[n][e] = 0;
}

constexpr int PART_VECTORS = WARPS * HELD * 64;  // float4 of the sums of a part of a row

__device__ __forceinline__ float4* partial_of(const Half& half, int slot) {
    return half.partials + (long long)slot * PART_VECTORS + threadIdx.x / 32 * HELD * 64 + threadIdx.x % 32;
}

__device__ __forceinline__ void store_partial(const Sums& sums, const Half& half, int slot) {
    float4* to = partial_of(half, slot);
#pragma unroll
    for (int n = 0; n < HELD; ++n) {
        const float (&e)[8] = sums[n];
        to[64 * n] = make_float4(e[0], e[1], e[2], e[3]), to[64 * n + 32] = make_float4(e[4], e[5], e[6], e[7]);
    }
}

__device__ __forceinline__ void add(float* to, float4 more) { to[0] += more.x, to[1] += more.y, to[2] += more.z, to[3] += more.w; }

__device__ __forceinline__ void add_partial(Sums& sums, const Half& half, int slot) {
    const float4* from = partial_of(half, slot);
#pragma unroll
    for (int n = 0; n < HELD; ++n)
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
            __syncthreads();  // stage `number` is complete, and all threads have read the stage before it
            note = shared.notes[number++ % NOTES];
            if (note.count & END) return;
            gather(shared, half, solver, gathered++, slot ? slot - 1 : STAGES - 1);
            fetch_numbers(shared, work, cursor, half, fetched++);
            commit();
            accumulate<WARP>(sums, shared, corner, slot, note.count & (LAST - 1));
            slot = slot + 1 < STAGES ? slot + 1 : 0;
        } while (!(note.count & LAST));
        const Item& item = shared.items[note.turn % ITEMS];
        if (item.slot >= 0) store_partial(sums, half, item.slot);
        else solve<WARP>(sums, shared, corner, solver, half, item.row, item.total, item.weight, parity);
    }
}

template <int WARP> __device__ __forceinline__ void finish(Shared& shared, const SplitRow& split, const Half& half, const Solver& solver) {
    const Corner corner = ::corner<WARP>();
    Sums sums;
    clear(sums);
    for (int n = 0; n < split.n_slots; ++n) add_partial(sums, half, split.first_slot + n);
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

// Solve all whole rows among the items and sum the parts of the others. Grid: as many blocks as fit on the device at
// once.
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

// Solve items of up to SHORT ratings, whole rows of explicit problems. Grid: as many blocks as fit on the device at
// once.
extern "C" __global__ void __launch_bounds__(32 * SHORT_WARPS)
solve_short_rows(const Item* items, unsigned n_items, Half half, Solver solver) {
    const int warp = threadIdx.x / 32;
    for (int at = threadIdx.x * 16; at < SHORT_WARPS * (int)sizeof(ShortRow); at += 512 * SHORT_WARPS)
        *(uint4*)(memory + at) = make_uint4(0, 0, 0, 0);
    __syncthreads();
    ShortRow& row = ((ShortRow*)memory)[warp];
    for (unsigned n = blockIdx.x * SHORT_WARPS + warp; n < n_items; n += gridDim.x * SHORT_WARPS)
        solve_short(row, items[n], half, solver);
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
    float largest = 0;  // it is on the diagonal
    for (int e = threadIdx.x; e < 16 * T; e += THREADS) largest = fmaxf(largest, gram[e * (16 * T + 1)]);
    largest = __int_as_float(__reduce_max_sync(~0u, __float_as_int(largest)));
    if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int warp = 0; warp < WARPS; ++warp) largest = fmaxf(largest, found[warp]);
    if (threadIdx.x == 0) *unit = largest;
    as_warp<0>([&](auto warp) { pack<decltype(warp)::value>(gram, packed, largest); });
}

// For the launcher: threads of a block, bytes of its shared memory, bytes of the sums of a part of a row, edge of
// the Gram matrix with its padding, bytes of its packed form, threads and bytes of a block that solves short rows.
extern "C" __constant__ int geometry[7] = {
    THREADS, (int)sizeof(Shared), PART_VECTORS * 16, 16 * T, WARPS * PER_WARP * 512, 32 * SHORT_WARPS, SHORT_WARPS * (int)sizeof(ShortRow)
};
