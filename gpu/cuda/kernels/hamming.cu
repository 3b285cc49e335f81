// Neighbors by agreement of signatures: every pair on tensor cores, bucket mates, neighbors of neighbors, random filling,
// and the lists that a changed signature may alter. Rank keys and lists: ranks.cuh.
//
// The agreement of two signatures of B bits is B − |a| − |b| + 2 |a ∧ b|: a product of bits (`mma.m16n8k256`) and the
// number of ones of each (`count_ones`).
//
// Who owns what. `agree`: a block of 8 warps owns 128 queries × 128 candidates, a warp 64 × 32 of them; both sides come
// in panels of 1,280 bits, rows 176 bytes apart, so that the 32 lanes of a read use 32 banks. It writes agreements as
// 16-bit numbers, and `select_agreeing` keeps the best of each row: a warp a row, its list in shared memory.
// `rank_buckets` and `rank_second_hand`: a warp an item, a lane one candidate after another. `fill_at_random`: a thread
// a list. `outdated`: a warp a list. Shared memory: `agree` 46 KB; a list takes 8 K bytes, LISTS of them a block.
//
// Limits: B ≤ 65,535; rows below 2³¹. Races: none, lists and rows have one owner; only the number of filled slots is added
// up atomically.

constexpr int TILE = 128, TILE_THREADS = 256;  // sizes of `agree`
constexpr int PANEL = 20, STEPS = PANEL / 4;   // words of a panel, products in it
constexpr int STRIDE = 2 * PANEL + 4;          // half-words from row to row
constexpr int AT_ONCE = 8;                     // agreements that a lane reads at once

// Ones of each signature. Grid: a warp a signature.
extern "C" __global__ void count_ones(const Word* __restrict__ signatures, int n_words, int n, int* __restrict__ ones) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (row >= n) return;
    int count = 0;
    for (int w = lane; w < n_words; w += WARP) count += __popcll(signatures[(long long)row * n_words + w]);
    for (int by = WARP / 2; by; by /= 2) count += __shfl_xor_sync(ALL, count, by);
    if (lane == 0) ones[row] = count;
}

// --- every pair ------------------------------------------------------------------------------------------------------

struct Tiles {
    unsigned rows[2][TILE][STRIDE];  // queries, candidates
    long long items[2][TILE];        // −1 past the end
};

// Words from `first` on, zeros behind the last up to `width`, which whole products read.
__device__ __forceinline__ void load_panel(Tiles& tiles, const Word* signatures, int n_words, int first, int width) {
    for (int n = threadIdx.x; n < 2 * TILE * PANEL; n += TILE_THREADS) {
        const int row = n / PANEL, word = n % PANEL;
        if (word >= width) continue;
        const long long item = (&tiles.items[0][0])[row];
        const bool wanted = item >= 0 && first + word < n_words;
        copy<8>(&tiles.rows[row / TILE][row % TILE][2 * word], signatures + (wanted ? item * n_words + first + word : 0), wanted);
    }
}

// out[q][c]: equal bits of query q and candidate c. Grid: tiles of candidates, tiles of queries.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 2) agree(
    const Word* __restrict__ signatures, int n_words, const int* __restrict__ ones, const long long* __restrict__ queries,
    int n_queries, const long long* __restrict__ candidates, int n_candidates, unsigned short* __restrict__ out, int stride
) {
    __shared__ Tiles tiles;
    const int first_query = blockIdx.y * TILE, first_candidate = blockIdx.x * TILE, t = threadIdx.x % TILE;
    if (threadIdx.x < TILE) tiles.items[0][t] = first_query + t < n_queries ? queries[first_query + t] : -1;
    else tiles.items[1][t] = first_candidate + t < n_candidates ? candidates[first_candidate + t] : -1;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row = warp % 2 * 64, column = warp / 2 * 32;
    int both[4][4][4] = {};
    for (int first = 0; first < n_words; first += PANEL) {
        const int width = min(PANEL, (n_words - first + 3) / 4 * 4);
        __syncthreads();  // items are written; all threads have read the last panel
        load_panel(tiles, signatures, n_words, first, width);
        await_copies();
        __syncthreads();  // the panel is complete
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (4 * step >= width) break;
            const int at = 8 * step + lane % 4;
            unsigned b[4][2];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const unsigned* const from = tiles.rows[1][column + 8 * n + lane / 4] + at;
                b[n][0] = from[0], b[n][1] = from[4];
            }
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                const unsigned* const from = tiles.rows[0][row + 16 * m + lane / 4] + at;
                const unsigned a[4] = {from[0], from[8 * STRIDE], from[4], from[8 * STRIDE + 4]};
#pragma unroll
                for (int n = 0; n < 4; ++n) add_product(both[m][n], a, b[n]);
            }
        }
    }
    const int n_bits = 64 * n_words;
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int q = row + 16 * m + 8 * half + lane / 4;
            if (first_query + q >= n_queries) continue;
            const int rest = n_bits - ones[tiles.items[0][q]];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int c = column + 8 * n + lane % 4 * 2;
                if (first_candidate + c >= n_candidates) continue;
                const long long one = tiles.items[1][c], two = tiles.items[1][c + 1];
                const int left = rest - ones[one] + 2 * both[m][n][2 * half];
                const int right = two < 0 ? 0 : rest - ones[two] + 2 * both[m][n][2 * half + 1];
                *(unsigned*)(out + (long long)(first_query + q) * stride + first_candidate + c) = left | right << 16;
            }
        }
}

// The list of each query among the candidates by their agreements; rows of `agreements` are 16-byte aligned. Candidates ascend,
// so a later one of equal agreement is never better. Grid: a warp a query.
extern "C" __global__ void __launch_bounds__(WARP) select_agreeing(
    const unsigned short* __restrict__ agreements, int stride, const long long* __restrict__ queries,
    const long long* __restrict__ candidates, int n_candidates, int k, Rank* __restrict__ best
) {
    extern __shared__ __align__(16) Rank list[];
    const int lane = threadIdx.x;
    const long long query = queries[blockIdx.x];
    const unsigned short* const row = agreements + (long long)blockIdx.x * stride;
    for (int n = lane; n < k; n += WARP) list[n] = -1;
    __syncwarp();
    for (int first = 0; first < n_candidates; first += WARP * AT_ONCE) {
        const int begin = first + lane * AT_ONCE, worst = (int)(list[k - 1] >> 32);
        const uint4 words = begin < n_candidates ? __ldg((const uint4*)(row + begin)) : uint4{};
        const unsigned pairs[4] = {words.x, words.y, words.z, words.w};
        int largest = -1;
#pragma unroll
        for (int n = 0; n < 4; ++n) largest = max(largest, max((int)(pairs[n] & 0xFFFF), (int)(pairs[n] >> 16)));
        if (!__any_sync(ALL, largest > worst)) continue;
#pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {
            const int agreement = n % 2 ? pairs[n / 2] >> 16 : pairs[n / 2] & 0xFFFF;
            const bool is_better = begin + n < n_candidates && agreement > worst;
            const long long item = is_better ? candidates[begin + n] : query;
            offer(list, k, rank_key(agreement, item), item != query);
        }
    }
    for (int n = lane; n < k; n += WARP) best[(long long)blockIdx.x * k + n] = list[n];
}

// --- some pairs ------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void copy_list(Rank* to, const Rank* from, int k) {
    for (int n = threadIdx.x; n < k; n += WARP) to[n] = from[n];
    __syncwarp();
}

// `words[n]`: 16 bits of each candidate's signature from slice `table` on and the 48 of the slices after it, cyclic.
extern "C" __global__ void coarse_words(
    const unsigned short* __restrict__ slices, int n_slices, const long long* __restrict__ candidates, long long n, int table,
    Word* __restrict__ words
) {
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    Word word = 0;
    for (int part = 0; part < 4; ++part)
        word |= (Word)slices[candidates[at] * n_slices + (table + part) % n_slices] << 16 * part;
    words[at] = word;
}

// Rank each item's bucket mates for it: those whose sorted coarse words share the leading bits, up to `window` on each side.
// Grid: a warp a place of `order`.
extern "C" __global__ void __launch_bounds__(WARP) rank_buckets(
    Rank* __restrict__ best, int k, const Word* __restrict__ signatures, int n_words, const long long* __restrict__ order,
    const Word* __restrict__ words, int n, int shift, int window
) {
    extern __shared__ __align__(16) Rank list[];
    const long long place = blockIdx.x, item = order[place];
    const Word coarse = words[place] >> shift;
    copy_list(list, best + item * k, k);
    for (int side = -1; side <= 1; side += 2)
        for (int first = 1; first <= window; first += WARP) {
            const int step = first + threadIdx.x;
            const long long other = place + side * step;
            const bool is_mate = step <= window && other >= 0 && other < n && words[other] >> shift == coarse;
            const long long mate = is_mate ? order[other] : item;
            const int agreement = is_mate ? agreement_of(signatures, n_words, item, mate) : 0;
            offer(list, k, rank_key(agreement, mate), is_mate);
        }
    copy_list(best + item * k, list, k);
}

// Rank for each candidate the neighbors of its neighbors in `lists`. Grid: a warp a candidate.
extern "C" __global__ void __launch_bounds__(WARP) rank_second_hand(
    Rank* __restrict__ best, int k, const Word* __restrict__ signatures, int n_words, const long long* __restrict__ candidates,
    const int* __restrict__ lists
) {
    extern __shared__ __align__(16) Rank list[];
    const long long item = candidates[blockIdx.x];
    copy_list(list, best + item * k, k);
    for (int n = 0; n < k; ++n) {
        const long long near = lists[item * k + n];
        if (near < 0) break;
        for (int first = 0; first < k; first += WARP) {
            const int far = first + threadIdx.x < k ? lists[near * k + first + threadIdx.x] : -1;
            const bool is_other = far >= 0 && far != item;
            const int agreement = is_other ? agreement_of(signatures, n_words, item, far) : 0;
            offer(list, k, rank_key(agreement, far), is_other);
        }
    }
    copy_list(best + item * k, list, k);
}

// --- lists -----------------------------------------------------------------------------------------------------------

// Item rows of rank keys, −1 where there is none.
extern "C" __global__ void rows_of(const Rank* __restrict__ best, long long n, int* __restrict__ rows) {
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) rows[at] = row_of(best[at]);
}

// Fill empty slots with distinct candidates drawn by (seed, item key), as the host does. Grid: a thread a list.
extern "C" __global__ void fill_at_random(
    int* __restrict__ lists, int k, int n_lists, const long long* __restrict__ candidates, long long n_candidates,
    const long long* __restrict__ queries, const Word* __restrict__ item_keys, Word seed, int* __restrict__ n_filled
) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n_lists) return;
    int* const list = lists + (long long)at * k;
    const long long query = queries[at];
    long long low = 0, high = n_candidates;  // place of the query among the candidates
    while (low < high) {
        const long long middle = (low + high) / 2;
        if (candidates[middle] < query) low = middle + 1;
        else high = middle;
    }
    const bool is_candidate = low < n_candidates && candidates[low] == query;
    const int wanted = (int)min((long long)k, n_candidates - is_candidate);
    int present = 0;
    while (present < wanted && list[present] >= 0) ++present;
    const int found = present;
    Word state = mixed(item_keys[query] ^ mixed(seed));
    while (present < wanted) {
        state += GOLDEN;
        const long long drawn = candidates[mixed(state) % (Word)n_candidates];
        bool is_new = drawn != query;
        for (int n = 0; is_new && n < present; ++n) is_new = list[n] != drawn;
        if (is_new) list[present++] = (int)drawn;
    }
    if (present > found) atomicAdd(n_filled, present - found);
}

// Lists that may differ from a fresh ranking after the items `changed` got new signatures or counts; equal to the
// host's. Grid: a warp a list.
extern "C" __global__ void __launch_bounds__(WARP) outdated(
    const int* __restrict__ lists, int k, const long long* __restrict__ owners, const long long* __restrict__ changed,
    int n_changed, const bool* __restrict__ is_changed, const Word* __restrict__ signatures, int n_words,
    const bool* __restrict__ is_candidate, bool* __restrict__ stale
) {
    const long long owner = owners[blockIdx.x];
    const int* const list = lists + (long long)blockIdx.x * k;
    bool is_stale = is_changed[owner];
    for (int n = threadIdx.x; n < k; n += WARP) is_stale |= list[n] >= 0 && is_changed[list[n]];
    is_stale = __any_sync(ALL, is_stale);
    const int last = k ? list[k - 1] : -1;
    const Rank worst = last < 0 ? -1 : rank_key(agreement_of(signatures, n_words, owner, last), last);
    for (int first = 0; k && !is_stale && first < n_changed; first += WARP) {
        const long long item = first + threadIdx.x < n_changed ? changed[first + threadIdx.x] : -1;
        const bool counts = item >= 0 && is_candidate[item];
        is_stale = __any_sync(ALL, counts && rank_key(agreement_of(signatures, n_words, owner, item), item) > worst);
    }
    if (threadIdx.x == 0) stale[blockIdx.x] = is_stale;
}
