// Lists of the best: rank keys in descending order, of which a warp keeps one in shared memory.
//
// A rank key holds agreement · 2³² + (2³² − 1 − row), so the larger key is the better neighbor and ties go to the lower row.
// −1 is not a key; it marks an empty slot.

typedef long long Rank;

__device__ __forceinline__ Rank rank_key(int agreement, long long row) { return (Rank)agreement << 32 | (0xFFFFFFFFll - row); }
__device__ __forceinline__ int row_of(Rank key) { return key < 0 ? -1 : (int)(0xFFFFFFFFll - (key & 0xFFFFFFFFll)); }

// Equal bits of two signatures.
__device__ __forceinline__ int agreement_of(const Word* signatures, int n_words, long long one, long long other) {
    int differing = 0;
    for (int w = 0; w < n_words; ++w)
        differing += __popcll(__ldg(signatures + one * n_words + w) ^ __ldg(signatures + other * n_words + w));
    return 64 * n_words - differing;
}

// Insert `key`, equal in all lanes, and drop the last key of the list; a key that the list already has changes nothing.
__device__ __forceinline__ void insert(Rank* list, int k, Rank key) {
    const int lane = threadIdx.x % WARP;
    int place = 0;
    bool is_there = false;
    for (int first = 0; first < k; first += WARP) {
        const Rank own = first + lane < k ? list[first + lane] : -1;
        place += __popc(__ballot_sync(ALL, own > key));
        is_there |= __any_sync(ALL, own == key);
    }
    if (is_there || place == k) return;
    for (int first = (k - 1) / WARP * WARP; first + WARP > place; first -= WARP) {  // from the end: none is lost
        const int at = first + lane;
        const Rank moved = at > place && at < k ? list[at - 1] : key;
        __syncwarp();
        if (at >= place && at < k) list[at] = moved;
        __syncwarp();
    }
}

// Offer a key of each lane that `has` one. For all lanes of a warp.
__device__ __forceinline__ void offer(Rank* list, int k, Rank key, bool has) {
    unsigned waiting = __ballot_sync(ALL, has && key > list[k - 1]);
    for (; waiting; waiting &= waiting - 1) {
        const Rank next = __shfl_sync(ALL, key, __ffs(waiting) - 1);
        if (next > list[k - 1]) insert(list, k, next);
    }
}
