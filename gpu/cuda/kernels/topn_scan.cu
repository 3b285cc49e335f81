// Finds the items that may belong to the lists of a batch of users: products of small numbers on tensor cores, with a
// bound on their error.
//
// Both sides are rounded to whole numbers of 8 bits, p = rint(T u) and q = rint(C v), with a factor T a user and C an
// item. What is lost is d = T u − p and r = C v − q, so
//
//   T C u·v = p·q + T u·r + d·q,   |T C u·v − p·q| ≤ |T u| |r| + |d| |q| ≤ a A,
//   a = |T u| + |d| / α,   A = max(|r|, α |q|),   for any α; the usual |r| / |q| is a good one.
//
// With begin_j and b_u, the other parts of a score s, s' = begin_j + b_u + p·q / T C is off by a A / T C at most. A has
// a little more, for sums in float32 here and there, and `slack` is 2^-18 of the magnitude of the other parts. p·q is
// exact. An item is left out only where s' + a A / T C + slack lies below the user's floor, which at least `n` items
// reach, that is where
//
//   p·q + a A + T (C begin) − T (floor − b − slack) C + BEYOND < 0:
//
// the list of exact scores is among the rest. All terms but the first are a product of matrices too, with five columns
// of TF32: a, T and C have no more bits, and two numbers come in two parts. What this loses is less than BEYOND units and
// 2^-20 of the terms.
//
// Compiled for G and MT: a block has up to 16 MT users.
//
// Who owns what. A warp takes a tile of 32 items at a time, all users of the block: 16 x 8 products of 16 users and 8
// items, MT x 4 of them. In each 64 columns a lane reads 16 bytes of four items, and uses them as columns 4 t and
// 4 t + 16, for four columns each, of two products of 32 columns: any order of columns is right if both sides have the
// same.
//
// Shared memory: users, as the products read them, rounded; of each warp STAGES stages of 32 items x 64 columns and
// `Bound`s, filled by `cp.async` ahead and across tiles, and rows that it has found; no warp waits for another. Neither
// side conflicts.
//
// Limits: compute capability 8.0. Races: rows are appended in any order, which does not affect the lists.

constexpr int PIECES = ROW / 64;   // pieces of a row
constexpr int WARPS = 8, STAGES = 4, STAGE_BYTES = TILE * 64 + TILE * (int)sizeof(Bound);
constexpr int USERS = 16 * MT, QUEUE = 64;
constexpr float SLACK = 0x1p-18f, SMALLEST = 1e-30f;
constexpr int ORIGIN = 0x4b400000;  // 1.5 · 2^23 as float: adding a whole number below 2^22 to its bits adds it as well
constexpr float BEYOND = 32.0f;    // units of p·q, for the rounding of sums near ORIGIN
constexpr float OFFSET = BEYOND - 0x1.8p23f;  // less ORIGIN
static_assert(MOST * MOST * G < 1 << 22, "p·q leaves the exponent of ORIGIN");

struct Shared {
    uint4 users[PIECES * 2][MT][32];
    uint4 rests[MT][32];           // the other terms' columns, as the products read them
    float4 bounds[USERS];          // T, a; scan: −T · (floor − b − slack) in two TF32; sample: b − slack, 1 / T
    unsigned char stages[WARPS][STAGES][STAGE_BYTES];
    uint2 found[WARPS][QUEUE];     // users and items, until a warp appends them
};
extern __shared__ __align__(16) unsigned char memory[];

__device__ __forceinline__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_but() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
__device__ __forceinline__ void multiply(int (&c)[4], const uint4& a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
// The same, from ORIGIN.
__device__ __forceinline__ void multiply_first(int (&c)[4], const uint4& a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "r"(ORIGIN));
}

__device__ __forceinline__ float tf32(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return __uint_as_float(y);
}
// A number, or what the first part of one leaves, as TF32; nothing is left of infinity.
__device__ __forceinline__ float part(float x) { return x == x ? tf32(x) : 0.0f; }
// OFFSET + the other terms of 16 users and 8 items.
__device__ __forceinline__ void multiply_rests(float (&c)[4], const uint4& a, float b0, float b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)), "f"(OFFSET));
}

// T of the users of the block, and their bounds. Eight lanes have a user.
__device__ __forceinline__ void measure_users(Shared& shared, const Catalog& items, const Task& task, int first, bool is_sampled) {
    for (int at = threadIdx.x / 8; at < USERS; at += 4 * WARPS) {
        const int user = first + at, known = min(user, task.n_users - 1), place = threadIdx.x % 8;
        const float* factors = task.factors + (long long)known * G;
        const float bias = task.biases[known], others = fabsf(bias) + *items.largest, slack = SLACK * others + SMALLEST;
        const float scale = scale_of(factors, LARGEST_SCALE / fmaxf(others, 0x1p-40f), place);
        const Lost lost = lost_by(factors, scale, place);
        if (place) continue;
        const float reach = (lost.whole + lost.rest + lost.rest / USUAL) * (1 + 0x1p-16f);  // whole + rest: at least |T u|
        const bool is_there = user < task.n_users && task.n_candidates[user] < 0;
        const float lead = is_there ? -scale * (task.floors[user] - bias - slack) : NONE, first_part = tf32(lead);
        shared.bounds[at] = is_sampled ? make_float4(scale, reach, bias - slack, 1 / scale)
                                       : make_float4(scale, tf32(reach * (1 + 0x1p-10f)), first_part, part(lead - first_part));
    }
    __syncthreads();
}

__device__ __forceinline__ unsigned rounded4(const Task& task, int user, int column, float scale) {
    if (user >= task.n_users || column >= G) return 0;
    return rounded4(*(const float4*)(task.factors + (long long)user * G + column), scale);
}

// Users of the block, as the lanes of a warp read them.
__device__ __forceinline__ void take_users(Shared& shared, const Task& task, int first) {
    for (int at = threadIdx.x; at < PIECES * 2 * MT * 32; at += 32 * WARPS) {
        const int lane = at % 32, m = at / 32 % MT, step = at / 32 / MT;
        const int column = step / 2 * 64 + lane % 4 * 16 + step % 2 * 8;
        const int low = 16 * m + lane / 4, high = low + 8;
        const float of_low = shared.bounds[low].x, of_high = shared.bounds[high].x;
        shared.users[step][m][lane] = make_uint4(
            rounded4(task, first + low, column, of_low), rounded4(task, first + high, column, of_high),
            rounded4(task, first + low, column + 4, of_low), rounded4(task, first + high, column + 4, of_high));
    }
    for (int at = threadIdx.x; at < MT * 32; at += 32 * WARPS) {
        const float4 low = shared.bounds[16 * (at / 32) + at % 32 / 4], high = shared.bounds[16 * (at / 32) + at % 32 / 4 + 8];
        const int k = at % 4;
        shared.rests[at / 32][at % 32] = make_uint4(
            __float_as_uint(k == 0 ? low.y : k < 3 ? low.x : low.z), __float_as_uint(k == 0 ? high.y : k < 3 ? high.x : high.z),
            __float_as_uint(k ? 0.0f : low.w), __float_as_uint(k ? 0.0f : high.w));
    }
    __syncthreads();
}

// Where a warp is in its sequence of stages: tiles it has taken, and pieces of them.
struct Cursor {
    int tile, piece, slot;
};

__device__ __forceinline__ void fetch(Shared& shared, const Catalog& items, Cursor& cursor, int n_tiles, int stride) {
    const int lane = threadIdx.x % 32;
    if (cursor.tile < n_tiles) {
        const long long first = (long long)cursor.tile * stride * TILE;
        const unsigned to = address(shared.stages[threadIdx.x / 32][cursor.slot]) + 16 * lane;
        const signed char* from = items.rounded + (first + lane / 4) * ROW + cursor.piece * 64 + lane % 4 * 16;
#pragma unroll
        for (int n = 0; n < 4; ++n) copy16(to + 512 * n, from + n * 8 * ROW);
        if (lane < 16 && cursor.piece == PIECES - 1) copy16(to + 2048, items.bounds + first + 2 * lane);
    }
    commit();
    cursor.slot = (cursor.slot + 1) % STAGES;
    if (++cursor.piece == PIECES) cursor.piece = 0, cursor.tile += gridDim.x * WARPS;
}

// Both scans: `use(tile, products, bounds)` for every tile of the warp. A lane's products, from ORIGIN: user
// 16 m + lane / 4 + e / 2 * 8 of the block, item 8 n + lane % 4 * 2 + e % 2 of the tile. `bounds` are those of its items.
template <bool IS_SAMPLED, class Use> __device__ __forceinline__ void scan_tiles(Shared& shared, const Catalog& items, const Task& task, Use use) {
    const int n_tiles = IS_SAMPLED ? task.n_sampled / TILE : task.n_tiles, stride = IS_SAMPLED ? task.stride : 1;
    const int lane = threadIdx.x % 32, first = blockIdx.x * WARPS + threadIdx.x / 32;
    Cursor cursor = {first, 0, 0};
    for (int stage = 0; stage < STAGES - 1; ++stage) fetch(shared, items, cursor, n_tiles, stride);
    measure_users(shared, items, task, blockIdx.y * USERS, IS_SAMPLED);
    take_users(shared, task, blockIdx.y * USERS);
    int slot = 0;
    for (int tile = first; tile < n_tiles; tile += gridDim.x * WARPS) {
        int products[MT][4][4];
        const unsigned char* stage;
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            wait_but<STAGES - 2>();
            __syncwarp();  // the stage is complete in all lanes, and all have read the one before
            stage = shared.stages[threadIdx.x / 32][slot];
            uint4 v[4];
#pragma unroll
            for (int n = 0; n < 4; ++n) v[n] = *(const uint4*)(stage + 512 * n + 16 * lane);
            fetch(shared, items, cursor, n_tiles, stride);
            slot = (slot + 1) % STAGES;
#pragma unroll
            for (int m = 0; m < MT; ++m) {
                const uint4 u = shared.users[2 * piece][m][lane], w = shared.users[2 * piece + 1][m][lane];
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                    if (piece) multiply(products[m][n], u, v[n].x, v[n].y);
                    else multiply_first(products[m][n], u, v[n].x, v[n].y);
                    multiply(products[m][n], w, v[n].z, v[n].w);
                }
            }
        }
        use(tile, products, (const Bound*)(stage + 2048));
    }
}

// Lower bounds of the exact scores, for every `stride`-th tile. Grid: tiles x users.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2) sample_scores(Catalog items, Task task) {
    Shared& shared = *(Shared*)memory;
    const int lane = threadIdx.x % 32, base = blockIdx.y * USERS;
    scan_tiles<true>(shared, items, task, [&](int tile, int (&products)[MT][4][4], const Bound* bounds) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int item = 8 * n + lane % 4 * 2;
            const Rounded one(bounds[item]), other(bounds[item + 1]);
            const float of_one = 1 / one.scale, of_other = 1 / other.scale;
#pragma unroll
            for (int m = 0; m < MT; ++m)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int place = 16 * m + lane / 4 + 8 * half, user = base + place;
                    if (user >= task.n_users) continue;
                    const float4 bound = shared.bounds[place];
                    const float low = (float)(products[m][n][2 * half] - ORIGIN) - bound.y * one.lost - BEYOND;
                    const float next = (float)(products[m][n][2 * half + 1] - ORIGIN) - bound.y * other.lost - BEYOND;
                    *(float2*)(task.sample + (long long)user * task.n_sampled + tile * TILE + item) =
                        make_float2(low * bound.w * of_one + one.begin + bound.z, next * bound.w * of_other + other.begin + bound.z);
                }
        }
    });
}

__device__ __forceinline__ void append(const Catalog& items, const Task& task, int user, int item) {
    if (!is_eligible(items, task, user, item)) return;
    const int place = atomicAdd(task.counts + 2 * user, 1);
    if (place < task.room) task.rows[(long long)user * task.room + place] = item;
}

// Append `n` of a warp's rows, by all lanes: a lane that appends at once would wait for memory, and its warp with it.
__device__ __forceinline__ void append_all(const Catalog& items, const Task& task, const uint2* found, int n) {
    __syncwarp();
    for (int at = threadIdx.x % 32; at < n; at += 32) append(items, task, found[at].x, found[at].y);
    __syncwarp();
}

// Append every item that passes the filter and may reach the floor to its user's rows. Grid: tiles x users.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2) scan(Catalog items, Task task) {
    Shared& shared = *(Shared*)memory;
    const int lane = threadIdx.x % 32, base = blockIdx.y * USERS;
    uint2* queue = shared.found[threadIdx.x / 32];
    int n_queued = 0;
    scan_tiles<false>(shared, items, task, [&](int tile, int (&products)[MT][4][4], const Bound* bounds) {
        float some[4], scales[4];  // of item 8 n + lane / 4: number lane % 4 of A, two parts of C · begin, C; and C
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const Rounded item(bounds[8 * n + lane / 4]);
            const float begin = item.begin * item.scale, rest = lane % 4 == 1 ? 0.0f : tf32(begin);
            some[n] = part(lane % 4 == 0 ? item.lost : lane % 4 == 3 ? item.scale : begin - rest);
            scales[n] = item.scale;
        }
        unsigned below[(MT + 1) / 2] = {};  // a bit for each product, the last one lowest
#pragma unroll
        for (int m = 0; m < MT; ++m) {
            const uint4 rest = shared.rests[m][lane];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                float rests[4];
                multiply_rests(rests, rest, some[n], scales[n]);
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const float above = __int_as_float(products[m][n][e]) + rests[e];  // NaN counts as above
                    below[m / 2] = __funnelshift_l(__float_as_uint(above), below[m / 2], 1);
                }
            }
        }
#pragma unroll
        for (int word = 0; word < (MT + 1) / 2; ++word)
            for (unsigned found = ~below[word] << (MT == 1 ? 16 : 0), some; (some = __ballot_sync(~0u, found != 0));) {
                if (found) {
                    const int at = __clz(found), m = 2 * word + at / 16, n = at / 4 % 4, e = at % 4;
                    found &= ~(0x80000000u >> at);
                    queue[n_queued + __popc(some & ((1u << lane) - 1))] =
                        make_uint2(base + 16 * m + lane / 4 + e / 2 * 8, tile * TILE + 8 * n + lane % 4 * 2 + e % 2);
                }
                n_queued += __popc(some);
                if (n_queued > QUEUE - 32) append_all(items, task, queue, n_queued), n_queued = 0;
            }
    });
    append_all(items, task, queue, n_queued);
}

// For the launcher: threads of a block, users of a block, bytes of its shared memory.
extern "C" __constant__ int geometry[3] = {32 * WARPS, USERS, (int)sizeof(Shared)};
