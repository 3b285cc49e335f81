// als_wide.cu, part 2: sizes that follow from F and BIASES, and the contents of shared memory.

constexpr int D = F + BIASES;                   // unknowns of a row
constexpr int LD = (F + 3 * BIASES + 7) / 8 * 8;  // halves in a row of the table
constexpr int WIDE = 256, PLANES = 4;           // columns of A that are computed, in planes of 64
constexpr int PIECES = (F + 7) / 8;             // 16-byte pieces of the factors of a row of the table
static_assert(F <= WIDE && (!BIASES || F % 8 == 0), "one, b̂ and the rest of b̂ are a piece of their own");

constexpr int WARPS = 8, SOLVERS = 32 * WARPS;  // threads that multiply and solve, in two groups of four warps
constexpr int FEEDERS = 128;                    // threads that gather; each of their warps 16 ratings of a stage
constexpr int THREADS = SOLVERS + FEEDERS;
constexpr int HELD = 20;                        // tiles of 16 x 16 of A in a warp: of two rows of 64 x 64 blocks, five in all

constexpr int STAGE = 64, STAGES = 5;           // ratings of a stage, stages in flight
constexpr int ITEMS = 16;                       // work items held: more than the stages and the prefetched items
constexpr int PLANE_BYTES = STAGE * 128, STAGE_BYTES = PLANES * PLANE_BYTES;
constexpr int WORDS = 2 * WIDE / 16 + 4;        // a lane's operands, room included; an odd multiple of 4
constexpr int PARTS = 1 + WARPS;                // partial products: one for rows, and one for each warp's columns
constexpr int PART = WIDE + WIDE / 32 * 8;      // eight floats of room after each 32: lanes then have no bank conflicts

struct Shared {
    alignas(1024) unsigned char tiles[STAGES][STAGE_BYTES];
    alignas(16) unsigned short right[STAGES][2][STAGE];                      // y in two FP16 numbers
    alignas(16) unsigned short beside[STAGES][BIASES ? STAGE : 1][8];       // 1, b̂ in two FP16 numbers, zeros
    alignas(16) Item items[ITEMS];
    alignas(16) float sides[4][WIDE];           // Σ y z, and with biases Σ z, Σ b̂ z in two parts
    alignas(16) float parts[PARTS][PART];
    alignas(16) unsigned operands[3][4][WORDS];  // a vector's high and low parts; zeros
    alignas(16) float4 totals[WARPS];
    float vector[PART];
    alignas(8) unsigned long long full[STAGES], empty[STAGES];  // barriers: a stage has been gathered; has been multiplied
    float largest[WARPS], lengths[WARPS];
    Note notes[STAGES];
};
