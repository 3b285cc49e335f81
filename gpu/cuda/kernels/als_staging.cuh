// als.cu, part 5: staging, which prefetches work items, column numbers and rows of the fixed table.

struct Cursor {  // the stage whose column numbers are fetched next; equal in all threads except `place`
    long long place;  // position of this thread's rating
    int left;         // ratings of the item
    unsigned turn;
    bool ended;
};

__device__ __forceinline__ void fetch_item(Shared& shared, const Work& work, unsigned turn) {
    if (turn >= work.n_turns) return;
    const unsigned number = work.number(turn);
    if (threadIdx.x < 2)
        copy16(address(&shared.items[turn % ITEMS]) + 16 * threadIdx.x, (const char*)(work.items + number) + 16 * threadIdx.x, true);
}

__device__ __forceinline__ void enter_item(Shared& shared, const Work& work, Cursor& cursor) {
    cursor.ended = cursor.turn >= work.n_turns;
    if (cursor.ended) return;
    const Item& item = shared.items[cursor.turn % ITEMS];
    cursor.place = item.begin + threadIdx.x;
    cursor.left = item.length;
    fetch_item(shared, work, cursor.turn + AHEAD);
}

// Fetch column numbers and ratings of the cursor's stage, which is the block's `number`-th, and move on.
__device__ __forceinline__ void fetch_numbers(Shared& shared, const Work& work, Cursor& cursor, const Half& half, unsigned number) {
    if (threadIdx.x == 0) {
        const int count = cursor.ended ? END : cursor.left > STAGE ? STAGE : cursor.left | LAST;
        shared.notes[number % NOTES] = {count, cursor.turn};
    }
    if (cursor.ended) return;
#pragma unroll
    for (int rating = threadIdx.x, n = 0; n < STAGE; rating += THREADS, n += THREADS) {
        if (rating < min(cursor.left, STAGE)) {
            copy4(address(&shared.columns[number % RING][rating % PASS * RUN + rating / PASS]), half.columns + cursor.place + n);
            copy4(address(&shared.values[number % RING][rating]), half.values + cursor.place + n);
            if (STEP && IMPLICIT) copy4(address(&shared.lacks[number % RING][rating]), half.lacks + cursor.place + n);
        }
    }
    cursor.place += STAGE;
    cursor.left -= STAGE;
    if (cursor.left > 0) return;
    ++cursor.turn;
    enter_item(shared, work, cursor);
}

// Write the right-hand side of a rating, and in implicit problems its weight.
__device__ __forceinline__ void write_right(
    Shared& shared, const Solver& solver, unsigned tiles, int slot, unsigned number, Note note, int rating
) {
    float y = 0, share = 0;
    if (rating < (note.count & (LAST - 1))) {
        const float value = shared.values[number % RING][rating];
        const float weight = shared.items[note.turn % ITEMS].weight;
        if (IMPLICIT) {
            share = solver.alpha * fabsf(value) * inverse(weight);
            if (STEP) y = shared.lacks[number % RING][rating] * inverse(1 + weight);
            else y = value > 0 ? (1 + solver.alpha * value) * inverse(1 + weight) : 0.0f;  // below 0 it is a dislike
        } else {
            y = (value - solver.mean) * inverse(weight);
        }
    }
    const unsigned short high = half_of(y);
    const float rest = y - float_of(high);
    if (Y_IS_COLUMN)
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %2, %2};" ::"r"(tiles + rating * ROW_BYTES + LD * 2), "r"(pair_of(y, rest)), "r"(0)
                     : "memory");
    else
        shared.targets[slot][0][rating] = high, shared.targets[slot][1][rating] = half_of(rest);
    if (IMPLICIT) shared.weights[slot][rating] = half_of(share);
}

// Gather the rows of the table that the block's `number`-th stage needs, and write its right-hand sides.
__device__ __forceinline__ void gather(Shared& shared, const Half& half, const Solver& solver, unsigned number, int slot) {
    const Note note = shared.notes[number % NOTES];
    if (note.count & END) return;
    const unsigned tiles = address(shared.tiles[slot]);
    const int all = note.count & (LAST - 1), first = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
#pragma unroll
    for (int rating = threadIdx.x, n = 0; n < STAGE; rating += THREADS, n += THREADS)
        if (STAGE % THREADS == 0 || rating < STAGE) write_right(shared, solver, tiles, slot, number, note, rating);
    if (PASS * CHUNKS < THREADS && first >= PASS) return;
    const int* columns = shared.columns[number % RING] + first * RUN;
    const unsigned to = tiles + first * ROW_BYTES + chunk * 16;
    const char* from = (const char*)half.fixed + chunk * 16;
    asm("" : "+l"(from));  // one multiply-add per address: else the compiler adds the parts for each address
    if (all == STAGE) {
#pragma unroll
        for (int n = 0; n < ROUNDS; n += 4) {
            const int4 four = *(const int4*)(columns + n);
            const int each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int k = 0; k < 4 && n + k < ROUNDS; ++k)
                if ((n + k + 1) * PASS <= STAGE || first + (n + k) * PASS < STAGE)
                    copy16(to + (n + k) * PASS * ROW_BYTES, from + (long long)each[k] * (LD * 2), true);
        }
    } else {  // products have 16 ratings: missing ones must be zeros
        const int rounded = (all + 15) / 16 * 16;
#pragma unroll 1
        for (int n = 0; first + n * PASS < rounded; ++n) {
            const bool is_there = first + n * PASS < all;
            copy16(to + n * PASS * ROW_BYTES, from + (is_there ? (long long)columns[n] * (LD * 2) : 0), is_there);
        }
    }
}
