// simLSH ([004] eq. 3): sums A_j = Σ Ψ(r_ij) Φ(H_i) of all columns on tensor cores, updates, and signs.
//
// Sums. Φ is ±1, so A_j = 2 Σ Ψ φ − Σ Ψ with bits φ, and Ψ is a signed byte: Σ Ψ φ = Σ_n 2ⁿ Σ φ ψ_n over the bits ψ_n of Ψ
// (the last counts −128). That is a product of bits: `mma.m16n8k256` takes 16 projections of 256 users with the 8 bits of
// their Ψ. It needs 32 users in a word, but a hash has 32 projections of one user, so bits must be transposed: a dozen
// instructions per word. But every half-word of Φ is the exclusive or of three drawn ones (lsh_phi.cuh), and so is its
// transpose: only the 8 drawn half-words are transposed, and one instruction then makes a word of any projection.
//
// Layout as on the host: projection b·S + w is bit b of half-word w of S. Byte m of a half-word, bit g of a byte: b = 8 m + g.
//
// `project`. A block of 4 warps owns an item: a column, or a part of one, in steps of 256 users, 8 groups of 32. Of each
// step a warp gathers two groups' drawn bits into `raw` (two steps ahead), transposes them into `turned` (one ahead), and
// multiplies all 8 groups for its share of the projections: bytes 2 p and 2 p + 1 (p = warp % 2) of one half (warp / 2) of
// the slice's COUNT half-words from FIRST. Its sums stay in 2 · COUNT registers a lane. Within a group, bit 8 j + i is user
// 4 i + j, so that the Ψ of a lane's four users are one word. Shared memory: 33 KB. Sums of parts are added to memory by
// integer atomics: exact in every order. Ψ of users past the end is 0, whatever their bits.
//
// Compiled for S, FIRST and COUNT (even, at most 76). Limits: |Ψ| ≤ 127; 2³¹ blocks. Races: none between threads; `raw` and
// `turned` have two buffers each; one barrier per step separates writers from readers.

constexpr int THREADS = 128;
constexpr int STEP = 256, GROUPS = STEP / WARP;  // users of a step, groups of 32
constexpr int HELD = COUNT / 2;                  // half-words of a warp
constexpr int CLASSES = 8;                       // bits of a byte
constexpr int WHOLE = -1;

// --- sums ------------------------------------------------------------------------------------------------------------

extern "C" __global__ void draw_states(const Word* __restrict__ keys, long long n, Word seed, State* __restrict__ states) {
    const long long user = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (user < n) states[user] = state_of(seed, keys[user]);
}

struct Shared {
    uint4 turned[2][GROUPS][CLASSES][STATE];  // [group][bit of a byte][drawn half-word]: its 4 bytes; see `chunk_of`
    uint4 raw[2][STEP][2];
    unsigned planes[2][CLASSES][GROUPS];      // [bit of Ψ][group]
};

// Where the words of one drawn half-word lie in a row of `turned`, so that neither writes nor reads have bank
// conflicts.
__device__ __forceinline__ int chunk_of(int drawn, int bit, int group) { return (drawn ^ bit ^ 2 * group) % STATE; }

// An 8 × 8 transposition of bits in each byte, over 8 consecutive lanes.
__device__ __forceinline__ unsigned transposed(unsigned x) {
#pragma unroll
    for (int by = 1; by < 8; by *= 2) {
        const unsigned low = by == 1 ? 0x55555555u : by == 2 ? 0x33333333u : 0x0F0F0F0Fu;
        const bool upper = threadIdx.x & by;
        const unsigned kept = upper ? ~low : low, other = __shfl_xor_sync(ALL, x, by);
        x = (x & kept) | (__funnelshift_l(other, other, upper ? 32 - by : by) & ~kept);
    }
    return x;
}

// Bytes of four words to words of their equal bytes.
__device__ __forceinline__ uint4 by_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
    const unsigned ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
    const unsigned AB = __byte_perm(a, b, 0x7362), CD = __byte_perm(c, d, 0x7362);
    return {__byte_perm(ab, cd, 0x5410), __byte_perm(ab, cd, 0x7632), __byte_perm(AB, CD, 0x5410), __byte_perm(AB, CD, 0x7632)};
}

// The user whose bits lane `lane` gathers: slot 8 j + i holds user 4 i + j of the group.
__device__ __forceinline__ int user_in_group(int lane) { return lane % 8 * 4 + lane / 8; }

// Rows of the users of this lane, one in each of the warp's two groups; −1 past the end.
struct Pair { int users[2]; };
__device__ __forceinline__ Pair users_of(const Item& item, const int* users, int step) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    Pair pair;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int at = step * STEP + (2 * warp + n) * WARP + user_in_group(lane);
        pair.users[n] = at < item.length ? __ldg(users + item.begin + at) : -1;
    }
    return pair;
}

__device__ __forceinline__ void gather(Shared& shared, int turn, const Pair& pair, const State* states) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        uint4* const to = shared.raw[turn][(2 * warp + n) * WARP + lane];
        const uint4* const from = (const uint4*)(states + max(pair.users[n], 0));
        if (pair.users[n] >= 0) copy<16>(to, from, true), copy<16>(to + 1, from + 1, true);
    }
}

// Ψ of users 4 i … 4 i + 3 of a group, a byte each; 0 past the end. `weights` has whole words.
__device__ __forceinline__ unsigned four_weights(const Item& item, const signed char* weights, int at) {
    const int left = item.length - at;
    if (left <= 0) return 0;
    const long long place = item.begin + at;
    const unsigned* const from = (const unsigned*)(weights + (place & ~3ll));
    const int skipped = (int)(place & 3);
    const unsigned next = skipped + min(left, 4) > 4 ? __ldg(from + 1) : 0;
    const unsigned word = __funnelshift_r(__ldg(from), next, 8 * skipped);
    return left < 4 ? word & ((1u << 8 * left) - 1) : word;
}

// Transpose the bits that this warp has gathered for a step, and the bits of Ψ of its groups.
__device__ __forceinline__ void turn_bits(Shared& shared, const Item& item, const signed char* weights, int step) {
    const int turn = step % 2, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, i = lane % 8, q = lane / 8;
    const int first = step * STEP + 2 * warp * WARP;
    const unsigned psi = transposed(q < 2 ? four_weights(item, weights, first + q * WARP + 4 * i) : 0);
    if (q < 2) shared.planes[turn][i][2 * warp + q] = psi;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int group = 2 * warp + n;
        uint2 words[4];  // drawn half-words 2 q and 2 q + 1 of users i, i + 8, … of the slots
#pragma unroll
        for (int j = 0; j < 4; ++j) words[j] = ((const uint2*)shared.raw[turn][group * WARP + 8 * j + i])[q];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const uint4 bytes = k ? by_bytes(words[0].y, words[1].y, words[2].y, words[3].y)
                                  : by_bytes(words[0].x, words[1].x, words[2].x, words[3].x);
            shared.turned[turn][group][i][chunk_of(2 * q + k, i, group)] =
                {transposed(bytes.x), transposed(bytes.y), transposed(bytes.z), transposed(bytes.w)};
        }
    }
}

using Turned = unsigned[2][STATE][BYTES_EACH];  // of groups t and t + 4: [drawn half-word][byte]
using Counts = int[HELD][4];

// Bits of byte m of half-word W for the users of a group.
template <int W> __device__ __forceinline__ unsigned bits(const unsigned (&of)[STATE][BYTES_EACH], int m) {
    constexpr Triple of_word = triple(W);
    return of[of_word.x][m] ^ of[of_word.y][(m + of_word.r) % BYTES_EACH] ^ of[of_word.z][(m + of_word.t) % BYTES_EACH];
}

// Products of half-words W and all after it that a warp holds from BEGIN on, bytes M and M + 1.
template <int M, int BEGIN, int W> __device__ __forceinline__ void multiply(
    Counts& counts, const Turned& turned, const unsigned (&psi)[2]
) {
    if constexpr (W < HELD) {
        constexpr int AT = BEGIN + W;
        const unsigned a[4] = {
            bits<AT>(turned[0], M), bits<AT>(turned[0], M + 1), bits<AT>(turned[1], M), bits<AT>(turned[1], M + 1)};
        add_product(counts[W], a, psi);
        multiply<M, BEGIN, W + 1>(counts, turned, psi);
    }
}

// One step's products; adds Ψ of the lane's bits to `total`.
__device__ __forceinline__ void multiply_step(const Shared& shared, int turn, Counts& counts, int& total) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
    const unsigned psi[2] = {shared.planes[turn][g][t], shared.planes[turn][g][t + 4]};
    total += __popc(psi[0]) + __popc(psi[1]);
    Turned turned;
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int drawn = 0; drawn < STATE; ++drawn) {
            const uint4 words = shared.turned[turn][t + 4 * n][g][chunk_of(drawn, g, t)];
            turned[n][drawn][0] = words.x, turned[n][drawn][1] = words.y;
            turned[n][drawn][2] = words.z, turned[n][drawn][3] = words.w;
        }
    switch (warp) {
        case 0: multiply<0, FIRST, 0>(counts, turned, psi); break;
        case 1: multiply<2, FIRST, 0>(counts, turned, psi); break;
        case 2: multiply<0, FIRST + HELD, 0>(counts, turned, psi); break;
        default: multiply<2, FIRST + HELD, 0>(counts, turned, psi);
    }
}

// Weight of a bit of Ψ.
__device__ __forceinline__ int worth(int bit) { return bit == CLASSES - 1 ? -(1 << bit) : 1 << bit; }

// Σ over the four lanes of a row; lane t gets that of `of[t]`.
__device__ __forceinline__ int spread_sum(const int (&of)[4]) {
    const int t = threadIdx.x % 4;
    const bool upper = t & 2, odd = t & 1;
    const int one = (upper ? of[2] : of[0]) + __shfl_xor_sync(ALL, upper ? of[0] : of[2], 2);
    const int two = (upper ? of[3] : of[1]) + __shfl_xor_sync(ALL, upper ? of[1] : of[3], 2);
    return (odd ? two : one) + __shfl_xor_sync(ALL, odd ? one : two, 1);
}

// A = 2 Σ Ψ φ − Σ Ψ of the item to its row of `sums`.
__device__ __forceinline__ void write_sums(const Item& item, const Counts& counts, int total, int* sums) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
    const int left = worth(2 * t), right = worth(2 * t + 1), m = warp % 2 * 2, begin = FIRST + warp / 2 * HELD;
    int* const row = sums + (long long)item.row * (WARP * S);
    total *= worth(g);
    for (int by = WARP / 2; by; by /= 2) total += __shfl_xor_sync(ALL, total, by);
#pragma unroll
    for (int w = 0; w < HELD; w += 4)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int of[4];
#pragma unroll
            for (int n = 0; n < 4; ++n)
                of[n] = w + n < HELD ? counts[w + n][2 * half] * left + counts[w + n][2 * half + 1] * right : 0;
            const int sum = 2 * spread_sum(of) - total;
            int* const to = row + (8 * (m + half) + g) * S + begin + w + t;
            if (w + t >= HELD) continue;
            if (item.slot == WHOLE) *to = sum;
            else atomicAdd(to, sum);
        }
}

// Grid: a block an item, those past `count` idle.
extern "C" __global__ void __launch_bounds__(THREADS, 2) project(
    const Item* __restrict__ items, const int* __restrict__ count, const int* __restrict__ users,
    const signed char* __restrict__ weights, const State* __restrict__ states, int* __restrict__ sums
) {
    __shared__ Shared shared;
    if (blockIdx.x >= *count) return;
    const Item item = items[blockIdx.x];
    const int steps = (item.length + STEP - 1) / STEP;
    Counts counts = {};
    int total = 0;
    gather(shared, 0, users_of(item, users, 0), states);
    await_copies();
    gather(shared, 1, users_of(item, users, 1), states);
    __syncwarp();  // the warp's gathered bits have arrived
    turn_bits(shared, item, weights, 0);
    Pair next = users_of(item, users, 2);
    for (int step = 0; step < steps; ++step) {
        await_copies();
        __syncthreads();  // this step is transposed, the next one gathered; all threads have read the last one
        gather(shared, step % 2, next, states);
        next = users_of(item, users, step + 3);
        if (step + 1 < steps) turn_bits(shared, item, weights, step + 1);
        multiply_step(shared, step % 2, counts, total);
    }
    await_copies();
    write_sums(item, counts, total, sums);
}

// --- online ----------------------------------------------------------------------------------------------------------

// sums[item] += weight · Φ(user) of each change. Grid: a block a change, its threads share the half-words.
extern "C" __global__ void update(
    int* __restrict__ sums, const long long* __restrict__ items, const Word* __restrict__ keys,
    const int* __restrict__ weights, Word seed
) {
    __shared__ State state;
    const int weight = weights[blockIdx.x];
    if (weight == 0) return;
    if (threadIdx.x == 0) state = state_of(seed, keys[blockIdx.x]);
    __syncthreads();
    add_hashed<S>(sums + items[blockIdx.x] * (WARP * S), state, weight);
}

// Signatures of `items`: a bit is 1 where its sum is ≥ 0. Grid: a thread a half-word.
extern "C" __global__ void sign(
    unsigned* __restrict__ signatures, const int* __restrict__ sums, const long long* __restrict__ items, long long n
) {
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * S) return;
    const long long item = items[at / S];
    const int w = (int)(at % S);
    signatures[item * S + w] = signed_word<S>(sums + item * (WARP * S), w);
}
