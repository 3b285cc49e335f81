// Definitions that all kernels of this folder share; the text precedes each of them.

struct Item {         // a row, or a part of one
    long long begin;  // position of its first rating
    int row, length;
    int slot;         // −1: a whole row; else the slot of its sums
    float weight;     // implicit: largest α |r| of the whole row; explicit: largest |r − μ|; above 0
    int total;        // ratings of the whole row
    int unused;
};
struct SplitRow {     // a row whose sums lie in consecutive slots
    int row, first_slot, n_slots, total;
    float weight;
    int unused[3];
};
struct Solver {       // constants of a half-iteration
    float alpha, mean, regularization, exponent, offset, prior;  // ρ = λ (n + offset)^ν + λ0
    float tolerance;
    int n_steps;
};
static_assert(sizeof(Item) == 32 && sizeof(SplitRow) == 32 && sizeof(Solver) == 32, "as NumPy writes them");
