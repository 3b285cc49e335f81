// Keyed random words, bit for bit those of gpu/hashing/host_lsh.py and gpu/online/host/refit_users.py, and choices by them.

__device__ __forceinline__ Word draw(Word seed, Word owner, Word other, int number) {
    return mixed(mixed(mixed(owner ^ mixed(seed)) ^ other) + (Word)(number + 1) * GOLDEN);
}

constexpr int MAX_DRAWS = 64;  // as in gpu/online/host/refit_users.py

// The smallest number that at least `wanted` of `n` numbers do not exceed. For all threads of a block.
template <int WARPS, class Numbers> __device__ __forceinline__ Word ranked_word(long long n, long long wanted, Numbers number_of) {
    __shared__ Word least, most;
    if (threadIdx.x == 0) least = ~(Word)0, most = 0;
    __syncthreads();
    Word low = ~(Word)0, high = 0;
    for (long long at = threadIdx.x; at < n; at += 32 * WARPS) {
        const Word number = number_of(at);
        low = number < low ? number : low, high = number > high ? number : high;
    }
    atomicMin(&least, low), atomicMax(&most, high);
    __syncthreads();
    low = least, high = most;
    while (low < high) {
        const Word middle = low + (high - low) / 2;
        int mine = 0;
        for (long long at = threadIdx.x; at < n; at += 32 * WARPS) mine += number_of(at) <= middle;
        if (sum_of_block<WARPS>(mine) >= wanted) high = middle;
        else low = middle + 1;
    }
    return low;
}
