// als_wide.cu, part 7: A in registers, and conjugate gradients on it. A thread owns one unknown; all threads hold the
// bias.

constexpr float TINY = 1e-30f, LARGEST = 3e38f;  // squares below are zeros, above overflows

// A group of four warps holds the rows of blocks TOP and LOW of A's lower triangle, up to the diagonal, as `wgmma` leaves
// them: of each 64 rows a warp has 16, as tiles of 16 x 16, eight floats a lane: columns 0–7 first, then 8–15.
template <int GROUP> struct Share {
    static constexpr int top = GROUP ? 2 : 3, low = 3 - top;
    static constexpr int top_tiles = 4 * (top + 1), low_tiles = 4 * (low + 1);
    static_assert(top_tiles + low_tiles == HELD, "every block of the triangle has one owner");
    static constexpr __host__ __device__ int column(int n) { return n < top_tiles ? n : n - top_tiles; }  // in tiles
    static constexpr __host__ __device__ bool is_top(int n) { return n < top_tiles; }
    static constexpr __host__ __device__ bool is_below(int n) { return column(n) < 4 * (is_top(n) ? top : low); }  // the diagonal
};
struct Sums {
    float a[8 * HELD];
    float top[4], low[4];          // columns after the factors: Σ y z in two parts, and with biases Σ z, Σ b̂ z in two
    float y, offset;               // in the threads of a stage's first 64 ratings: their Σ y and Σ b̂
};

__device__ __forceinline__ int part_of(int entry) { return entry + entry / 32 * 8; }  // position in a partial product
__device__ __forceinline__ void add(float4& to, float4 more) { to.x += more.x, to.y += more.y, to.z += more.z, to.w += more.w; }

// Sums of x and of y over the warp, each lane's; the halves of the warp share the work.
__device__ __forceinline__ float2 totals_of(float x, float y) {
    const bool is_upper = threadIdx.x & 16;
    float sum = (is_upper ? y : x) + __shfl_xor_sync(~0u, is_upper ? x : y, 16);
    for (int reach = 8; reach; reach /= 2) sum += __shfl_xor_sync(~0u, sum, reach);
    const float other = __shfl_xor_sync(~0u, sum, 16);
    return is_upper ? make_float2(other, sum) : make_float2(sum, other);
}

// Sum of the warps' values in `shared.totals`.
__device__ __forceinline__ float4 all_totals(const Shared& shared) {
    float4 halves[2] = {shared.totals[0], shared.totals[1]};
#pragma unroll
    for (int warp = 2; warp < WARPS; ++warp) add(halves[warp % 2], shared.totals[warp]);
    add(halves[0], halves[1]);
    return halves[0];
}

// Write the sums of the columns after the factors to `shared.sides`.
template <int GROUP> __device__ __forceinline__ void put_sides(const Sums& sums, Shared& shared) {
    const int lane = threadIdx.x % 32, t = lane % 4, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        const float (&of)[4] = n ? sums.low : sums.top;  // columns 2 t and 2 t + 1 of two rows
        float* const to = &shared.sides[0][64 * (n ? Share<GROUP>::low : Share<GROUP>::top) + row];
        if (t == 0) to[0] = of[0] + of[1], to[8] = of[2] + of[3];
        if constexpr (BIASES) {
            if (t == 1) to[WIDE] = of[0], to[WIDE + 8] = of[2], to[2 * WIDE] = of[1], to[2 * WIDE + 8] = of[3];
            if (t == 2) to[3 * WIDE] = of[0], to[3 * WIDE + 8] = of[2];
        }
    }
}

// The largest diagonal element among a warp's tiles.
template <int GROUP> __device__ __forceinline__ float largest_of(const Sums& sums) {
    const int lane = threadIdx.x % 32, group = lane / 4, warp = threadIdx.x / 32 % 4;
    const bool is_even = group == lane % 4 * 2, is_odd = group == lane % 4 * 2 + 1;
    float largest = 0;
#pragma unroll
    for (int n = 0; n < HELD; ++n) {
        if (Share<GROUP>::is_below(n) || Share<GROUP>::column(n) % 4 != warp) continue;
        const float* e = sums.a + 8 * n;
        if (is_even || is_odd) largest = fmaxf(largest, is_even ? fmaxf(e[0], e[6]) : fmaxf(e[1], e[7]));
    }
    return __int_as_float(__reduce_max_sync(~0u, __float_as_int(largest)));
}

struct Matrix { unsigned tile[HELD][4], mirrored[HELD][4]; };  // FP16 fragments of tiles; of the transposes of those below

// A as FP16 fragments; its sums are multiplied by `scale` if that is not 1.
template <int GROUP> __device__ __forceinline__ void convert(Matrix& matrix, Sums& sums, float scale) {
    if (scale != 1)
#pragma unroll
        for (int n = 0; n < 8 * HELD; ++n) sums.a[n] *= scale;
#pragma unroll
    for (int n = 0; n < HELD; ++n) {
        const float* e = sums.a + 8 * n;
        unsigned* tile = matrix.tile[n];
#pragma unroll
        for (int k = 0; k < 4; ++k) tile[k] = pair_of(e[2 * k], e[2 * k + 1]);
        if (!Share<GROUP>::is_below(n)) continue;
        unsigned* mirrored = matrix.mirrored[n];
        mirrored[0] = transposed(tile[0]), mirrored[1] = transposed(tile[2]);
        mirrored[2] = transposed(tile[1]), mirrored[3] = transposed(tile[3]);
    }
}

// Columns' parts of a product: a tile's transpose times the vector's elements of this warp's rows. Four neighboring
// tiles share one accumulator: each has the vector in two columns of its own.
template <int GROUP> __device__ __forceinline__ void multiply_columns(
    float (&columns)[Share<GROUP>::top][4], const Matrix& matrix, const unsigned* own, int warp
) {
    using Mine = Share<GROUP>;
    const uint2 down_top = *(const uint2*)(own + 2 * (4 * Mine::top + warp)), down_low = *(const uint2*)(own + 2 * (4 * Mine::low + warp));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const bool is_mine = threadIdx.x % 32 / 8 == k;
        const unsigned x = is_mine ? down_top.x : 0, y = is_mine ? down_top.y : 0;
#pragma unroll
        for (int m = 0; m < Mine::top; ++m) multiply(columns[m], matrix.mirrored[4 * m + k], x, y);
        if constexpr (Mine::low > 0) {
            const unsigned low_x = is_mine ? down_low.x : 0, low_y = is_mine ? down_low.y : 0;
#pragma unroll
            for (int m = 0; m < Mine::low; ++m) multiply(columns[m], matrix.mirrored[Mine::top_tiles + 4 * m + k], low_x, low_y);
        }
    }
}

// Rows' parts, in several accumulators: a single one would wait for its own results.
template <int GROUP> __device__ __forceinline__ void multiply_rows(
    float (&top)[4][4], float (&low)[2][4], const Matrix& matrix, const unsigned* across
) {
    using Mine = Share<GROUP>;
#pragma unroll
    for (int n = 0; n < Mine::top_tiles; n += 2) {
        const uint4 two = *(const uint4*)(across + 2 * n);
        multiply(top[n % 4], matrix.tile[n], two.x, two.y);
        multiply(top[n % 4 + 1], matrix.tile[n + 1], two.z, two.w);
        if (n < Mine::low_tiles) {
            multiply(low[0], matrix.tile[Mine::top_tiles + n], two.x, two.y);
            multiply(low[1], matrix.tile[Mine::top_tiles + n + 1], two.z, two.w);
        }
    }
}

// This thread's element of A v; `dots` becomes sums over all threads: (x, y, v · A v). v times `scale` shall fit FP16.
// The vector is the second operand, in two columns of it, high and low parts. Sums and parts of the product need only
// one barrier, because each warp multiplies its part of the product by v before it.
template <int GROUP> __device__ __forceinline__ float apply(
    const Matrix& matrix, Shared& shared, float v, float scale, float x, float y, float4& dots
) {
    using Mine = Share<GROUP>;
    const int entry = threadIdx.x, lane = entry % 32, warp = entry / 32 % 4, t = lane % 4;
    const float scaled = fminf(fmaxf(v * scale, -6e4f), 6e4f);
    const unsigned short high = half_of(scaled);
    unsigned short* const to = (unsigned short*)&shared.operands[0][entry % 8 / 2][entry / 16 * 2 + entry % 16 / 8] + entry % 2;
    to[0] = high, to[8 * WORDS] = half_of(scaled - float_of(high));
    shared.vector[part_of(entry)] = v;
    meet_solvers();  // the vector is complete, and all threads have read parts of the last product

    float columns[Mine::top][4] = {}, top[4][4] = {}, low[2][4] = {};
    multiply_columns<GROUP>(columns, matrix, shared.operands[lane / 4 % 2][t], warp);
    const float2 xy = BIASES ? totals_of(x, y) : make_float2(total_of(x), 0);
    multiply_rows<GROUP>(top, low, matrix, shared.operands[lane < 8 ? lane / 4 : 2][t]);

    float* const down = shared.parts[1 + 4 * GROUP + warp];
    float own_dot = 0;
#pragma unroll
    for (int m = 0; m < Mine::top; ++m) {
        const int first = part_of(64 * m + 16 * t + lane / 4);
        const float one = columns[m][0] + columns[m][1], other = columns[m][2] + columns[m][3];
        down[first] = one, down[first + 8] = other;
        own_dot += one * shared.vector[first] + other * shared.vector[first + 8];
    }
    const int at_top = part_of(64 * Mine::top + 16 * warp + lane / 4), at_low = part_of(64 * Mine::low + 16 * warp + lane / 4);
    float rows[4];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        rows[k] = (top[0][2 * k] + top[0][2 * k + 1] + top[1][2 * k] + top[1][2 * k + 1]) +
                  (top[2][2 * k] + top[2][2 * k + 1] + top[3][2 * k] + top[3][2 * k + 1]);
        rows[2 + k] = low[0][2 * k] + low[0][2 * k + 1] + low[1][2 * k] + low[1][2 * k + 1];
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {  // the other lanes' columns of the product are zeros
        if (t == 0) shared.parts[0][at_top + 8 * k] = rows[k], shared.parts[0][at_low + 8 * k] = rows[2 + k];
        own_dot += rows[k] * shared.vector[at_top + 8 * k] + rows[2 + k] * shared.vector[at_low + 8 * k];
    }
    own_dot = total_of(own_dot);
    if (lane == 0) shared.totals[entry / 32] = make_float4(xy.x, xy.y, own_dot, 0);
    meet_solvers();  // the product's parts are complete
    const int place = part_of(entry);
    float sum = shared.parts[0][place];
#pragma unroll
    for (int group = 0; group < 2; ++group) {
        const float (*const part)[PART] = shared.parts + 1 + 4 * group;
        if (entry < 64 * (3 - group)) sum += (part[0][place] + part[1][place]) + (part[2][place] + part[3][place]);
    }
    dots = all_totals(shared);
    const float back = inverse(scale);
    dots.z *= back;
    return sum * back;
}
