// What the threads of a block of WARPS warps find together; all of them have to come.

// Sum over the block, the same in every thread; in a fixed order.
template <int WARPS, class Number> __device__ __forceinline__ Number sum_of_block(Number mine) {
    __shared__ Number of_warps[WARPS];
    for (int by = 16; by > 0; by /= 2) mine += __shfl_xor_sync(~0u, mine, by);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
    __syncthreads();
    Number total = 0;
    for (int warp = 0; warp < WARPS; ++warp) total += of_warps[warp];
    return total;
}

// Number of threads before this one, in the block, for which `holds`; and of all. What was read before it has been read by all.
template <int WARPS> __device__ __forceinline__ int rank_in_block(bool holds, int& total) {
    __shared__ int of_warps[WARPS];
    const unsigned ballot = __ballot_sync(~0u, holds);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = __popc(ballot);
    __syncthreads();
    int before = __popc(ballot & ((1u << threadIdx.x % 32) - 1));
    total = 0;
    for (int warp = 0; warp < WARPS; ++warp) {
        if (warp < (int)(threadIdx.x / 32)) before += of_warps[warp];
        total += of_warps[warp];
    }
    return before;
}
