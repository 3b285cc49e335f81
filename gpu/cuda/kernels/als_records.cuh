// als.cu and als_wide.cu, part 1: inputs and outputs of a half-iteration, and the notes of stages.

// Item, SplitRow and Solver are in common.cuh, which precedes this text.
constexpr int MOST_PEERS = 7;
struct Half {  // inputs and outputs of a half-iteration
    const int* columns;
    const float* values;
    const unsigned short* fixed;
    const uint4* gram;        // implicit problems: G in FP16, in the order of the accumulators, and
    const float* gram_unit;   // the number to multiply it by
    float* solved;            // `STRIDE` floats a row
    unsigned short* table;
    float4* partials;
    const float* lacks;       // STEP, implicit problems: the residual t of each rating,
    const float* product;     // and VᵀV x of the block, `F` floats a row
    float* steps;             // STEP: the steps, `F` floats a row
    unsigned short* peers[MOST_PEERS];  // the same rows in the tables of other ranks, on their devices
    int n_peers;
};

// Write an FP16 number of a solved row: to our table and, over the link, to those of other ranks. These
// tables are read only by later launches, and ranks wait for each other in between, so stores need no order.
__device__ __forceinline__ void put_half(const Half& half, long long at, unsigned short number) {
    half.table[at] = number;
    for (int peer = 0; peer < half.n_peers; ++peer) half.peers[peer][at] = number;
}

// The same for two neighboring numbers, from an even column on. A warp then writes whole lines: stores of single numbers
// at every other place would each send a mask of bytes over the link.
__device__ __forceinline__ void put_halves(const Half& half, long long at, unsigned pair) {
    *(unsigned*)(half.table + at) = pair;
    for (int peer = 0; peer < half.n_peers; ++peer) *(unsigned*)(half.peers[peer] + at) = pair;
}

struct Note {         // note of a stage: number of ratings | LAST | END, and the turn of its item
    int count;
    unsigned turn;
};
constexpr int LAST = 1 << 8, END = 1 << 9;

template <int N> struct Int { static constexpr int value = N; };
template <int I, int N, class Body> __device__ __forceinline__ void repeat(Body body) {
    if constexpr (I < N) {
        body(Int<I>());
        repeat<I + 1, N>(body);
    }
}
