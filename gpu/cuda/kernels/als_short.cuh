// als.cu, part 8: rows of up to SHORT ratings, explicit problems: A p = Zᵀ (Z p) + ρ p without forming A.
//
// A warp owns a row; Z, up to SHORT staged rows of the table, is the operand of both products. Products with Z give a
// number per rating, products with Zᵀ a number per unknown. Only vectors are rounded to FP16, in two parts. A lane owns
// the ratings lane, lane + 32, …
//
// The more factors, the more a formed A costs, so wide tables have longer short rows. There few warps fit on a
// multiprocessor, so that products need several sums at a time: each `mma` would wait for the one before.

constexpr int SHORT = NARROW ? 32 : 64, SHORT_WARPS = NARROW ? 4 : 2;  // SHORT as in gpu/als/device_plan.py
constexpr int RATINGS = SHORT / 32;                                   // of a lane
constexpr int AT_ONCE = NARROW ? 1 : 4;                               // sums of a product
constexpr int SHORT_BYTES = 32 * CT + 16;                             // bytes of a staged row, an odd multiple of 16

struct ShortRow {  // shared memory of a warp
    alignas(16) unsigned char tile[SHORT][SHORT_BYTES];
    alignas(16) unsigned vector[2][4][WORDS];         // in the layout of `stage_vector`
    alignas(16) unsigned numbers[2][4][4 * RATINGS];  // the same for numbers of ratings
    alignas(16) float sums[64 * PAIRS];
    float each[SHORT];
};
typedef float Each[RATINGS];  // a number for each rating of a lane

__device__ __forceinline__ uint2 operand_of(const unsigned* words, int tile) {  // zeros beyond the first two columns
    return threadIdx.x % 32 < 8 ? ((const uint2*)words)[tile] : make_uint2(0, 0);
}

// The number of a rating, whose lane holds it.
template <class Number> __device__ __forceinline__ Number number_of(const Number (&of)[RATINGS], int rating) {
    Number number = __shfl_sync(~0u, of[0], rating % 32);
#pragma unroll
    for (int n = 1; n < RATINGS; ++n) {
        const Number other = __shfl_sync(~0u, of[n], rating % 32);
        if (rating / 32 == n) number = other;
    }
    return number;
}

// Stage the row's Z; `y` becomes each rating less μ and the other side's bias. Ratings beyond `length` are zeros.
__device__ __forceinline__ void stage_row(Each& y, ShortRow& row, const Item& item, const Half& half, const Solver& solver) {
    const int lane = threadIdx.x % 32, n_pieces = (item.length + 15) / 16 * 16 * CHUNKS;
    int column[RATINGS];
#pragma unroll
    for (int n = 0; n < RATINGS; ++n) {
        const bool is_there = lane + 32 * n < item.length;
        column[n] = is_there ? half.columns[item.begin + lane + 32 * n] : 0;
        y[n] = is_there ? half.values[item.begin + lane + 32 * n] - solver.mean : 0.0f;
    }
    for (int first = 0; first < n_pieces; first += 32) {
        const int rating = (first + lane) / CHUNKS, chunk = (first + lane) % CHUNKS;
        const long long from = number_of(column, rating);
        if (first + lane < n_pieces)
            copy16(address(row.tile[rating]) + chunk * 16, half.fixed + from * LD + chunk * 8, rating < item.length);
    }
    commit();
    wait_but<0>();
    __syncwarp();
#pragma unroll
    for (int n = 0; n < RATINGS; ++n) {
        const unsigned short* mine = (const unsigned short*)row.tile[lane + 32 * n];
        if (BIASES && lane + 32 * n < item.length) y[n] = y[n] - float_of(mine[F + 1]) - float_of(mine[F + 2]);
    }
}

// product = Zᵀ t.
__device__ __forceinline__ void multiply_transposed(Vector& product, ShortRow& row, const Each& t, int n_steps) {
    const int lane = threadIdx.x % 32;
    const float low = number_of(t, lane * 2 % SHORT), high = number_of(t, lane * 2 % SHORT + 1);
    const unsigned pair = pair_of(low, high);
    if (lane < SHORT / 2) {
        row.numbers[0][lane % 4][lane / 4] = pair;
        row.numbers[1][lane % 4][lane / 4] = pair_of(low - float_of(pair & 0xffff), high - float_of(pair >> 16));
    }
    __syncwarp();
    const unsigned from = address(row.tile) + (lane % 8 + lane / 16 * 8) * SHORT_BYTES + lane / 8 % 2 * 16;
#pragma unroll
    for (int i = 0; i < DT; i += AT_ONCE) {
        float result[AT_ONCE][4] = {};
        for (int step = 0; step < n_steps; ++step) {
            const uint2 numbers = operand_of(row.numbers[lane / 4 % 2][lane % 4], step);
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) {
                if (i + k >= DT) continue;
                unsigned tile[4];
                load_tile(tile, from + step * 16 * SHORT_BYTES + (i + k) * 32);
                multiply(result[k], tile, numbers.x, numbers.y);
            }
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k)
            if (i + k < DT) put(row.sums + 16 * (i + k), result[k]);
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) product[n] = entry(n) < D ? row.sums[entry(n)] : 0.0f;
}

// t = Z v times `scale`, where v times `scale` fits FP16.
__device__ __forceinline__ void multiply_rows(Each& t, ShortRow& row, const Vector& v, float scale, int n_steps) {
    const int lane = threadIdx.x % 32;
    stage_vector(row.vector, v, scale);
    const unsigned from = address(row.tile) + (lane % 8 + lane / 8 % 2 * 8) * SHORT_BYTES + lane / 16 * 16;
    for (int step = 0; step < n_steps; ++step) {
        float result[AT_ONCE][4] = {};
#pragma unroll
        for (int j = 0; j < DT; ++j) {
            unsigned tile[4];
            load_tile_of_rows(tile, from + step * 16 * SHORT_BYTES + j * 32);
            const uint2 part = operand_of(row.vector[lane / 4 % 2][lane % 4], j);
            multiply(result[j % AT_ONCE], tile, part.x, part.y);
        }
#pragma unroll
        for (int k = 1; k < AT_ONCE; ++k)
#pragma unroll
            for (int e = 0; e < 4; ++e) result[0][e] += result[k][e];
        put(row.each + 16 * step, result[0]);
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < RATINGS; ++n) t[n] = lane + 32 * n < 16 * n_steps ? row.each[lane + 32 * n] : 0.0f;
}

__device__ __forceinline__ void solve_short(ShortRow& row, const Item& item, const Half& half, const Solver& solver) {
    Vector x, r, known;
    read(x, known, half, item.row);
    Each y;
    stage_row(y, row, item, half, solver);
    float largest = 0;
#pragma unroll
    for (int n = 0; n < RATINGS; ++n) largest = fmaxf(largest, fabsf(y[n]));
    largest = __int_as_float(__reduce_max_sync(~0u, __float_as_int(largest)));
    const float scale = largest > TINY ? largest : 1.0f;
#pragma unroll
    for (int n = 0; n < RATINGS; ++n) y[n] /= scale;
    const int n_steps = (item.length + 15) / 16;
    multiply_transposed(r, row, y, n_steps);
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) r[n] *= scale;
    const float ridge = solver.regularization * __powf(item.total + solver.offset, solver.exponent) + solver.prior;
    start_step(x, known, ridge, 1);
    descend(x, r, known, solver, [&](Vector& product, const Vector& v, float norm) {
        const float back = inverse(norm);
        Each t;
        multiply_rows(t, row, v, norm, n_steps);
        multiply_transposed(product, row, t, n_steps);
#pragma unroll
        for (int n = 0; n < VECTOR; ++n) product[n] = product[n] * back + ridge * v[n];
    });
    write(x, half, item.row, true, true);
    __syncwarp();  // the next row is staged in place of this one
}
