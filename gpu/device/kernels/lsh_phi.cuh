// Φ of a user: 256 random bits, and how every half-word of a signature follows from them; as gpu/host/lsh.py has it.

constexpr int STATE = 8;       // half-words that are drawn
constexpr int BYTES_EACH = 4;  // of a half-word

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
