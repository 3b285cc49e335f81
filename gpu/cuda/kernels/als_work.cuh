// als.cu and als_wide.cu, part 4: the work items of a block, and their order.

// Block b of G takes items b, 2G − 1 − b, 2G + b, …, which `balanced` (gpu/als/device_plan.py) has ordered so that
// all blocks get equal work. Parts of rows stay in the turn of their range, where they find the fixed table in the cache.
// Every other block takes its whole rows shortest first: at any time some blocks wait for memory (long rows) and some for
// the solver (short ones).
struct Work {
    const Item* items;
    unsigned n_items, n_ordered, n_turns;
    bool is_reversed;
    __device__ __forceinline__ Work(const Item* items, unsigned n_items, unsigned n_parts) : items(items), n_items(n_items) {
        n_ordered = (n_parts + gridDim.x - 1) / gridDim.x;
        n_turns = n_items / gridDim.x;
        if (at(n_turns) < n_items) ++n_turns;
        is_reversed = blockIdx.x % 2;
    }
    __device__ __forceinline__ unsigned at(unsigned turn) const {
        return turn * gridDim.x + (turn & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    }
    __device__ __forceinline__ unsigned number(unsigned turn) const {
        return at(is_reversed && turn >= n_ordered ? n_ordered + n_turns - 1 - turn : turn);
    }
};
