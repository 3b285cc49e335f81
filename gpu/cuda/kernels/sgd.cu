// Stochastic gradient descent over tiles of users: CUSGD++ ([004] Alg. 2), CULSH-MF (Alg. 3; eq. 1, 5), implicit (§5.4).
//
//   r̂ = μ + b_i + b̂_j + |R|^-½ Σ_R (r_ik − b̄_ik) w_jk + |N|^-½ Σ_N c_jk + u_i·v_j,   e = r − r̂, or r − σ(r̂)
//   x ← x + γ (e · partner − λ x) for u, v, b, b̂, w, c, every right-hand side from before the step
//
// Compiled for F (padded: a multiple of LANES · VEC), LANES (a group of lanes has a rating), K (padded: a multiple of
// 2 · LANES; 0: no neighbors), HALF (u in float16 or float32), IMPLICIT, DISLIKES (whether ratings may be
// dislikes), LEARN (0: only the errors), THREADS.
//
// Who owns what. A block owns a tile of users, whose u and b it holds in shared memory until all ratings of the tile are
// learned, so the user side never leaves the multiprocessor. A group of LANES lanes
// owns a segment, ratings of one item: v, b̂, w, c stay in its registers, the dot product is summed by shuffles. The groups of
// a warp take neighboring segments of the tile's list, equally long ones; warps take such packs in scattered order.
// Long columns are thus split over tiles and segments; at the end of a segment its changes of v, b̂, w, c are added.
// `learn_cells` is the reproducible form: a warp owns a cell of users × items, in sub-steps that form a Latin square.
//
// Shared memory (`learn_tiles`): tile_users · (row of F + 4 bytes). A lane reads up to 16 bytes of u at a time; two groups that
// share a phase of shared memory start at different chunks of their rows, so that they use different banks.
//
// Races. Two groups of a block on the same user at once: plain stores, a step of one is lost. Several groups on
// segments of the same item at once: none sees the changes of the others, and their steps from one point would add up
// to one that is too long, and diverge. So each adds a share, 1 / (1 + c) where c other groups are expected:
// x ← x − s x, seen c steps late, is stable up to s = 2 sin(π / (4 c + 2)), twice that or more. Popular items have
// enough ratings, others lose little. `learn_cells`: none.
// Limits: records of a tile below 2³¹.

constexpr int WARP = 32, GROUPS = WARP / LANES, WARPS = THREADS / WARP;
constexpr int VEC = F / LANES % 8 || !HALF ? 4 : 8;  // factors of u that a lane reads at a time: 16 bytes, or 8
constexpr int CHUNKS = F / (LANES * VEC);
constexpr int V = CHUNKS * VEC;                 // factors of a lane
constexpr int KL = K / LANES;                   // neighbors of a lane
constexpr int BATCH = 4;                        // ratings whose records and residuals are being loaded
constexpr int OWN = LANES < BATCH ? BATCH / LANES : 1;  // records that a lane fetches of a batch
constexpr int SWIZZLED = LANES == 4 && CHUNKS % 2 == 0;
static_assert(F == LANES * VEC * CHUNKS && (K == 0 || K == 2 * LANES * (KL / 2)), "padded by the launcher");

struct Segment { int item, begin, length, unused; };
struct Rates { float mean, step, shrink, bias_step, bias_shrink, weight_step, weight_decay, low, high; };
struct Items {
    float *factors, *bias, *explicit_weights, *implicit_weights;
    const int* neighbors;
    const float* shares;  // 1 over one more than the groups that are likely to learn from an item at the same time
};
struct Samples { const uint2* records; const void* near; };  // `near`: float16 (n, K); IMPLICIT: bits (n, K), where DISLIKES (n, 2 K), in whole words
#if HALF
using Number = unsigned short;
#else
using Number = float;
#endif

constexpr int READ = VEC * (int)sizeof(Number) / 4;  // words of one read of u
struct alignas(4 * READ) Words { unsigned x[READ]; };
struct alignas(16) Four { unsigned x[4]; };

__device__ __forceinline__ void widen(unsigned pair, float& low, float& high) {
    asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(low), "=f"(high) : "r"(pair));
}

__device__ __forceinline__ unsigned narrow(float low, float high) {
    unsigned pair;
    asm("{.reg .f16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; mov.b32 %0, {a, b};}" : "=r"(pair) : "f"(low), "f"(high));
    return pair;
}

// First factor of chunk c of this lane.
__device__ __forceinline__ int place_of(int c, int lane, int group) {
    return ((SWIZZLED ? c ^ (group & 1) : c) * LANES + lane) * VEC;
}

__device__ __forceinline__ void read_row(const Number* row, int lane, int group, float (&u)[V]) {
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
        const Words words = *(const Words*)(row + place_of(c, lane, group));
#pragma unroll
        for (int x = 0; x < READ; ++x) {
#if HALF
            widen(words.x[x], u[c * VEC + 2 * x], u[c * VEC + 2 * x + 1]);
#else
            u[c * VEC + x] = __uint_as_float(words.x[x]);
#endif
        }
    }
}

__device__ __forceinline__ void write_row(Number* row, int lane, int group, const float (&u)[V]) {
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
        Words words;
#pragma unroll
        for (int x = 0; x < READ; ++x)
#if HALF
            words.x[x] = narrow(u[c * VEC + 2 * x], u[c * VEC + 2 * x + 1]);
#else
            words.x[x] = __float_as_uint(u[c * VEC + x]);
#endif
        *(Words*)(row + place_of(c, lane, group)) = words;
    }
}

__device__ __forceinline__ float group_sum(float x) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

// The item side of a segment, in registers.
struct Column {
    float v[V], bias;
    float w[KL ? KL : 1], c[KL ? KL : 1];
    unsigned present;  // bit k: this lane's neighbor k exists; beyond 32 neighbors a lane they are all taken to
    float n_present;   // present neighbors of the whole item
};

// Past L1, which does not see what other multiprocessors have added: steps from stale values would add up and diverge.
__device__ __forceinline__ void read_item(const Items& items, int row, int lane, int group, Column& item) {
    const float* v = items.factors + (long long)row * F;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
#pragma unroll
        for (int x = 0; x < VEC; x += 4) {
            const float4 four = __ldcg((const float4*)(v + place_of(c, lane, group) + x));
            item.v[c * VEC + x] = four.x, item.v[c * VEC + x + 1] = four.y;
            item.v[c * VEC + x + 2] = four.z, item.v[c * VEC + x + 3] = four.w;
        }
    item.bias = __ldcg(items.bias + row);
    if (K) {
        const long long first = (long long)row * K + lane * KL;
        item.present = 0;
#pragma unroll
        for (int k = 0; k < KL; ++k) {
            item.w[k] = __ldcg(items.explicit_weights + first + k);
            item.c[k] = __ldcg(items.implicit_weights + first + k);
            item.present |= (unsigned)(items.neighbors[first + k] >= 0) << k;
        }
        item.n_present = group_sum((float)__popc(item.present));
    }
}

__device__ __forceinline__ void add_four(float* to, float a, float b, float c, float d) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
#else
    atomicAdd(to, a), atomicAdd(to + 1, b), atomicAdd(to + 2, c), atomicAdd(to + 3, d);
#endif
}

// Add the changes of a segment, or a share of them if several groups are likely to learn from the item at once.
__device__ __forceinline__ void merge_item(
    const Items& items, int row, int lane, int group, const Column& now, const Column& old
) {
    float* v = items.factors + (long long)row * F;
    const float share = items.shares[row];
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
#pragma unroll
        for (int x = 0; x < VEC; x += 4) {
            const int f = c * VEC + x;
            add_four(
                v + place_of(c, lane, group) + x, share * (now.v[f] - old.v[f]), share * (now.v[f + 1] - old.v[f + 1]),
                share * (now.v[f + 2] - old.v[f + 2]), share * (now.v[f + 3] - old.v[f + 3])
            );
        }
    if (lane == 0) atomicAdd(&items.bias[row], share * (now.bias - old.bias));
    if (K) {
        const long long first = (long long)row * K + lane * KL;
#pragma unroll
        for (int k = 0; k < KL; ++k) {
            atomicAdd(&items.explicit_weights[first + k], share * (now.w[k] - old.w[k]));
            atomicAdd(&items.implicit_weights[first + k], share * (now.c[k] - old.c[k]));
        }
    }
}

__device__ __forceinline__ void write_item(const Items& items, int row, int lane, int group, const Column& item) {
    float* v = items.factors + (long long)row * F;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
#pragma unroll
        for (int x = 0; x < VEC; x += 4)
            *(float4*)(v + place_of(c, lane, group) + x) = make_float4(
                item.v[c * VEC + x], item.v[c * VEC + x + 1], item.v[c * VEC + x + 2], item.v[c * VEC + x + 3]
            );
    if (lane == 0) items.bias[row] = item.bias;
    if (K) {
        const long long first = (long long)row * K + lane * KL;
#pragma unroll
        for (int k = 0; k < KL; ++k) {
            items.explicit_weights[first + k] = item.w[k];
            items.implicit_weights[first + k] = item.c[k];
        }
    }
}

// A lane's data of the neighbors of one rating, in the layout of memory.
struct alignas(KL % 8 == 0 && KL && !IMPLICIT ? 16 : 4) Near { unsigned pairs[KL > 1 && !IMPLICIT ? KL / 2 : 1 + DISLIKES]; };

__device__ __forceinline__ void read_near(const void* near, long long place, int lane, Near& found) {
#if K && IMPLICIT
    const unsigned* const words = (const unsigned*)near + place * (((1 + DISLIKES) * K + 31) / 32);
#pragma unroll
    for (int plane = 0; plane <= DISLIKES; ++plane) {
        const unsigned bit = plane * K + lane * KL;
        found.pairs[plane] = words[bit / 32] >> (bit % 32);
    }
#elif K
    const unsigned* pairs = (const unsigned*)near + (place * K + lane * KL) / 2;
    if (KL % 8 == 0) {
#pragma unroll
        for (int x = 0; x < KL / 8; ++x) *(Four*)&found.pairs[4 * x] = *(const Four*)(pairs + 4 * x);
    } else {
#pragma unroll
        for (int x = 0; x < KL / 2; ++x) found.pairs[x] = pairs[x];
    }
#endif
}

// Residuals of the rated neighbors (IMPLICIT: 1, and −1 of a dislike), 0 for all others, and which are rated (1) or not (0).
__device__ __forceinline__ void resolve(const Near& near, float (&residual)[KL ? KL : 1], unsigned& rated) {
    rated = 0;
#if K && IMPLICIT
    rated = KL < 32 ? near.pairs[0] & ((1u << (KL % 32)) - 1) : near.pairs[0];
#pragma unroll
    for (int k = 0; k < KL; ++k) {
        residual[k] = rated >> k & 1 ? 1.0f : 0.0f;
#if DISLIKES
        if (near.pairs[1] >> k & 1) residual[k] = -1.0f;
#endif
    }
#elif K
#pragma unroll
    for (int k = 0; k < KL; k += 2) {
        widen(near.pairs[k / 2], residual[k], residual[k + 1]);
#pragma unroll
        for (int x = k; x < k + 2; ++x) {
            const bool is_rated = residual[x] == residual[x];
            rated |= (unsigned)is_rated << x;
            residual[x] = is_rated ? residual[x] : 0.0f;
        }
    }
#endif
}

// One rating: its error, and one step of everything it touches.
__device__ __forceinline__ float visit(
    Number* row, float* user_bias, Column& item, const Near& near, float target, bool is_active, const Rates& rates, int lane,
    int group
) {
    float u[V], residual[KL ? KL : 1], sum = 0, norm_rated = 0, norm_unrated = 0;
    unsigned rated = 0, unrated = 0;
    read_row(row, lane, group, u);
    const float old_bias = *user_bias;
    if (K) {
        resolve(near, residual, rated);
        unrated = item.present & ~rated;
        const float n_rated = group_sum((float)__popc(rated));
        norm_rated = rsqrtf(fmaxf(n_rated, 1.0f)), norm_unrated = rsqrtf(fmaxf(item.n_present - n_rated, 1.0f));
        float explicit_sum = 0, implicit_sum = 0;
#pragma unroll
        for (int k = 0; k < KL; ++k) {
            explicit_sum += residual[k] * item.w[k];
            implicit_sum += unrated >> k & 1 ? item.c[k] : 0.0f;
        }
        sum = norm_rated * explicit_sum + norm_unrated * implicit_sum;
    }
#pragma unroll
    for (int f = 0; f < V; ++f) sum += u[f] * item.v[f];
    const float score = rates.mean + old_bias + item.bias + group_sum(sum);
#if !LEARN
#if IMPLICIT
    const float loss = fmaxf(score, 0.0f) + __logf(1 + __expf(-fabsf(score))) - target * score;
    return is_active ? loss : 0.0f;
#else
    const float miss = target - fminf(fmaxf(score, rates.low), rates.high);
    return is_active ? miss * miss : 0.0f;
#endif
#endif
    if (LANES == 1) __syncwarp();  // `learn_cells`: all groups have read the values before the first one writes them
    const float error = IMPLICIT ? target - __fdividef(1.0f, 1.0f + __expf(-score)) : target - score;
    const float push = is_active ? rates.step * error : 0.0f, shrink = is_active ? rates.shrink : 1.0f;
#pragma unroll
    for (int f = 0; f < V; ++f) {
        const float old_u = u[f];
        u[f] = shrink * old_u + push * item.v[f];
        item.v[f] = shrink * item.v[f] + push * old_u;
    }
    const float bias_push = is_active ? rates.bias_step * error : 0.0f;
    const float bias_shrink = is_active ? rates.bias_shrink : 1.0f;
    item.bias = bias_shrink * item.bias + bias_push;
    if (is_active) {
        write_row(row, lane, group, u);
        if (lane == 0) *user_bias = rates.bias_shrink * old_bias + bias_push;
    }
    if (K) {
        const float move = is_active ? rates.weight_step * error : 0.0f, decay = is_active ? rates.weight_decay : 0.0f;
        const float push_rated = move * norm_rated, push_unrated = move * norm_unrated;
#pragma unroll
        for (int k = 0; k < KL; ++k) {
            item.w[k] += push_rated * residual[k] - (rated >> k & 1 ? decay * item.w[k] : 0.0f);
            item.c[k] += unrated >> k & 1 ? push_unrated - decay * item.c[k] : 0.0f;
        }
    }
    return 0.0f;
}

// All ratings of a segment, from `first` on, cyclic; groups of a warp continue together to `longest`.
__device__ __forceinline__ float learn_segment(
    const Segment& segment, int longest, int first, const Samples& samples, long long begin, Number* rows,
    float* biases, Column& item, const Rates& rates, int lane, int group
) {
    const long long base = begin + segment.begin;
    uint2 ahead[OWN];
    Near near[BATCH];
    float loss = 0;
    const auto wrapped = [&](int step) {
        const int at = first + min(step, segment.length - 1);
        return at < segment.length ? at : at - segment.length;
    };
    const auto fetch = [&](int done) {
#pragma unroll
        for (int o = 0; o < OWN; ++o) ahead[o] = samples.records[base + wrapped(done + lane % BATCH * OWN + o)];
    };
    if (segment.length) {
        fetch(0);
#pragma unroll
        for (int j = 0; j < BATCH; ++j) read_near(samples.near, base + wrapped(j), lane, near[j]);
    }
    for (int done = 0; done < longest; done += BATCH) {
        uint2 now[OWN];
#pragma unroll
        for (int o = 0; o < OWN; ++o) now[o] = ahead[o];
        if (segment.length) fetch(done + BATCH);
#pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            const int local = __shfl_sync(~0u, now[j % OWN].x, j / OWN, LANES);
            const float target = __uint_as_float(__shfl_sync(~0u, now[j % OWN].y, j / OWN, LANES));
            const bool is_active = done + j < segment.length;
            const Near present = near[j];
            if (K && is_active) read_near(samples.near, base + wrapped(done + BATCH + j), lane, near[j]);
            Number* row = rows + (long long)(is_active ? local : 0) * F;
            loss += visit(row, &biases[is_active ? local : 0], item, present, target, is_active, rates, lane, group);
        }
    }
    return loss;
}

// Start of a group in its segment. Starts are scattered, because every item lists the tile's users in the same order.
__device__ __forceinline__ int start_of(const Segment& segment, unsigned salt) {
    unsigned mixed = (segment.begin ^ salt) * 0x9E3779B1u;
    mixed ^= mixed >> 15;
    return __umulhi(mixed * 0x85EBCA77u, segment.length);
}

__device__ void copy(uint4* to, const uint4* from, int n_bytes) {
    for (int x = threadIdx.x; x < n_bytes / 16; x += THREADS) to[x] = from[x];
}

// Part `part` of `n_parts` of an epoch, over all tiles; `losses`: a sum for each block, where LEARN is 0.
extern "C" __global__ void __launch_bounds__(THREADS, 1) learn_tiles(
    const Segment* __restrict__ segments, const long long* __restrict__ segment_begin, const int* __restrict__ n_segments,
    const long long* __restrict__ tile_begin, int n_tiles, int tile_users, Samples samples, Items items, Number* users,
    float* user_bias, Rates rates, unsigned salt, unsigned part, unsigned n_parts, double* losses
) {
    extern __shared__ uint4 shared[];
    __shared__ unsigned next;
    __shared__ double sums[WARPS];
    Number* rows = (Number*)shared;
    float* biases = (float*)(rows + (long long)tile_users * F);
    const int thread = threadIdx.x % WARP, lane = thread % LANES, group = thread / LANES;
    double total = 0;
    for (int tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        Number* home = users + (long long)tile * tile_users * F;
        copy((uint4*)rows, (const uint4*)home, tile_users * F * sizeof(Number));
        for (int x = threadIdx.x; x < tile_users; x += THREADS) biases[x] = user_bias[(long long)tile * tile_users + x];
        const Segment* listed = segments + segment_begin[tile];
        const unsigned n = n_segments[tile], n_packs = (n + GROUPS - 1) / GROUPS;
        const unsigned stride = stride_of(n_packs), end = (unsigned long long)n_packs * (part + 1) / n_parts;
        if (threadIdx.x == 0) next = (unsigned long long)n_packs * part / n_parts;
        __syncthreads();
        for (;;) {
            unsigned turn = thread == 0 ? atomicAdd(&next, 1u) : 0;
            turn = __shfl_sync(~0u, turn, 0);
            if (turn >= end) break;
            const unsigned pack = scattered(turn + salt % n_packs, stride, n_packs), at = pack * GROUPS + group;
            Segment segment = listed[min(at, n - 1)];
            if (at >= n) segment.length = 0;
            int longest = segment.length;
            for (int step = WARP / 2; step > 0; step /= 2) longest = max(longest, __shfl_xor_sync(~0u, longest, step));
            Column item;
            read_item(items, segment.item, lane, group, item);
            const Column old = item;
            const int first = start_of(segment, salt);
            total += learn_segment(
                segment, longest, first, samples, tile_begin[tile], rows, biases, item, rates, lane, group
            );
            if (LEARN && segment.length) merge_item(items, segment.item, lane, group, item, old);
        }
        __syncthreads();
        if (LEARN) {
            copy((uint4*)home, (const uint4*)rows, tile_users * F * sizeof(Number));
            for (int x = threadIdx.x; x < tile_users; x += THREADS) user_bias[(long long)tile * tile_users + x] = biases[x];
        }
        __syncthreads();
    }
    if (LEARN) return;
    if (lane) total = 0;
    for (int step = WARP / 2; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
    if (thread == 0) sums[threadIdx.x / WARP] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < WARPS; ++warp) total += sums[warp];
        losses[blockIdx.x] = total;
    }
}

// One sub-step: warp d learns tile d's ratings of item group (d + shift) mod n_tiles, in the order of the items. All
// groups of the warp do the same, with the same numbers; the first one stores.
extern "C" __global__ void __launch_bounds__(WARP) learn_cells(
    const Segment* __restrict__ segments, const long long* __restrict__ cuts, int shift, const long long* __restrict__ tile_begin,
    int n_tiles, int tile_users, Samples samples, Items items, Number* users, float* user_bias, Rates rates, unsigned salt
) {
    const int tile = blockIdx.x, cell = (tile + shift) % n_tiles, lane = threadIdx.x % LANES;
    Number* rows = users + (long long)tile * tile_users * F;
    float* biases = user_bias + (long long)tile * tile_users;
    const long long* bounds = cuts + (long long)tile * (n_tiles + 1) + cell;
    for (long long s = bounds[0]; s < bounds[1]; ++s) {
        const Segment segment = segments[s];
        Column item;
        read_item(items, segment.item, lane, 0, item);
        learn_segment(
            segment, segment.length, start_of(segment, salt), samples, tile_begin[tile], rows, biases, item, rates, lane, 0
        );
        write_item(items, segment.item, lane, 0, item);
        __syncwarp();
    }
}
