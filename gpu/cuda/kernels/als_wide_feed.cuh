// als_wide.cu, part 6: feeder warps, which prefetch work items, column numbers and rows of the fixed table for the
// solvers.

struct Load {  // of a stage: this lane's rating (lanes 0–15), number of ratings | LAST | END, and the item
    int column;
    float value, weight;
    int count;
    unsigned turn;
};
struct Feed {  // position of the next fetch
    Item item, next;
    unsigned turn;  // turn of `item`; `next` is the item after it
    int done;       // fetched ratings of `item`
};

__device__ __forceinline__ Item item_of(const Work& work, unsigned turn) {
    Item item = {};
    if (turn < work.n_turns) {
        const int4* from = (const int4*)(work.items + work.number(turn));
        ((int4*)&item)[0] = __ldg(from), ((int4*)&item)[1] = __ldg(from + 1);
    }
    return item;
}

// Begin to fetch the next stage's ratings.
__device__ __forceinline__ Load fetch(Shared& shared, const Work& work, Feed& feed, const Half& half) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - WARPS, mine = 16 * warp + lane;
    Load load = {0, 0, 0, END, feed.turn};
    if (feed.turn >= work.n_turns) return load;
    if (!feed.done && threadIdx.x == SOLVERS) shared.items[feed.turn % ITEMS] = feed.item;
    const int left = feed.item.length - feed.done;
    load.weight = feed.item.weight;
    load.count = left > STAGE ? STAGE : left | LAST;
    if (lane < 16 && mine < left) {
        const long long place = feed.item.begin + feed.done + mine;
        load.column = __ldg(half.columns + place), load.value = __ldg(half.values + place);
    }
    feed.done += STAGE;
    if (left > STAGE) return load;
    feed.item = feed.next, feed.done = 0;
    feed.next = item_of(work, ++feed.turn + 1);
    return load;
}

// Write the right-hand side of a rating: y as a share of the row's largest, in two FP16 numbers.
__device__ __forceinline__ void write_right(Shared& shared, const Solver& solver, const Load& load, int slot, int rating, bool is_there) {
    const float y = is_there ? (load.value - solver.mean) * inverse(load.weight) : 0.0f;
    const unsigned short high = half_of(y);
    shared.right[slot][0][rating] = high, shared.right[slot][1][rating] = half_of(y - float_of(high));
}

// Fill a stage: a warp gathers the 16 rows of the table for one product; missing ratings become zeros.
__device__ __forceinline__ void fill(Shared& shared, const Load& load, const Half& half, const Solver& solver, unsigned number) {
    const int slot = number % STAGES, lane = threadIdx.x % 32, first = (threadIdx.x / 32 - WARPS) * 16;
    const int here = (load.count & (LAST - 1)) - first;  // ratings of this warp
    wait(shared.empty[slot], number / STAGES + 1);  // the round before this one is over; the first wait returns at once
    if (threadIdx.x == SOLVERS) shared.notes[slot] = {load.count, load.turn};
    if (here > 0) {
        if (lane < 16) {
            write_right(shared, solver, load, slot, first + lane, lane < here);
            if constexpr (BIASES)
                copy16(address(shared.beside[slot][first + lane]), half.fixed + (long long)load.column * LD + F, lane < here);
        }
        const unsigned to = address(shared.tiles[slot]) + lane / 8 * PLANE_BYTES + first * 128 + lane % 8 * 16;
        const char* from = (const char*)half.fixed + lane * 16;
        asm("" : "+l"(from));  // one multiply-add per address: else the compiler adds the parts for each address
#pragma unroll
        for (int n = 0; n < 16; ++n) {
            const int column = __shfl_sync(~0u, load.column, n);  // 0 without a rating
            if (PIECES == 32 || lane < PIECES) copy16((to ^ n % 8 * 16) + n * 128, from + (long long)column * (LD * 2), n < here);
        }
    }
    arrive_when_copied(shared.full[slot]);
    arrive(shared.full[slot]);
}

__device__ __forceinline__ void feed(Shared& shared, const Work& work, const Half& half, const Solver& solver) {
    Feed feed = {item_of(work, 0), item_of(work, 1), 0, 0};
    Load loads[3];  // no copies in between: else the compiler waits for a load where it is moved
#pragma unroll
    for (int n = 0; n < 3; ++n) loads[n] = fetch(shared, work, feed, half);
    for (unsigned number = 0;; number += 3) {
#pragma unroll
        for (int n = 0; n < 3; ++n) {
            fill(shared, loads[n], half, solver, number + n);
            if (loads[n].count & END) return;
            loads[n] = fetch(shared, work, feed, half);
        }
    }
}
