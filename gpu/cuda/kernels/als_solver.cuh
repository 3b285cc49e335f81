// als.cu, part 7: conjugate gradients on A in registers.

constexpr float TINY = 1e-30f, LARGEST = 3e38f;  // squares below are zeros, above overflows
typedef float Vector[VECTOR];
__device__ __forceinline__ int entry(int n) { return threadIdx.x % 32 * 2 + n % 2 + n / 2 * 64; }  // a lane's n-th entry
struct Matrix { unsigned tile[PER_WARP][4], mirrored[PER_WARP][4]; };  // FP16 fragments of a warp's tiles and of their transposes

// A as FP16 fragments; elements that belong to no unknown become 0.
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

// Write v times `scale`, split into two FP16 numbers, in the layout of a warp's `mma`: high parts, then low parts.
__device__ __forceinline__ void stage_vector(unsigned (*operands)[4][WORDS], const Vector& v, float scale) {
    const int lane = threadIdx.x % 32;
    unsigned* to = &operands[0][lane % 4][lane / 4];
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
    stage_vector(&shared.operands[threadIdx.x / 32 * 2], v, scale);
    const uint2* operands = (const uint2*)shared.operands[lane < 8 ? threadIdx.x / 32 * 2 + lane / 4 : 2 * WARPS][lane % 4];
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
            if (!NARROW && corner.on_diagonal()) add_to(row_part + 16 * i, rows[i]);  // the same destination
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

// Conjugate gradients with one reduction a step (Chronopoulos and Gear, 1989), from the present x; r is b at first.
// `apply(product, v, scale)` gives (A + ρ I) v, where v times `scale` fits FP16. STEP: x starts as a vector
// of zeros, and `known`, the part of b that the row's present x explains, is subtracted from b.
template <class Apply>
__device__ __forceinline__ void descend(Vector& x, Vector& r, const Vector& known, const Solver& solver, Apply apply) {
    Vector p, s, w;
    const float2 norms = totals_of(dot(r, r), dot(x, x));
    const float goal = fmaxf(solver.tolerance * solver.tolerance * norms.x, TINY);
    if constexpr (!STEP) apply(w, x, norms.y > TINY ? inverse_root(norms.y) : 1.0f);
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) r[n] -= STEP ? known[n] : w[n], p[n] = s[n] = 0;
    float gamma = total_of(dot(r, r)), alpha = 1, beta = 0;
    if (!(gamma < LARGEST)) {  // an overflow must not pass for a solution
#pragma unroll
        for (int n = 0; n < VECTOR; ++n) x[n] = __int_as_float(0x7fffffff);
    }
    if (!(gamma > goal)) return;
#pragma unroll 1
    for (int step = 0; step < solver.n_steps; ++step) {
        apply(w, r, inverse_root(gamma));
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

// The row's x and, for STEP and implicit problems, VᵀV x of the block.
__device__ __forceinline__ void read(Vector& x, Vector& known, const Half& half, long long row) {
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) {
        const bool is_there = entry(n) < D;
        x[n] = is_there ? half.solved[row * STRIDE + entry(n)] : 0.0f;
        known[n] = STEP && IMPLICIT && is_there ? half.product[row * F + entry(n)] : 0.0f;
    }
}

// STEP: start with a step of zero; `known` becomes the part of b that x explains without the ratings, in A's scale.
__device__ __forceinline__ void start_step(Vector& x, Vector& known, float ridge, float scale) {
    if constexpr (STEP) {
#pragma unroll
        for (int n = 0; n < VECTOR; ++n) known[n] = known[n] * scale + ridge * x[n], x[n] = 0;
    }
}

// Write x to the solved table in float32 and in float16; STEP: one warp adds it to the present x and stores the step.
__device__ __forceinline__ void write(const Vector& x, const Half& half, long long row, bool as_floats, bool as_halves) {
#pragma unroll
    for (int n = 0; n < VECTOR; n += 2) {
        const int e = entry(n);  // even; the lane has the next entry, too
        float whole[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const bool is_there = e + k < D;
            whole[k] = STEP && is_there ? half.solved[row * STRIDE + e + k] + x[n + k] : x[n + k];
            if (is_there && as_floats) half.solved[row * STRIDE + e + k] = whole[k];
            if (STEP && is_there && as_floats) half.steps[row * F + e + k] = x[n + k];
        }
        if (!as_halves) continue;
        if (e + 1 < F) put_halves(half, row * LD + e, pair_of(whole[0], whole[1]));
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            if (e + 1 < F || e + k >= D) continue;
            const long long at = row * LD + e + k;
            const unsigned short high = half_of(whole[k]);
            put_half(half, at, e + k < F ? high : half_of(1.0f));
            if (e + k >= F) put_half(half, at + 1, high), put_half(half, at + 2, half_of(x[n + k] - float_of(high)));
        }
    }
}

// Solve a row whose sums are complete.
template <int WARP> __device__ __forceinline__ void solve(
    Sums& sums, Shared& shared, Corner corner, const Solver& solver, const Half& half, int row, int total, float weight, int& parity
) {
    const int lane = threadIdx.x % 32;
    Vector x, r, known;
    read(x, known, half, row);
    extract_right<WARP>(sums, shared, corner);
    if constexpr (IMPLICIT) add_gram<WARP>(sums, half, weight);
    const float mine = largest_of<WARP>(sums, corner);
    if (lane == 0) shared.largest[threadIdx.x / 32] = mine;
    meet();
    float largest = shared.largest[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; ++warp) largest = fmaxf(largest, shared.largest[warp]);
    const float scale = largest > 0.01f && largest < 30000 ? 1.0f : largest > TINY ? inverse(largest) : 1.0f;  // keeps A within FP16
    const float ridge = (solver.regularization * __powf(total + solver.offset, solver.exponent) + solver.prior) * scale;
    const float unit = (IMPLICIT + weight) * scale;  // unit of y
#pragma unroll
    for (int n = 0; n < VECTOR; ++n) {
        const int e = entry(n);
        r[n] = e < D ? shared.right[0][e] : 0.0f;
        if (Y_IS_COLUMN && e < D) r[n] += shared.right[1][e];
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
    start_step(x, known, ridge, scale);
    descend(x, r, known, solver, [&](Vector& product, const Vector& v, float norm) {
        apply<WARP>(product, v, matrix, shared, corner, norm, ridge, parity);
    });
    write(x, half, row, threadIdx.x < 32, threadIdx.x / 32 == (STEP ? 0 : WARPS - 1));
}
