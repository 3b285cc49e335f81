// ALS half-iteration of explicit problems with 145 to 256 factors on tensor cores that multiply for four warps at once.
//
//   (A + ρ I) x = b,  A = Σ z zᵀ,  b = Σ y z   over the ratings of one row; z = a row of the FP16 table, [v; 1] with biases
//
// Computes the same as als.cu, if A does not fit the registers of a few warps: A, padded to 256 x 256,
// never leaves the registers of one block. Compiled for one problem: F factors, BIASES as 0 or 1.
//
// Who owns what. A block takes one work item (a row, or a part of a long one) at a time, one block a multiprocessor. A's lower
// triangle is ten blocks of 64 x 64, row by row: 1, 2, 3 and 4 of them. Two groups of four warps own five each, rows 3 and
// 0, rows 2 and 1, as accumulators of `wgmma`, which reads both operands from shared memory: a product of 64 columns with up to
// 256 reads four times less than tiles of 16. Right-hand sides y, and with biases 1 and b̂, are columns after the
// factors, which `mma` multiplies while `wgmma` runs. The solver rounds A to FP16 fragments in place of the accumulators; a thread owns one
// element of each of its vectors. The bias's row and column of A are vectors too (Σ z), its unknown is held by all threads.
//
// Shared memory: STAGES stages of STAGE ratings in the layout that `wgmma` takes (als_wgmma.cuh), filled 16 bytes a
// lane by `cp.async`, a row of the table a warp; rings of column numbers, ratings and work items that are fetched
// ahead; parts of products. The pipeline continues across items: the next row's ratings load while this row is solved.
//
// Limits: compute capability 9.0 (sm_90a); F up to 256, with biases a multiple of 8; |x| of the fixed side below 65,504.
// Races: none. A stage is filled only after the barrier that follows the products that read it; rows and slots have one
// writer, and every sum has a fixed order, so equal inputs give equal bits.
//
// Its parts are concatenated before it in this order: als_records, als_wide_sizes, als_mma, als_queue, als_wgmma,
// als_wide_staging, als_wide_solver.

constexpr int PARTIAL = 2 * HELD + 3;  // float4 of a thread in the sums of a part of a row

// Each float4 of a thread, in one order for both directions; `visit(float4-sized piece)`.
template <class Visit> __device__ __forceinline__ void for_each_piece(Sums& sums, Visit visit) {
#pragma unroll
    for (int n = 0; n < 2 * HELD; ++n) visit(n, sums.a + 4 * n);
    visit(2 * HELD, sums.top), visit(2 * HELD + 1, sums.low);
}

__device__ __forceinline__ float4* partial_of(const Half& half, int slot) {
    return half.partials + (long long)slot * PARTIAL * SOLVERS + threadIdx.x;
}

__device__ __forceinline__ void store_partial(Sums& sums, const Half& half, int slot) {
    float4* const to = partial_of(half, slot);
    for_each_piece(sums, [&](int n, float* e) { to[n * SOLVERS] = make_float4(e[0], e[1], e[2], e[3]); });
    if (BIASES) to[(PARTIAL - 1) * SOLVERS] = make_float4(sums.y, sums.offset, 0, 0);
}

__device__ __forceinline__ void add_partial(Sums& sums, const Half& half, int slot) {
    const float4* const from = partial_of(half, slot);
    for_each_piece(sums, [&](int n, float* e) {
        const float4 more = __ldcg(from + n * SOLVERS);
        e[0] += more.x, e[1] += more.y, e[2] += more.z, e[3] += more.w;
    });
    if (!BIASES) return;
    const float4 more = __ldcg(from + (PARTIAL - 1) * SOLVERS);
    sums.y += more.x, sums.offset += more.y;
}

__device__ __forceinline__ void clear(Sums& sums) {
    for_each_piece(sums, [&](int, float* e) { e[0] = e[1] = e[2] = e[3] = 0; });
    sums.y = sums.offset = 0;
}

// This thread's x, fetched early to hide its latency.
__device__ __forceinline__ float x_of(const Half& half, long long row) {
    return threadIdx.x < F ? half.solved[row * D + threadIdx.x] : 0.0f;
}

// Solve a row whose sums are complete, from `x` on.
template <int GROUP> __device__ __forceinline__ void solve(
    Sums& sums, Shared& shared, const Solver& solver, const Half& half, float x, long long row, int total, float weight
) {
    const int entry = threadIdx.x;
    float bias = BIASES ? half.solved[row * D + D - 1] : 0.0f;
    put_sides<GROUP>(sums, shared);
    const float mine = largest_of<GROUP>(sums), length = total_of(x * x);
    if (entry % 32 == 0) shared.largest[entry / 32] = mine, shared.lengths[entry / 32] = length;
    if (BIASES) {
        const float2 sides = totals_of(sums.y, sums.offset);
        if (entry % 32 == 0) shared.totals[entry / 32] = make_float4(sides.x, sides.y, 0, 0);
    }
    meet_solvers();  // sides, lengths and largest elements are complete
    float largest = 0, of_x = bias * bias;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) largest = fmaxf(largest, shared.largest[warp]), of_x += shared.lengths[warp];
    const float scale = largest > 0.01f && largest < 30000 ? 1.0f : largest > TINY ? inverse(largest) : 1.0f;  // keeps A within FP16
    const float ridge = (solver.regularization * __powf(total + solver.offset, solver.exponent) + solver.prior) * scale;

    float r = shared.sides[0][entry] * weight * scale, column = 0;  // b; A's column of the bias
    float rest = 0, corner = 0;                                      // the bias's elements of them
    if constexpr (BIASES) {
        r -= (shared.sides[2][entry] + shared.sides[3][entry]) * scale;
        column = shared.sides[1][entry] * scale, corner = total * scale + ridge;
        const float4 found = all_totals(shared);
        rest = (found.x * weight - found.y) * scale;
    }
    Matrix matrix;
    convert<GROUP>(matrix, sums, scale);

    // Conjugate gradients with one reduction a step (Chronopoulos and Gear, 1989), from the present x. The first step
    // only takes A x from b. Vectors are scaled for FP16 by their last known length, with a reserve for growth.
    float4 dots;
    const float w = apply<GROUP>(matrix, shared, x, of_x > TINY ? inverse_root(of_x) : 1.0f, r * r, column * x, dots);
    const float of_b = dots.x + rest * rest, goal = fmaxf(solver.tolerance * solver.tolerance * of_b, TINY);
    r -= w + ridge * x + column * bias, rest -= dots.y + corner * bias;
    float p = 0, s = 0, bias_p = 0, bias_s = 0, per_alpha = 1, per_gamma = 1;
    float unit = of_b > TINY ? 8 * inverse_root(of_b) : 1.0f;
#pragma unroll 1
    for (int step = 0; step < solver.n_steps; ++step) {
        const float product = apply<GROUP>(matrix, shared, r, unit, r * r, column * r, dots);
        const float gamma = dots.x + rest * rest, bias_w = dots.y + corner * rest;
        if (!(gamma < LARGEST)) x = bias = __int_as_float(0x7fffffff);  // an overflow must not pass for a solution
        if (!(gamma > goal && gamma < LARGEST)) break;
        const float beta = step ? gamma * per_gamma : 0.0f;
        const float curvature = (dots.z + ridge * dots.x) + rest * (dots.y + bias_w) - beta * gamma * per_alpha;
        if (!(curvature > TINY)) break;
        const float alpha = gamma * inverse(curvature), of_w = product + ridge * r + column * rest;
        p = r + beta * p, s = of_w + beta * s, x += alpha * p, r -= alpha * s;
        if constexpr (BIASES) bias_p = rest + beta * bias_p, bias_s = bias_w + beta * bias_s, bias += alpha * bias_p, rest -= alpha * bias_s;
        per_alpha = inverse(alpha), per_gamma = inverse(gamma), unit = 8 * inverse_root(gamma);
    }
    if (entry < F) half.solved[row * D + entry] = x, put_half(half, row * LD + entry, half_of(x));
    if (BIASES && entry == 0) {
        const unsigned short high = half_of(bias);
        const long long at = row * LD + F;
        half.solved[row * D + D - 1] = bias;
        put_half(half, at, half_of(1.0f)), put_half(half, at + 1, high), put_half(half, at + 2, half_of(bias - float_of(high)));
    }
}

// Begin to add 16 ratings to a group's sums, or, `IS_FIRST`, to store them as the sums.
template <int GROUP, bool IS_FIRST> __device__ __forceinline__ void add_ratings(Sums& sums, Operand planes) {
    using Mine = Share<GROUP>;
    begin_products();
    product<64 * (Mine::top + 1), IS_FIRST>(sums.a, planes + Mine::top * (PLANE_BYTES >> 4), planes);
    product<64 * (Mine::low + 1), IS_FIRST>(sums.a + 8 * Mine::top_tiles, planes + Mine::low * (PLANE_BYTES >> 4), planes);
    commit_products();
}

// Begin to add one stage to a group's sums; `IS_FIRST`: of the row.
template <int GROUP, bool IS_FIRST> __device__ __forceinline__ void accumulate(Sums& sums, Shared& shared, int slot, int count) {
    const Operand planes = planes_at(address(shared.tiles[slot]));
    if (IS_FIRST) add_ratings<GROUP, true>(sums, planes);
#pragma unroll 1
    for (int step = IS_FIRST; step * 16 < count; ++step) add_ratings<GROUP, false>(sums, planes + step * (2048 >> 4));
}

// Two neighboring ratings of a column after the factors, for `multiply`; zeros beyond the last column.
__device__ __forceinline__ unsigned side_of(const Shared& shared, int slot, int column, int rating) {
    if (column < 2) return *(const unsigned*)(shared.right[slot][column] + rating);
    if (!BIASES || column > 4) return 0;
    const unsigned short* const first = shared.beside[slot][BIASES ? rating : 0] + column - 2;
    return first[0] | (unsigned)first[8] << 16;
}

// Add the products with the columns after the factors: a `wgmma` of so few columns would cost as much as one of many.
template <int GROUP> __device__ __forceinline__ void multiply_sides(Sums& sums, const Shared& shared, int slot, int count) {
    using Mine = Share<GROUP>;
    const int lane = threadIdx.x % 32, rating = lane % 8 + lane / 16 * 8, piece = threadIdx.x / 32 % 4 * 2 + lane / 8 % 2;
    const unsigned from = address(shared.tiles[slot]) + rating * 128 + (piece ^ lane % 8) * 16;
#pragma unroll 1
    for (int step = 0; step * 16 < count; ++step) {
        const unsigned low = side_of(shared, slot, lane / 4, 16 * step + lane % 4 * 2);
        const unsigned high = side_of(shared, slot, lane / 4, 16 * step + lane % 4 * 2 + 8);
        unsigned tile[2][4];
        load_tile(tile[0], from + Mine::top * PLANE_BYTES + step * 2048);
        load_tile(tile[1], from + Mine::low * PLANE_BYTES + step * 2048);
        multiply(sums.top, tile[0], low, high), multiply(sums.low, tile[1], low, high);
    }
}

// Add the right-hand sides of a stage to the bias's own, without a branch: products follow.
__device__ __forceinline__ void add_sides(Sums& sums, const Shared& shared, int slot, int count) {
    if constexpr (BIASES) {
        const int rating = threadIdx.x % STAGE;
        float mine = float_of(shared.right[slot][0][rating]) + float_of(shared.right[slot][1][rating]);
        float its = float_of(shared.beside[slot][rating][1]) + float_of(shared.beside[slot][rating][2]);
        asm volatile("" : "+f"(mine), "+f"(its));  // the compiler would branch around the loads
        sums.y += (int)threadIdx.x < count ? mine : 0.0f, sums.offset += (int)threadIdx.x < count ? its : 0.0f;
    }
}

// Wait for the block's next stage; its note.
__device__ __forceinline__ Note next_stage(Shared& shared, unsigned number) {
    wait(shared.full[number % STAGES], number / STAGES);
    publish();
    return shared.notes[number % STAGES];
}

// Add a stage; `IS_FIRST`: of a row.
template <int GROUP, bool IS_FIRST> __device__ __forceinline__ void take(Sums& sums, Shared& shared, Note note, unsigned number) {
    const int slot = number % STAGES, count = note.count & (LAST - 1);
    if (IS_FIRST) {
        sums.y = sums.offset = 0;
#pragma unroll
        for (int n = 0; n < 4; ++n) sums.top[n] = sums.low[n] = 0;
    }
    add_sides(sums, shared, slot, count);
    accumulate<GROUP, IS_FIRST>(sums, shared, slot, count);
    multiply_sides<GROUP>(sums, shared, slot, count);  // runs during the products
    wait_products<0>();
    settle(sums.a);
    if (threadIdx.x % 32 == 0) arrive(shared.empty[slot]);
}

template <int GROUP> __device__ __forceinline__ void run(Shared& shared, const Half& half, const Solver& solver) {
    unsigned number = 0;
    for (;;) {
        Note note = next_stage(shared, number);
        if (note.count & END) return;
        const Item& item = shared.items[note.turn % ITEMS];
        const float x = item.slot >= 0 ? 0.0f : x_of(half, item.row);  // mode reduce has no solved rows here
        Sums sums;
        take<GROUP, true>(sums, shared, note, number++);
        while (!(note.count & LAST)) {
            note = next_stage(shared, number);
            take<GROUP, false>(sums, shared, note, number++);
        }
        if (item.slot >= 0) store_partial(sums, half, item.slot);
        else solve<GROUP>(sums, shared, solver, half, x, item.row, item.total, item.weight);
    }
}

template <int GROUP> __device__ __forceinline__ void finish(Shared& shared, const SplitRow& split, const Half& half, const Solver& solver) {
    Sums sums;
    clear(sums);
    for (int n = 0; n < split.n_slots; ++n) add_partial(sums, half, split.first_slot + n);
    solve<GROUP>(sums, shared, solver, half, x_of(half, split.row), split.row, split.total, split.weight);
}

extern __shared__ __align__(1024) unsigned char memory[];

__device__ __forceinline__ Shared& start() {
    for (int at = 16 * threadIdx.x; at < (int)sizeof(Shared); at += 16 * blockDim.x) *(uint4*)(memory + at) = make_uint4(0, 0, 0, 0);
    __syncthreads();
    Shared& shared = *(Shared*)memory;
    if (threadIdx.x < STAGES) {
        expect(shared.full[threadIdx.x], 2 * FEEDERS);  // each thread, and again when its copies have arrived
        expect(shared.empty[threadIdx.x], WARPS);
    }
    __syncthreads();
    return shared;
}

// Solve all whole rows among the items and sum the parts of the others. Grid: as many blocks as fit on the device at
// once.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
solve_rows(const Item* items, unsigned n_items, unsigned n_parts, Half half, Solver solver) {
    Shared& shared = start();
    if (threadIdx.x < SOLVERS / 2) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
        run<0>(shared, half, solver);
    } else if (threadIdx.x < SOLVERS) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
        run<1>(shared, half, solver);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
        feed(shared, Work(items, n_items, n_parts), half, solver);
    }
}

// Solve the rows that were summed in parts. Grid: one block of solvers a row.
extern "C" __global__ void __launch_bounds__(SOLVERS, 1) solve_split_rows(const SplitRow* rows, Half half, Solver solver) {
    Shared& shared = start();
    const SplitRow split = rows[blockIdx.x];
    if (threadIdx.x < SOLVERS / 2) finish<0>(shared, split, half, solver);
    else finish<1>(shared, split, half, solver);
}

// For the launcher: threads of a block, of one of solvers alone, bytes of shared memory, bytes of the sums of a part of
// a row.
extern "C" __constant__ int geometry[4] = {THREADS, SOLVERS, (int)sizeof(Shared), PARTIAL * SOLVERS * 16};
