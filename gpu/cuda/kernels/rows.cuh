// A table of ratings in the memory of the device, as in gpu/online/device/rating_table.py: rows of unequal, changing
// lengths.

struct Directory {         // row x is starts[x] to starts[x] + lengths[x] of flat arrays
    long long *starts, *lengths, *capacities, *end;  // `end`: first position after all rows
};
struct Table {
    Directory by_user;
    int* items;            // items of a user, ascending
    float* values;
    long long* positions;  // a newer rating has a higher position
    Directory by_item;
    int* raters;           // raters of an item, in any order
};
static_assert(sizeof(Table) == 96, "as NumPy writes it");

// Position of the first entry that is not below `wanted`, from `low` to `low + length`.
template <class Entry, class Place> __device__ __forceinline__ Place find(const Entry* entries, Place low, Place length, Entry wanted) {
    while (length > 0) {
        const Place half = length / 2;
        const bool is_above = entries[low + half] < wanted;
        low = is_above ? low + half + 1 : low;
        length = is_above ? length - half - 1 : half;
    }
    return low;
}

__device__ __forceinline__ bool has_rated(const Table& table, int user, int item) {
    const long long start = table.by_user.starts[user], length = table.by_user.lengths[user];
    const long long place = find(table.items, start, length, item);
    return place < start + length && table.items[place] == item;
}

__device__ __forceinline__ bool is_rating(float value) { return value == value; }  // NaN means no rating
