// als.cu, part 8: rows of up to SHORT ratings, explicit problems: A p = Zᵀ (Z p) + ρ p without forming A.
//
// A warp owns a row; Z, up to 32 staged rows of the table, is the operand of both products. Products with Z give a
// number per rating, products with Zᵀ a number per unknown. Only vectors are rounded to FP16, in two parts.

constexpr int SHORT = 32, SHORT_WARPS = 4;  // SHORT as in gpu/device/als_forms/plan.py
constexpr int SHORT_BYTES = 32 * CT + 16;   // bytes of a staged row, an odd multiple of 16

struct ShortRow {  // shared memory of a warp
    alignas(16) unsigned char tile[SHORT][SHORT_BYTES];
    alignas(16) unsigned vector[2][4][WORDS];  // in the layout of `stage_vector`
    alignas(16) unsigned numbers[2][4][4];     // the same for numbers of ratings
    alignas(16) float sums[64 * PAIRS];
    float each[SHORT];
};

__device__ __forceinline__ uint2 operand_of(const unsigned* words, int tile) {  // zeros beyond the first two columns
    return threadIdx.x % 32 < 8 ? ((const uint2*)words)[tile] : make_uint2(0, 0);
}

// Stage the row's Z and return this lane's rating less μ and the other side's bias. Ratings beyond `length` are zeros.
__device__ __forceinline__ float stage_row(ShortRow& row, const Item& item, const Half& half, const Solver& solver) {
    const int lane = threadIdx.x % 32, n_pieces = (item.length + 15) / 16 * 16 * CHUNKS;
    const bool is_there = lane < item.length;
    const int column = is_there ? half.columns[item.begin + lane] : 0;
    const float value = is_there ? half.values[item.begin + lane] - solver.mean : 0.0f;
    for (int first = 0; first < n_pieces; first += 32) {
        const int rating = (first + lane) / CHUNKS, chunk = (first + lane) % CHUNKS;
        const long long from = __shfl_sync(~0u, column, rating % 32);
        if (first + lane < n_pieces)
            copy16(address(row.tile[rating]) + chunk * 16, half.fixed + from * LD + chunk * 8, rating < item.length);
    }
    commit();
    wait_but<0>();
    __syncwarp();
    const unsigned short* mine = (const unsigned short*)row.tile[lane];
    return BIASES && is_there ? value - float_of(mine[F + 1]) - float_of(mine[F + 2]) : value;
}

// product = Zᵀ t, with t this lane's number.
__device__ __forceinline__ void multiply_transposed(Vector& product, ShortRow& row, float t, int n_steps) {
    const int lane = threadIdx.x % 32;
    const float low = __shfl_sync(~0u, t, lane * 2 % 32), high = __shfl_sync(~0u, t, lane * 2 % 32 + 1);
    const unsigned pair = pair_of(low, high);
    if (lane < 16) {
        row.numbers[0][lane % 4][lane / 4] = pair;
        row.numbers[1][lane % 4][lane / 4] = pair_of(low - float_of(pair & 0xffff), high - float_of(pair >> 16));
    }
    __syncwarp();
    const unsigned from = address(row.tile) + (lane % 8 + lane / 16 * 8) * SHORT_BYTES + lane / 8 % 2 * 16;
#pragma unroll
    for (int i = 0; i < DT; ++i) {
        float result[4] = {0, 0, 0, 0};
        for (int step = 0; step < n_steps; ++step) {
            unsigned tile[4];
            load_tile(tile, from + step * 16 * SHORT_BYTES + i * 32);
            const uint2 numbers = operand_of(row.numbers[lane / 4 % 2][lane % 4], step);
            multiply(result, tile, numbers.x, numbers.y);
        }
        put(row.sums + 16 * i, result);
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) product[n] = entry(n) < D ? row.sums[entry(n)] : 0.0f;
}

// This lane's number of Z v, where v times `scale` fits FP16; the result is times `scale`.
__device__ __forceinline__ float multiply_rows(ShortRow& row, const Vector& v, float scale, int n_steps) {
    const int lane = threadIdx.x % 32;
    stage_vector(row.vector, v, scale);
    const unsigned from = address(row.tile) + (lane % 8 + lane / 8 % 2 * 8) * SHORT_BYTES + lane / 16 * 16;
    for (int step = 0; step < n_steps; ++step) {
        float result[4] = {0, 0, 0, 0};
#pragma unroll
        for (int j = 0; j < DT; ++j) {
            unsigned tile[4];
            load_tile_of_rows(tile, from + step * 16 * SHORT_BYTES + j * 32);
            const uint2 part = operand_of(row.vector[lane / 4 % 2][lane % 4], j);
            multiply(result, tile, part.x, part.y);
        }
        put(row.each + 16 * step, result);
    }
    __syncwarp();
    return lane < 16 * n_steps ? row.each[lane] : 0.0f;
}

__device__ __forceinline__ void solve_short(ShortRow& row, const Item& item, const Half& half, const Solver& solver) {
    Vector x, r, known;
    read(x, known, half, item.row);
    const float y = stage_row(row, item, half, solver);
    const float largest = __int_as_float(__reduce_max_sync(~0u, __float_as_int(fabsf(y))));
    const float scale = largest > TINY ? largest : 1.0f;
    const int n_steps = (item.length + 15) / 16;
    multiply_transposed(r, row, y / scale, n_steps);
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) r[n] *= scale;
    const float ridge = solver.regularization * __powf(item.total + solver.offset, solver.exponent) + solver.prior;
    start_step(x, known, ridge, 1);
    descend(x, r, known, solver, [&](Vector& product, const Vector& v, float norm) {
        const float back = inverse(norm);
        multiply_transposed(product, row, multiply_rows(row, v, norm, n_steps), n_steps);
#pragma unroll
        for (int n = 0; n < VECTOR; ++n) product[n] = product[n] * back + ridge * v[n];
    });
    write(x, half, item.row, true, true);
    __syncwarp();  // the next row is staged in place of this one
}
