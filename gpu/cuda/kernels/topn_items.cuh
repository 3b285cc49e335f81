// topn.cu and topn_scan.cu, part 1: the arrays of items and of a batch of requests, and the exact score.
//
// Compiled for G, the factors of a row with its padding: a multiple of 16.

constexpr int ROW = (G + 63) / 64 * 64;  // bytes of a row of small numbers

struct Bound {
    float begin;                   // constant of a plain score (−inf: hidden or no item)
    unsigned rounding;             // two bfloat16: C, and the bound A of what C v loses, of topn_scan.cu
};
// The items of a model are divided into parts by tiles, see gpu/ranking/partition.py. A kernel has the I items of one part:
// an *item* is a position among them, and a *row* one among all items of the model. Requests, neighbors and answers name
// rows; both orders are the same.
struct Catalog {                 // in the layout of gpu/ranking/device_item_index.py; arrays have I items and spare ones
    const float* factors;          // (I, G), zeros beyond F
    signed char* rounded;          // (I, ROW), factors as whole numbers, see topn_scan.cu; zeros beyond F
    Bound* bounds;
    float* fixed;                  // μ + b_j
    float* baselines;              // μ + b̄_j, of all rows
    float* largest;                // one number: bound on the magnitude of the finite constants in `bounds`
    const unsigned char* hidden;
    int* neighbors;               // (I, K), rows; −1: none
    float* explicit_weights;       // (I, K)
    float* implicit_weights;
    const int *starts, *owners;    // items with each of the first `n_listed` rows as a neighbor; may list too many
    int *heads, *nexts, *later;    // later additions: chains of positions in `later`; −1 ends them
    int* n_later;
    int n_items, n_rows, n_listed, n_slots, part, n_parts, is_implicit;
    float middle, lift;            // implicit: a merit (evidence.cuh) below `middle` is a dislike; −inf: no dislikes and no values
};
struct Task {                      // in the layout of gpu/ranking/device_topn.py; B users
    const float *factors, *biases, *baselines;  // (B, G), (B,), (B,)
    const int *seen_starts, *seen;              // (B + 1,) and flat; ascending for each user, as the lists below
    const float* values;
    const int *excluded_starts, *excluded;
    const int* const* candidates;  // (B,): the only rows that may be in the list
    const int* n_candidates;       // (B,), below 0: no candidates, all items may be
    const unsigned* const* filters;  // (B,): a bit for each item that may be in the list; null: all may be
    const int* filter_words;       // (B,): later items do not pass
    float* sample;                 // (B, n_sampled)
    unsigned* touched;             // (B, words), a bit for each item; unused without neighbors
    float* floors;                 // (B,): lower scores cannot be in the list
    int* counts;                   // (B, 2): numbers of found rows and keys, also of those beyond `room`
    int* rows;                     // (B, room): items that may belong to the list
    unsigned long long* keys;      // (B, room)
    int* items;                    // (B, n), the answer
    float* scores;
    int n_users, n, mask_seen, stride, n_sampled, words, room, n_tiles;
};
constexpr int TILE = 32;           // items that are sampled or scanned together; a word of `touched` and of filters
#define NONE __int_as_float(0xff800000)  // −∞

__device__ __forceinline__ bool holds(const int* list, const int* starts, int user, int row) {
    int low = starts[user], high = starts[user + 1];
    while (low < high) {
        const int middle = (low + high) / 2;
        if (list[middle] < row) low = middle + 1; else high = middle;
    }
    return low < starts[user + 1] && list[low] == row;
}

__device__ __forceinline__ int row_of(const Catalog& items, int item) {
    return (item / TILE * items.n_parts + items.part) * TILE + item % TILE;
}

// −1: the row belongs to another part.
__device__ __forceinline__ int item_of(const Catalog& items, int row) {
    const int tile = row / TILE;
    return tile % items.n_parts == items.part ? tile / items.n_parts * TILE + row % TILE : -1;
}

// The items of a tile that pass the user's filter.
__device__ __forceinline__ unsigned eligible_in(const Catalog& items, const Task& task, int user, int tile) {
    const unsigned* filter = task.filters[user];
    const int word = tile * items.n_parts + items.part;
    return !filter ? ~0u : word < task.filter_words[user] ? __ldg(filter + word) : 0u;
}

__device__ __forceinline__ bool is_eligible(const Catalog& items, const Task& task, int user, int item) {
    return eligible_in(items, task, user, item / TILE) >> (item % TILE) & 1;
}

// Bits of what a user has rated, by the last bits of a row: a row without its bit was not rated. They save the search for
// it, which reads memory once for each halving of the list.
constexpr int MARK_WORDS = 2048;
__device__ __forceinline__ bool may_be_rated(const unsigned* marks, int row) {
    return !marks || marks[row / 32 % MARK_WORDS] >> (row % 32) & 1;  // without marks any row may be
}

__device__ __forceinline__ bool is_masked(const Catalog& items, const Task& task, int user, int item, const unsigned* marks = nullptr) {
    const int row = row_of(items, item);
    return !is_eligible(items, task, user, item) || (task.mask_seen && may_be_rated(marks, row) && holds(task.seen, task.seen_starts, user, row)) || holds(task.excluded, task.excluded_starts, user, row);
}

// Eight neighboring lanes, `place` 0 to 7, compute the following together, always in the same order of additions.

__device__ __forceinline__ unsigned eight() { return 0xffu << (threadIdx.x & 24); }
template <class Number> __device__ __forceinline__ Number total(Number x) {
    for (int reach = 4; reach; reach /= 2) x += __shfl_xor_sync(eight(), x, reach);
    return x;
}

__device__ __forceinline__ float product(const float* user, const float* item, int place) {
    const float4 *u = (const float4*)user, *v = (const float4*)item;
    float sum = 0;
#pragma unroll
    for (int f = 0; f < G / 4; f += 8)
        if (f + place < G / 4) {
            const float4 a = __ldg(u + f + place), b = __ldg(v + f + place);
            sum = fmaf(a.x, b.x, sum), sum = fmaf(a.y, b.y, sum), sum = fmaf(a.z, b.z, sum), sum = fmaf(a.w, b.w, sum);
        }
    return total(sum);
}

// --- small numbers; topn_scan.cu has the reasons

constexpr int MOST = G <= 256 ? 127 : 63;  // magnitude, at most: sums of products stay below 2^22
constexpr float USUAL = 0x1.6ap-8f;  // α
constexpr float LARGEST_SCALE = 0x1p60f;  // of an item; its product with a user's scale and a score stays finite

struct Rounded {                   // `Bound`, unpacked
    float begin, scale, lost;
    __device__ __forceinline__ explicit Rounded(const Bound& bound)
        : begin(bound.begin), scale(__uint_as_float(bound.rounding & 0xffff0000u)), lost(__uint_as_float(bound.rounding << 16)) {}
};

__device__ __forceinline__ float scale_of(const float* factors, float most, int place) {
    float largest = 0;
    for (int f = place; f < G; f += 8) largest = fmaxf(largest, fabsf(factors[f]));
    for (int reach = 4; reach; reach /= 2) largest = fmaxf(largest, __shfl_xor_sync(eight(), largest, reach));
    return __uint_as_float(__float_as_uint(fminf(MOST / largest, most)) & 0xffff0000u);
}

struct Lost {
    float whole, rest;             // bounds on the lengths of the rounded row and of what rounding loses
};
__device__ __forceinline__ Lost lost_by(const float* factors, float scale, int place) {
    float whole = 0, rest = 0;
    for (int f = place; f < G; f += 8) {
        const float x = factors[f] * scale, near = rintf(x);
        whole = fmaf(near, near, whole), rest = fmaf(x - near, x - near, rest);
    }
    return {sqrtf(total(whole)) * (1 + 0x1p-16f), sqrtf(total(rest)) * (1 + 0x1p-16f) + 0x1p-12f};  // x is rounded
}

__device__ __forceinline__ unsigned rounded4(float4 x, float scale) {
    const int a = (int)rintf(x.x * scale), b = (int)rintf(x.y * scale), c = (int)rintf(x.z * scale), d = (int)rintf(x.w * scale);
    return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | (unsigned)d << 24;
}

// The neighbor term of the rating at this position, for items that have `row` as a neighbor.
__device__ __forceinline__ float residual_of(const Catalog& items, const Task& task, int user, int row, int place) {
    if (!items.is_implicit) return task.values[place] - (items.baselines[row] + task.baselines[user]);
    return items.middle != NONE && merit_of(task.values[place], items.lift) < items.middle ? -1.0f : 1.0f;
}

// |R|^-½ Σ (r − b) w + |N|^-½ Σ c of [004] eq. 1; `user` below 0: a user without ratings.
__device__ __forceinline__ float terms(const Catalog& items, const Task& task, int user, int item, int place, const unsigned* marks = nullptr) {
    float explicit_sum = 0, implicit_sum = 0;
    int n_rated = 0, n_unrated = 0;
    for (int k = place; k < items.n_slots; k += 8) {
        const long long slot = (long long)item * items.n_slots + k;
        const int x = items.neighbors[slot];
        if (x < 0) continue;
        int low = 0, end = 0;
        if (user >= 0 && may_be_rated(marks, x)) low = task.seen_starts[user], end = task.seen_starts[user + 1];
        int high = end;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (task.seen[middle] < x) low = middle + 1; else high = middle;
        }
        if (low < end && task.seen[low] == x) {
            explicit_sum = fmaf(residual_of(items, task, user, x, low), items.explicit_weights[slot], explicit_sum), ++n_rated;
        } else {
            implicit_sum += items.implicit_weights[slot], ++n_unrated;
        }
    }
    explicit_sum = total(explicit_sum), implicit_sum = total(implicit_sum);
    n_rated = total(n_rated), n_unrated = total(n_unrated);
    return explicit_sum / sqrtf(max(n_rated, 1)) + implicit_sum / sqrtf(max(n_unrated, 1));
}

__device__ __forceinline__ bool is_touched(const Task& task, int user, int item) {
    return task.words && (task.touched[(long long)user * task.words + item / TILE] >> (item % TILE) & 1);
}

// The score that orders lists; −inf if the item is hidden. Adding 0 turns −0 into 0, which it equals.
__device__ __forceinline__ float score(const Catalog& items, const Task& task, int user, int item, bool touched, int place, const unsigned* marks = nullptr) {
    float found = items.bounds[item].begin;
    if (found == NONE) return NONE;
    if (touched) found = items.fixed[item] + terms(items, task, user, item, place, marks);
    found += task.biases[user];
    return found + product(task.factors + (long long)user * G, items.factors + (long long)item * G, place) + 0.0f;
}
