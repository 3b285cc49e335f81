// als.cu, part 6: A and b, summed in a warp's accumulators, and the values that the solver needs from them.

typedef float Sums[HELD][8];  // sums of a warp's tiles in the layout of `mma`: columns 0–7, then 8–15

// Rows of a product with a vector in two parts, which are the first two columns.
__device__ __forceinline__ void put(float* to, const float* result) {
    const int lane = threadIdx.x % 32;
    if (lane % 4 == 0) to[lane / 4] = result[0] + result[1], to[lane / 4 + 8] = result[2] + result[3];
}
__device__ __forceinline__ void add_to(float* to, const float* result) {
    const int lane = threadIdx.x % 32;
    if (lane % 4 == 0) to[lane / 4] += result[0] + result[1], to[lane / 4 + 8] += result[2] + result[3];
}

// If y is no column: Σ y z of the rows of a warp's i-th tile on the diagonal. In a square, the tiles above the diagonal
// would repeat those below; two of them hold these sums instead.
template <class Any> __device__ __forceinline__ auto right_of(Any& sums, int i) {
    return sums[(NARROW ? PER_WARP : 1) + i / 2] + i % 2 * 4;
}

// Add one stage, 16 ratings a step, both operands from the same staged rows.
template <int WARP> __device__ __forceinline__ void accumulate(Sums& sums, Shared& shared, Corner corner, int slot, int count) {
    using Mine = Share<WARP>;
    const int lane = threadIdx.x % 32;
    const unsigned tiles = address(shared.tiles[slot]);
    const unsigned left = tiles + (lane % 8 + lane / 16 * 8) * ROW_BYTES + lane / 8 % 2 * 16 + corner.row * 32;
    const unsigned right = tiles + (lane % 8 + lane / 8 % 2 * 8) * ROW_BYTES + lane / 16 * 16 + corner.column * 32;
#pragma unroll UNROLLED
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
        if constexpr (!Y_IS_COLUMN) {
            if (corner.on_diagonal()) {
                const unsigned* y = (const unsigned*)shared.targets[slot][lane < 8 ? lane / 4 : 2] + step * 8 + lane % 4;
                const unsigned low = y[0], high = y[4];
                repeat<0, Mine::count>([&](auto place) {
                    constexpr int n = decltype(place)::value, i = Mine::n_diagonal(n);
                    if constexpr (Mine::is_diagonal(n)) multiply(right_of(sums, i), a[Mine::row(n)], low, high);
                });
            }
        }
        repeat<0, EDGE>([&](auto row) {
            constexpr int i = decltype(row)::value;
            if constexpr (IMPLICIT && Mine::has_row(i) && (!Y_IS_COLUMN || 16 * i < LD)) {  // y is not weighted
                a[i][0] = times(a[i][0], first), a[i][2] = times(a[i][2], second);
                if constexpr (!Y_IS_COLUMN || 16 * i + 8 < LD) a[i][1] = times(a[i][1], first), a[i][3] = times(a[i][3], second);
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

// Write the parts of b to `shared.right`.
template <int WARP> __device__ __forceinline__ void extract_right(const Sums& sums, Shared& shared, Corner corner) {
    if constexpr (Y_IS_COLUMN) {
        extract_row<WARP, LD>(sums, corner, shared.right[0]);
        extract_row<WARP, LD + 1>(sums, corner, shared.right[1]);
    } else if (corner.on_diagonal()) {
        repeat<0, Share<WARP>::count>([&](auto place) {
            constexpr int n = decltype(place)::value, i = Share<WARP>::n_diagonal(n);
            if constexpr (Share<WARP>::is_diagonal(n) && Share<WARP>::solves(n))
                put(shared.right[0] + 16 * (corner.row + Share<WARP>::row(n)), right_of(sums, i));
        });
    }
    if constexpr (BIASES) {
        extract_row<WARP, F + 1>(sums, corner, shared.right[2]);
        extract_row<WARP, F + 2>(sums, corner, shared.right[3]);
    }
}

// Implicit problems: A's sums in units of 1, plus G, packed by `pack_gram`; `unit` is its largest element.
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
