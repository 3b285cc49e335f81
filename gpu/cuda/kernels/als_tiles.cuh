// als.cu, part 2: sizes that follow from F, BIASES, IMPLICIT and STEP, the contents of shared memory, and the tiles of
// a warp.

constexpr int D = F + BIASES;                  // unknowns of a row
constexpr int C = F + 3 * BIASES;              // columns of the table that are used
constexpr int LD = (C + 7) / 8 * 8;            // halves in a row of the table
constexpr int DT = (D + 15) / 16;              // tiles across the unknowns
constexpr int CT = (LD + 15) / 16;             // tiles across a row of the table
constexpr bool NARROW = CT <= 9;
constexpr bool Y_IS_COLUMN = NARROW && LD + 8 <= 16 * CT;  // the last tile has room for it
constexpr int SQUARES = (CT + 3) / 4;                                      // across A
constexpr int EDGE = NARROW ? CT : (CT + SQUARES - 1) / SQUARES;           // tiles across what a warp may hold
constexpr int T = NARROW ? CT : EDGE * SQUARES;                            // tiles across a staged rating
constexpr int N_TILES = T * (T + 1) / 2;                                   // tiles of the triangle
constexpr int MOST = CT == 9 ? 15 : 14;        // tiles of a warp that fit its registers; a fourth code would not fit
constexpr int WARPS = NARROW ? (N_TILES + MOST - 1) / MOST : SQUARES * (SQUARES + 1) / 2;
constexpr int PER_WARP = NARROW ? (N_TILES + WARPS - 1) / WARPS : EDGE * EDGE;
constexpr int SPARE = NARROW && !Y_IS_COLUMN ? 2 : 0;                      // tiles' worth of accumulators for Σ y z
constexpr int HELD = PER_WARP + SPARE;
constexpr int THREADS = 32 * WARPS;
constexpr int VT = NARROW ? DT : T;            // tiles across a vector of the solver
constexpr int PARTS = NARROW ? WARPS : SQUARES;  // partial products of each entry, which are added
constexpr int PAIRS = (16 * VT + 63) / 64;     // pairs of neighboring entries of a vector in a lane
constexpr int VECTOR = 2 * PAIRS;
constexpr int WORDS = 8 * PAIRS + 4;           // a lane's operands, room included; an odd multiple of 4

constexpr int STAGE = 64, STAGES = 2;         // ratings of a stage, stages in flight
constexpr int UNROLLED = NARROW ? 1 : 2;       // steps of 16 ratings in the loop's body: more spill (measured)
constexpr int CHUNKS = LD / 8;                 // 16-byte pieces of a row of the table
constexpr int PASS = THREADS / CHUNKS < STAGE ? THREADS / CHUNKS : STAGE;  // rows that the block gathers at once
constexpr int ROUNDS = (STAGE + PASS - 1) / PASS, RUN = (ROUNDS + 3) / 4 * 4;
constexpr int ROW_BYTES = 32 * T + 16;
constexpr int RING = 2;                        // stages whose column numbers and ratings are held
constexpr int NOTES = 4;                       // stages whose `Note` is held: 2 (STAGES - 1) + 1 at least
constexpr int ITEMS = 8, AHEAD = 4;            // work items held, and how far ahead they are fetched
static_assert(STAGES >= 2 && STAGES <= RING && 2 * (STAGES - 1) < NOTES, "rings are too short");
static_assert(2 * (STAGES - 1) + 1 + AHEAD < ITEMS, "an item would be overwritten before its last stage");
static_assert(!STEP || !BIASES, "a bias is a block of its own");
static_assert(PASS >= 1, "a row of the table is longer than the block is wide");

struct Shared {
    alignas(16) unsigned char tiles[STAGES][STAGE][ROW_BYTES];
    alignas(16) Item items[ITEMS];
    alignas(16) int columns[RING][PASS * RUN];  // rating r at [r % PASS][r / PASS]: together what a thread gathers
    float values[RING][STAGE];
    float lacks[RING][STEP && IMPLICIT ? STAGE : 4];
    alignas(16) unsigned short weights[STAGES][IMPLICIT ? STAGE : 8];
    alignas(16) unsigned short targets[STAGES][3][Y_IS_COLUMN ? 8 : STAGE];  // if y is no column: its two parts, zeros
    alignas(16) float right[2 + 2 * BIASES][16 * T];
    alignas(16) float parts[2][PARTS][64 * PAIRS];
    alignas(16) unsigned operands[2 * WARPS + 1][4][WORDS];  // high and low parts of a vector for each warp; zeros
    float largest[WARPS];
    Note notes[NOTES];
};
constexpr int REGISTERS = NARROW ? HELD * 8 + 56 : PER_WARP * 6 + 72;  // registers of a thread, about
constexpr int BY_REGISTERS = 65536 / (REGISTERS * THREADS), BY_MEMORY = 227 * 1024 / (sizeof(Shared) + 1024);
constexpr int BLOCKS_PER_SM = BY_REGISTERS < 1 ? 1 : BY_REGISTERS < BY_MEMORY ? BY_REGISTERS : BY_MEMORY;

constexpr __host__ __device__ int tile_row(int n) {  // NARROW: of the n-th tile; last row first, in a row last column first
    int row = T - 1;
    while (n > row) n -= row-- + 1;
    return row;
}
constexpr __host__ __device__ int tile_column(int n) {
    int row = T - 1;
    while (n > row) n -= row-- + 1;
    return row - n;
}

// The tiles of a warp; rows and columns count from its `Corner`. Without NARROW they are a square, equal for all warps.
template <int WARP> struct Share {
    static constexpr int first = NARROW ? WARP * PER_WARP : 0;
    static constexpr int count = NARROW && N_TILES - first < PER_WARP ? N_TILES - first : PER_WARP;
    static constexpr __host__ __device__ int row(int n) { return NARROW ? tile_row(first + n) : n / EDGE; }
    static constexpr __host__ __device__ int column(int n) { return NARROW ? tile_column(first + n) : n % EDGE; }
    static constexpr __host__ __device__ bool has(int tile, bool by_row, int below) {
        for (int n = 0; n < count; ++n)
            if (row(n) < below && (by_row ? row(n) : column(n)) == tile) return true;
        return false;
    }
    static constexpr __host__ __device__ bool is_diagonal(int n) { return row(n) == column(n); }
    static constexpr __host__ __device__ int n_diagonal(int below) {  // tiles on the diagonal before the n-th
        int found = 0;
        for (int n = 0; n < below; ++n) found += is_diagonal(n);
        return found;
    }
    static constexpr __host__ __device__ bool has_row(int tile) { return has(tile, true, EDGE); }
    static constexpr __host__ __device__ bool has_column(int tile) { return has(tile, false, EDGE); }
    static constexpr __host__ __device__ bool solves(int n) { return !NARROW || row(n) < DT; }
    static constexpr __host__ __device__ bool solves_column(int tile) { return has(tile, false, NARROW ? DT : EDGE); }
    static constexpr __host__ __device__ bool solves_row(int tile) { return has_row(tile) && (!NARROW || tile < DT); }
};
struct Corner {  // corner of a warp's square
    int row, column;  // tiles
    __device__ __forceinline__ bool on_diagonal() const { return NARROW || row == column; }
};
template <int WARP> __device__ __forceinline__ Corner corner() {
    if constexpr (NARROW) return {0, 0};
    int column = threadIdx.x / 32, row = 0;
    while (column > row) column -= ++row;
    return {row * EDGE, column * EDGE};
}
