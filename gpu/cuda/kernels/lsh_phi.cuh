// Φ of a user: 256 random bits, and how every half-word of a signature follows from them; as in gpu/hashing/host_lsh.py.

constexpr int STATE = 8;       // drawn half-words
constexpr int BYTES_EACH = 4;  // bytes of a half-word

struct alignas(16) State { unsigned words[STATE]; };

// Half-word w of Φ is s_x ^ (s_y turned by `r` bytes) ^ (s_z turned by `t` bytes): byte m has s_y's byte (m + r) mod 4.
struct Triple { int x, y, z, r, t; };
__device__ constexpr Triple triple(int w) {
    const int x = w % STATE, kind = w / STATE % 7, turn = (w / (7 * STATE) + 15 * kind) % 16;
    const int second = kind < 5 ? 1 : 2, third = kind < 5 ? kind + 2 : kind - 1;
    return {x, (x + second) % STATE, (x + third) % STATE, turn % BYTES_EACH, turn / BYTES_EACH};
}

__device__ __forceinline__ State state_of(Word seed, Word key) {
    const Word stream = mixed(key ^ mixed(seed));
    State state;
#pragma unroll
    for (int n = 0; n < STATE / 2; ++n) {
        const Word drawn = mixed(stream + (n + 1) * GOLDEN);
        state.words[2 * n] = (unsigned)drawn, state.words[2 * n + 1] = (unsigned)(drawn >> 32);
    }
    return state;
}

// sums of an item += weight · Φ, HALVES half-words long. For all threads of a block.
template <int HALVES> __device__ __forceinline__ void add_hashed(int* sums, const State& state, int weight) {
    for (int w = threadIdx.x; w < HALVES; w += blockDim.x) {
        const Triple of = triple(w);
        const unsigned y = state.words[of.y], z = state.words[of.z];
        const unsigned word = state.words[of.x] ^ __funnelshift_r(y, y, 8 * of.r) ^ __funnelshift_r(z, z, 8 * of.t);
#pragma unroll 8
        for (int b = 0; b < WARP; ++b) atomicAdd(sums + b * HALVES + w, word >> b & 1 ? weight : -weight);
    }
}

// Half-word w of the signature of an item with these sums, HALVES half-words long: a bit is 1 where its sum is ≥ 0.
template <int HALVES> __device__ __forceinline__ unsigned signed_word(const int* sums, int w) {
    unsigned word = 0;
#pragma unroll
    for (int b = 0; b < WARP; ++b) word |= (unsigned)(sums[b * HALVES + w] >= 0) << b;
    return word;
}
