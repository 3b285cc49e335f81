// Finds the items that may belong to the lists of a batch of users: scores on tensor cores, with a bound on their
// error.
//
//   s' = begin_j + b_u + ũ·ṽ_j,   |s' − s| ≤ ε |u| |v_j| + slack,   s is the exact score of topn_items.cuh
//
// ũ, ṽ are rounded to TF32: ε is 2·2^-11 for that, and for sums in float32, here and there, 2^-14 (G up to 256: 32
// products, each sum off by 2^-21 at most, and the exact score's own). `slack` is 2^-20 of the other parts' magnitude.
// An item is left out only where s' + ε |u| |v_j| + slack lies below the user's floor, which at least `n` items
// reach: the list of exact scores is among the rest.
//
// Compiled for G and MT: a block has up to 16 MT users.
//
// Who owns what. A warp takes a tile of 32 items at a time, all users of the block: 16 x 8 products of 16 users and 8
// items, MT x 4 of them. In each 16 columns a lane reads 16 bytes of four items, and uses them as columns t and t + 4
// of two products of 8 columns: any order of columns is right if both sides have the same.
//
// Shared memory: users, as the products read them, rounded; of each warp STAGES stages of 32 items x 16 columns, filled
// by `cp.async` ahead and across tiles; no warp waits for another. Rows of 64 bytes: neither side conflicts.
//
// Limits: compute capability 8.0. Races: rows are appended in any order, which does not affect the lists.

constexpr int COLUMNS = G / 16;    // pieces of a row
constexpr int WARPS = 8, STAGES = 4, STAGE_BYTES = TILE * 64;
constexpr int USERS = 16 * MT;
constexpr float EPSILON = 0x1p-10f + 0x1p-14f, SLACK = 0x1p-20f, SMALLEST = 1e-30f;

struct Shared {
    uint4 users[COLUMNS * 2][MT][32];
    float reach[USERS];            // ε |u|
    float rest[USERS];             // b − slack
    float floors[USERS];           // least value of begin + product + ε |u| |v|
    unsigned char stages[WARPS][STAGES][STAGE_BYTES];
};
extern __shared__ __align__(16) unsigned char memory[];

__device__ __forceinline__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_but() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
__device__ __forceinline__ unsigned rounded(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ void multiply(float (&c)[4], const uint4& a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Users of the block, as the lanes of a warp read them, and their bounds.
__device__ __forceinline__ void take_users(Shared& shared, const Catalog& items, const Task& task, int first) {
    for (int at = threadIdx.x; at < COLUMNS * 2 * MT * 32; at += 32 * WARPS) {
        const int lane = at % 32, m = at / 32 % MT, step = at / 32 / MT;
        const int column = step / 2 * 16 + lane % 4 * 4 + step % 2 * 2;
        const int low = first + 16 * m + lane / 4, high = low + 8;
        const float2 a = low < task.n_users ? *(const float2*)(task.factors + (long long)low * G + column) : make_float2(0, 0);
        const float2 b = high < task.n_users ? *(const float2*)(task.factors + (long long)high * G + column) : make_float2(0, 0);
        shared.users[step][m][lane] = make_uint4(rounded(a.x), rounded(b.x), rounded(a.y), rounded(b.y));
    }
    for (int at = threadIdx.x / 8; at < USERS; at += 4 * WARPS) {
        const int user = first + at, known = min(user, task.n_users - 1), place = threadIdx.x % 8;
        const float* factors = task.factors + (long long)known * G;
        const float norm = sqrtf(product(factors, factors, place)) * (1 + 0x1p-16f), bias = task.biases[known];
        if (place) continue;
        const float slack = SLACK * (fabsf(bias) + *items.largest) + SMALLEST;
        const bool is_there = user < task.n_users && task.n_candidates[user] < 0;
        shared.reach[at] = EPSILON * norm, shared.rest[at] = bias - slack;
        shared.floors[at] = is_there ? task.floors[user] - bias - slack : -NONE;
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
        const unsigned to = address(shared.stages[threadIdx.x / 32][cursor.slot]) + 16 * lane;
        const float* from = items.factors + ((long long)cursor.tile * stride * TILE + lane / 4) * G + cursor.piece * 16 + lane % 4 * 4;
#pragma unroll
        for (int n = 0; n < 4; ++n) copy16(to + 512 * n, from + n * 8 * G);
    }
    commit();
    cursor.slot = (cursor.slot + 1) % STAGES;
    if (++cursor.piece == COLUMNS) cursor.piece = 0, cursor.tile += gridDim.x * WARPS;
}

// Both scans: `use(tile, products)` for every tile of the warp. A lane's products: user 16 m + lane / 4 + e / 2 * 8 of the
// block, item 8 n + lane % 4 * 2 + e % 2 of the tile.
template <class Use> __device__ __forceinline__ void scan_tiles(Shared& shared, const Catalog& items, const Task& task, int n_tiles, int stride, Use use) {
    const int lane = threadIdx.x % 32, first = blockIdx.x * WARPS + threadIdx.x / 32;
    Cursor cursor = {first, 0, 0};
    for (int stage = 0; stage < STAGES - 1; ++stage) fetch(shared, items, cursor, n_tiles, stride);
    take_users(shared, items, task, blockIdx.y * USERS);
    int slot = 0;
    for (int tile = first; tile < n_tiles; tile += gridDim.x * WARPS) {
        float products[MT][4][4];
#pragma unroll
        for (int m = 0; m < MT; ++m)
#pragma unroll
            for (int n = 0; n < 4; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e) products[m][n][e] = 0;
        for (int piece = 0; piece < COLUMNS; ++piece) {
            wait_but<STAGES - 2>();
            __syncwarp();  // the stage is complete in all lanes, and all have read the one before
            const unsigned char* stage = shared.stages[threadIdx.x / 32][slot] + 16 * lane;
            unsigned v[4][4];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const float4 x = *(const float4*)(stage + 512 * n);
                v[n][0] = rounded(x.x), v[n][1] = rounded(x.y), v[n][2] = rounded(x.z), v[n][3] = rounded(x.w);
            }
            fetch(shared, items, cursor, n_tiles, stride);
            slot = (slot + 1) % STAGES;
#pragma unroll
            for (int step = 0; step < 2; ++step)
#pragma unroll
                for (int m = 0; m < MT; ++m) {
                    const uint4 u = shared.users[2 * piece + step][m][lane];
#pragma unroll
                    for (int n = 0; n < 4; ++n) multiply(products[m][n], u, v[n][2 * step], v[n][2 * step + 1]);
                }
        }
        use(tile, products);
    }
}

// Lower bounds of the exact scores, for every `stride`-th tile. Grid: tiles x users.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2) sample_scores(Catalog items, Task task) {
    Shared& shared = *(Shared*)memory;
    const int lane = threadIdx.x % 32, base = blockIdx.y * USERS;
    scan_tiles(shared, items, task, task.n_sampled / TILE, task.stride, [&](int tile, float (&products)[MT][4][4]) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int item = 8 * n + lane % 4 * 2;
            const float4 outer = *(const float4*)(items.outer + (long long)tile * task.stride * TILE + item);
#pragma unroll
            for (int m = 0; m < MT; ++m)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int place = 16 * m + lane / 4 + 8 * half, user = base + place;
                    if (user >= task.n_users) continue;
                    const float rest = shared.rest[place], reach = shared.reach[place];
                    const float low = products[m][n][2 * half] - reach * outer.y + outer.x + rest;
                    const float next = products[m][n][2 * half + 1] - reach * outer.w + outer.z + rest;
                    *(float2*)(task.sample + (long long)user * task.n_sampled + tile * TILE + item) = make_float2(low, next);
                }
        }
    });
}

__device__ __forceinline__ void append(const Task& task, int user, int item) {
    if (!is_eligible(task, user, item)) return;
    const int place = atomicAdd(task.counts + 2 * user, 1);
    if (place < task.room) task.rows[(long long)user * task.room + place] = item;
}

// Append every item that passes the filter and may reach the floor to its user's rows. Grid: tiles x users.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2) scan(Catalog items, Task task) {
    Shared& shared = *(Shared*)memory;
    const int lane = threadIdx.x % 32, base = blockIdx.y * USERS;
    scan_tiles(shared, items, task, task.n_tiles, 1, [&](int tile, float (&products)[MT][4][4]) {
        unsigned found[(MT + 1) / 2] = {};  // a bit for each product
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const float4 outer = __ldg((const float4*)(items.outer + (long long)tile * TILE + 8 * n + lane % 4 * 2));
#pragma unroll
            for (int m = 0; m < MT; ++m)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int place = 16 * m + lane / 4 + e / 2 * 8;
                    const float begin = e % 2 ? outer.z : outer.x, norm = e % 2 ? outer.w : outer.y;
                    if (fmaf(shared.reach[place], norm, products[m][n][e]) + begin >= shared.floors[place])
                        found[m / 2] |= 1u << (m % 2 * 16 + 4 * n + e);
                }
        }
#pragma unroll
        for (int word = 0; word < (MT + 1) / 2; ++word)
            while (found[word]) {
                const int bit = __ffs(found[word]) - 1, e = bit % 4, n = bit / 4 % 4, m = 2 * word + bit / 16;
                found[word] &= found[word] - 1;
                append(task, base + 16 * m + lane / 4 + e / 2 * 8, tile * TILE + 8 * n + lane % 4 * 2 + e % 2);
            }
    });
}

// For the launcher: threads of a block, users of a block, bytes of its shared memory.
extern "C" __constant__ int geometry[3] = {32 * WARPS, USERS, (int)sizeof(Shared)};
