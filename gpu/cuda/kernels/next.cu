// Sums of next (gpu/next/trainer.py): two items of a user, i before j by d places, where j has m newer ones, add
// C_dm to together[j, i] and w_d to following[j, i].
//
// A block owns the row j of its item, and its threads take the users who met j in turn, so no other block writes there.
// Its threads share the row, by atomic additions of integers, whose order does not matter: sums equal those of the host,
// bit for bit. A user's earlier items follow one another in memory, read by one thread each. Sums have 63 bits
// (gpu/next/objective.py says how many users fit).

extern "C" __global__ void add_pairs(
    const int* __restrict__ items,            // (N,) slots of all users, the oldest of each user first
    const int* __restrict__ n_newer,          // (N,) newer items of the same user
    const long long* __restrict__ places,     // (N,) places in `items`, by slot
    const long long* __restrict__ firsts,     // (T,) where the places of a slot begin
    const long long* __restrict__ counts,     // (T,) their number
    const long long* __restrict__ popular,    // (T,) slots, those of most users first
    const long long* __restrict__ weights,    // (K + 1,) w
    const long long* __restrict__ shared_by,  // (K, K + 1) C
    int window,                               // K
    long long n_items,                        // T
    unsigned long long* __restrict__ together,   // (T, T)
    unsigned long long* __restrict__ following)  // (T, T)
{
    const long long item = popular[blockIdx.x];
    unsigned long long* row = together + item * n_items;
    unsigned long long* next = following + item * n_items;
    const long long first = firsts[item];
    for (long long n = 0; n < counts[item]; ++n) {
        const long long place = places[first + n];
        const int left = n_newer[place];
        const int m = min(left, window);
        if (threadIdx.x == 0) atomicAdd(row + item, (unsigned long long)shared_by[m]);
        for (int d = 1 + threadIdx.x; d <= window; d += blockDim.x) {
            if (place - d < 0 || n_newer[place - d] != left + d) break;  // another user's
            const int before = items[place - d];
            atomicAdd(next + before, (unsigned long long)weights[d]);
            if (d < window) atomicAdd(row + before, (unsigned long long)shared_by[(long long)d * (window + 1) + m]);
        }
    }
}
