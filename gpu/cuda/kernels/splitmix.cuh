// Keyed random words: the finaliser of splitmix64, bit for bit `mix` of gpu/hashing/host_lsh.py.

typedef unsigned long long Word;
constexpr Word GOLDEN = 0x9E3779B97F4A7C15ull;

__device__ __forceinline__ Word mixed(Word word) {
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    return word ^ word >> 31;
}
