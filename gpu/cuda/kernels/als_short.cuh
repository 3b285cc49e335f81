// als.cu, part 8: rows of up to SHORT ratings, explicit problems, without forming A. With more unknowns than ratings, and
// narrow tables, Z Zᵀ is formed, of one row for each rating; else A p = Zᵀ (Z p) + ρ p.
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
constexpr bool DUAL = NARROW && !STEP && F > SHORT;  // fewer ratings than unknowns: one number for each rating is solved for

struct ShortRow {  // shared memory of a warp
    alignas(16) unsigned char tile[SHORT][SHORT_BYTES];
    alignas(16) unsigned vector[2][4][WORDS];         // in the layout of `stage_vector`
    alignas(16) unsigned numbers[2][4][4 * RATINGS];  // the same for numbers of ratings
    alignas(16) float sums[64 * PAIRS];
    alignas(16) float each[SHORT];
    float gram[DUAL ? SHORT : 1][SHORT + 1];  // Z Zᵀ, its lower tiles
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
        unsigned short* mine = (unsigned short*)row.tile[lane + 32 * n];
        if (BIASES && lane + 32 * n < item.length) {
            y[n] = y[n] - float_of(mine[F + 1]) - float_of(mine[F + 2]);
            if (DUAL) mine[F + 1] = mine[F + 2] = 0;  // no unknowns
        }
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

// Z Zᵀ; a lane gets the row of its rating.
__device__ __forceinline__ void multiply_by_itself(float (&mine)[SHORT], ShortRow& row, int n_steps) {
    const int lane = threadIdx.x % 32, n = 16 * n_steps;
    const unsigned from = address(row.tile) + (lane % 8 + lane / 8 % 2 * 8) * SHORT_BYTES + lane / 16 * 16;
    float result[3][2][4] = {};  // tiles (0, 0), (1, 0) and (1, 1), the left and the right half of each
#pragma unroll
    for (int j = 0; j < DT; ++j) {
        unsigned upper[4], lower[4];
        load_tile_of_rows(upper, from + j * 32);
        multiply(result[0][0], upper, upper[0], upper[2]), multiply(result[0][1], upper, upper[1], upper[3]);
        if (n_steps == 1) continue;
        load_tile_of_rows(lower, from + 16 * SHORT_BYTES + j * 32);
        multiply(result[1][0], lower, upper[0], upper[2]), multiply(result[1][1], lower, upper[1], upper[3]);
        multiply(result[2][0], lower, lower[0], lower[2]), multiply(result[2][1], lower, lower[1], lower[3]);
    }
#pragma unroll
    for (int e = 0; e < 24; ++e) {
        const int tile = e / 8, i = tile ? 16 : 0, j = tile == 2 ? 16 : 0;
        if (tile && n_steps == 1) break;
        row.gram[i + lane / 4 + e % 4 / 2 * 8][j + e / 4 % 2 * 8 + lane % 4 * 2 + e % 2] = result[tile][e / 4 % 2][e % 4];
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < SHORT; ++j) {
        const bool is_mirrored = j >= 16 && lane < 16;
        mine[j] = j < n && lane < n ? is_mirrored ? row.gram[j][lane] : row.gram[lane][j] : 0.0f;
    }
}

// x = Zᵀ a where (Z Zᵀ + ρ I) a = y: the solution of (Zᵀ Z + ρ I) x = Zᵀ y. A lane owns a number of a.
__device__ __forceinline__ void solve_dual(Vector& x, ShortRow& row, float y, float ridge, const Solver& solver, int n_steps) {
    const int lane = threadIdx.x % 32;
    float mine[SHORT];
    multiply_by_itself(mine, row, n_steps);
    float a = 0, r = y, p = 0, s = 0, gamma = 0, alpha = 1;
    const float goal = fmaxf(solver.tolerance * solver.tolerance * total_of(y * y), TINY);
#pragma unroll 1
    for (int step = 0; step < solver.n_steps + 2; ++step) {  // as `descend`, but from zero: two steps more come as close
        row.each[lane] = r;
        __syncwarp();
        float parts[4] = {ridge * r, 0, 0, 0};
#pragma unroll
        for (int q = 0; q < SHORT / 4; ++q) {
            if (q == 4 && n_steps == 1) break;
            const float4 four = ((const float4*)row.each)[q];
            parts[0] += mine[4 * q] * four.x, parts[1] += mine[4 * q + 1] * four.y;
            parts[2] += mine[4 * q + 2] * four.z, parts[3] += mine[4 * q + 3] * four.w;
        }
        __syncwarp();
        const float w = (parts[0] + parts[1]) + (parts[2] + parts[3]);
        const float2 next = totals_of(r * r, w * r);
        if (!(next.y < LARGEST)) {  // an overflow must not pass for a solution
            a = __int_as_float(0x7fffffff);
            break;
        }
        const float beta = step ? next.x * inverse(gamma) : 0.0f, curvature = next.y - beta * next.x * inverse(alpha);
        if (!(next.x > goal && curvature > TINY)) break;
        alpha = next.x * inverse(curvature), gamma = next.x;
        p = r + beta * p, s = w + beta * s;
        a += alpha * p, r -= alpha * s;
    }
    const float largest = __int_as_float(__reduce_max_sync(~0u, __float_as_int(fabsf(a))));
    const float unit = largest > TINY ? largest : 1.0f;
    Each t = {a / unit};
    multiply_transposed(x, row, t, n_steps);
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) x[n] *= unit;
}

__device__ __forceinline__ void solve_short(ShortRow& row, const Item& item, const Half& half, const Solver& solver) {
    Vector x;
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
    const float ridge = solver.regularization * __powf(item.total + solver.offset, solver.exponent) + solver.prior;
    if constexpr (DUAL) {
        __syncwarp();  // all lanes have read their y
        solve_dual(x, row, y[0], ridge, solver, n_steps);
#pragma unroll
        for (int n = 0; n < VECTOR; ++n) x[n] *= scale;
    } else {
        Vector r, known;
        read(x, known, half, item.row);
        multiply_transposed(r, row, y, n_steps);
#pragma unroll
        for (int n = 0; n < VECTOR; ++n) r[n] *= scale;
        start_step(x, known, ridge, 1);
        descend(x, r, known, solver, [&](Vector& product, const Vector& v, float norm) {
            const float back = inverse(norm);
            Each t;
            multiply_rows(t, row, v, norm, n_steps);
            multiply_transposed(product, row, t, n_steps);
#pragma unroll
            for (int n = 0; n < VECTOR; ++n) product[n] = product[n] * back + ridge * v[n];
        });
    }
    write(x, half, item.row, true, true);
    __syncwarp();  // the next row is staged in place of this one
}
