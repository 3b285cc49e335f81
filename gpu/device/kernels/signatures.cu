// What changes of ratings add to the sums of simLSH ([004] eq. 3): Ψ(new) − Ψ(old), bit for bit as gpu/simlsh.py has it.
//
// Compiled for one kind of Ψ: STEPS and LIMIT of the fixed point, KIND. Who owns what: a thread a change, or a place in a
// list. No shared memory. Races: flags, which all set to 1.

enum Kind { ALL_ONE, POWER, RESIDUAL };  // as gpu/device/lsh.py has them

struct Ratings {
    const int *users, *items;
    const float *old, *now;  // NaN: none
    unsigned n;
    int unused;
};
struct Hash {
    const float *user_baseline, *item_baseline;  // those of the snapshot
    const unsigned long long* user_keys;
    double mean, unit;                           // `unit`: what Ψ of STEPS stands for
};

__device__ __forceinline__ int psi(float value, double mean, float user, float item, double unit) {
    if (value != value) return 0;
    if (KIND == ALL_ONE) return 1;
    const double exact = value, weight = (KIND == POWER ? exact * exact : exact - mean - user - item) / unit;
    return (int)fmin(fmax(rint(weight * STEPS), -(double)LIMIT), (double)LIMIT);
}

// Grid: a thread a change. Fills what `lsh.update` takes.
extern "C" __global__ void weigh_changes(Ratings ratings, Hash hash, long long* items, unsigned long long* keys, int* weights) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= ratings.n) return;
    const int user = ratings.users[at], item = ratings.items[at];
    const float one = hash.user_baseline[user], two = hash.item_baseline[item];
    items[at] = item, keys[at] = hash.user_keys[user];
    weights[at] = psi(ratings.now[at], hash.mean, one, two, hash.unit) - psi(ratings.old[at], hash.mean, one, two, hash.unit);
}

// Grid: a thread a place in the lists of the new items `rows`, K each. An item whose list differs becomes due.
extern "C" __global__ void take_lists(
    const int* found, const long long* rows, unsigned n, unsigned k, const long long* counts, int* neighbours, unsigned char* is_due
) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * k) return;
    const long long row = rows[at / k];
    const int neighbour = counts[row] > 0 ? found[at] : -1;
    int& known = neighbours[row * k + at % k];
    if (known == neighbour) return;
    known = neighbour;
    is_due[row] = 1;
}
