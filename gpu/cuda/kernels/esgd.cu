// ESGD ([003] Alg. 2): e = x − p·q, p ← p + γ(e q − λ_p p), q ← q + γ(e p − λ_q q), in a walk through the ratings.
//
// Compiled for PIECES: 16-byte pieces of a row of factors, zeros beyond F; THREADS (th_size); VECTOR 1 where one
// instruction adds a piece atomically (compute capability 9.0), else four do.
//
// Order of visits: see gpu/descent/esgd.py. Chunk c of the walk starts at rating (c · stride mod n_chunks) · CHUNK.
//
// Who owns what. A block owns BLOCK ratings: it reads them in BLOCK / THREADS steps into shared memory (st; a warp
// reads CHUNK neighbors of each array at once) and visits them in the order of `visits`, the same for all blocks. A
// rating has LANES consecutive threads, a power of two, with HELD pieces each. [003] has one factor per thread; one
// piece per thread needs a quarter of the instructions, but only 2 % less time at F = 16. With F = 96, for example, 24
// pieces are on 32 lanes: 8 stay idle.
// A block works on THREADS / LANES ratings at once. No thread owns a row of factors.
//
// Shared memory: 14 bytes a rating, and the starts of the chunks.
// Limits: fewer than 2³² chunks; rows of up to 1,024 factors.
// Races, intended: rows are read while others add to them, past L1 so that no multiprocessor keeps an old copy, and the
// additions are computed from the values read. Additions are atomic, so none is lost; their order differs from run to
// run. If very many ratings of a row are processed at once, their sum overshoots: with three times the default learning
// rate, 99 million ratings diverge in their stored order and converge in the order above.

constexpr int WARP = 32;
constexpr int BLOCK = 2048, CHUNK = 32;  // as in gpu/descent/esgd.py
constexpr int N_CHUNKS = BLOCK / CHUNK;  // chunks of a block
constexpr int lanes_of(int pieces) { return pieces <= 1 ? 1 : 2 * lanes_of((pieces + 1) / 2); }
constexpr int LANES = PIECES < WARP ? lanes_of(PIECES) : WARP;
constexpr int HELD = (PIECES + LANES - 1) / LANES;
constexpr int NOBODY = -1;
static_assert(BLOCK % THREADS == 0 && THREADS % WARP == 0 && THREADS >= N_CHUNKS, "whole steps, a thread a chunk");

struct Rating { int user, item; };

__device__ __forceinline__ void add(float4* to, float4 x) {
#if VECTOR
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w) : "memory");
#else
    atomicAdd(&to->x, x.x);
    atomicAdd(&to->y, x.y);
    atomicAdd(&to->z, x.z);
    atomicAdd(&to->w, x.w);
#endif
}

// γ(e y − λx)
__device__ __forceinline__ float4 change(float push, float4 y, float decay, float4 x) {
    return make_float4(push * y.x - decay * x.x, push * y.y - decay * x.y, push * y.z - decay * x.z,
                       push * y.w - decay * x.w);
}

// Rows and targets, r − μ − b_i − b̂_j, of each rating. Grid: a warp a user.
extern "C" __global__ void __launch_bounds__(THREADS) place(
    const long long* __restrict__ starts, const long long* __restrict__ lengths, int n_users,
    const int* __restrict__ items, const float* __restrict__ values, float mean, const float* __restrict__ user_bias,
    const float* __restrict__ item_bias, int* __restrict__ users, float* __restrict__ targets
) {
    const int user = (int)(((long long)blockIdx.x * THREADS + threadIdx.x) / WARP);
    if (user >= n_users) return;
    const long long end = starts[user] + lengths[user];
    const float known = mean + user_bias[user];
    for (long long at = starts[user] + threadIdx.x % WARP; at < end; at += WARP) {
        users[at] = user;
        targets[at] = values[at] - (known + item_bias[items[at]]);
    }
}

// One epoch. Grid: a block for every N_CHUNKS chunks. Rows of both tables have `PIECES` pieces.
extern "C" __global__ void __launch_bounds__(THREADS) learn(
    const int* __restrict__ users, const int* __restrict__ items, const float* __restrict__ targets,
    const unsigned short* __restrict__ visits, long long n_ratings, unsigned n_chunks, unsigned stride, float step,
    float regularization, float item_regularization, float4* user_factors, float4* item_factors
) {
    __shared__ Rating ratings[BLOCK];
    __shared__ float wanted[BLOCK];
    __shared__ unsigned short order[BLOCK];
    __shared__ long long begin[N_CHUNKS];
    if (threadIdx.x < N_CHUNKS) {  // beyond the last chunk: a position without a rating
        const unsigned long long chunk = (unsigned long long)blockIdx.x * N_CHUNKS + threadIdx.x;
        begin[threadIdx.x] = chunk < n_chunks ? (long long)(chunk * stride % n_chunks) * CHUNK : n_ratings;
    }
    __syncthreads();  // starts of all chunks are written
    for (int slot = threadIdx.x; slot < BLOCK; slot += THREADS) {
        const long long at = begin[slot / CHUNK] + slot % CHUNK;
        const bool is_known = at < n_ratings;
        ratings[slot] = is_known ? Rating{__ldcs(users + at), __ldcs(items + at)} : Rating{NOBODY, 0};
        wanted[slot] = is_known ? __ldcs(targets + at) : 0.0f;
        order[slot] = visits[slot];
    }
    __syncthreads();  // all ratings are loaded

    const int lane = threadIdx.x % LANES;
    const float decay = step * regularization, item_decay = step * item_regularization;
    for (int visit = threadIdx.x / LANES; visit < BLOCK; visit += THREADS / LANES) {
        const int slot = order[visit];
        const Rating rating = ratings[slot];
        const bool is_known = rating.user != NOBODY;
        float4* const p_at = user_factors + (long long)(is_known ? rating.user : 0) * PIECES;
        float4* const q_at = item_factors + (long long)rating.item * PIECES;
        float4 p[HELD] = {}, q[HELD] = {};
        float dot = 0;
#pragma unroll
        for (int h = 0; h < HELD; ++h) {
            if (lane + LANES * h >= PIECES) break;
            p[h] = __ldcg(p_at + lane + LANES * h);
            q[h] = __ldcg(q_at + lane + LANES * h);
            dot += p[h].x * q[h].x + p[h].y * q[h].y + p[h].z * q[h].z + p[h].w * q[h].w;
        }
#pragma unroll
        for (int reach = LANES / 2; reach; reach /= 2) dot += __shfl_xor_sync(~0u, dot, reach);
        if (!is_known) continue;
        const float push = step * (wanted[slot] - dot);
#pragma unroll
        for (int h = 0; h < HELD; ++h) {
            if (lane + LANES * h >= PIECES) break;
            add(p_at + lane + LANES * h, change(push, q[h], decay, p[h]));
            add(q_at + lane + LANES * h, change(push, p[h], item_decay, q[h]));
        }
    }
}
