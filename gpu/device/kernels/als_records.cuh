// als.cu and als_wide.cu, part 1: what a half-iteration reads and writes, and the notes that stages come with.

// Item, SplitRow and Solver are in common.cuh, which is put before this text.
struct Half {  // what a half-iteration reads and writes
    const int* columns;
    const float* values;
    const unsigned short* fixed;
    const uint4* gram;        // implicit problems: G in FP16, in the order of the accumulators, and
    const float* gram_unit;   // what it is to be multiplied by
    float* solved;            // `STRIDE` floats a row
    unsigned short* table;
    float4* partials;
    const float* lacks;       // where blocks are improved, implicit problems: what each rating still lacks, t;
    const float* product;     // and VᵀV x of the block, `F` floats a row
    float* steps;             // where blocks are improved: by how much, `F` floats a row
};
struct Note {         // of a stage: how many ratings | LAST | END, and the turn of its item
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
