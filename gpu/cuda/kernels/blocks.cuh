// Sums over a block of WARPS warps; all its threads must call them.

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

// Sum over the threads before this one, and over all. It is also a barrier for earlier reads.
template <int WARPS> __device__ __forceinline__ int sum_before(int mine, int& total) {
    __shared__ int of_warps[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int upto = mine;
    for (int by = 1; by < 32; by *= 2) {
        const int before = __shfl_up_sync(~0u, upto, by);
        if (lane >= by) upto += before;
    }
    __syncthreads();
    if (lane == 31) of_warps[warp] = upto;
    __syncthreads();
    int before = upto - mine;
    total = 0;
    for (int other = 0; other < WARPS; ++other) {
        if (other < warp) before += of_warps[other];
        total += of_warps[other];
    }
    return before;
}
