// What decides whether a pair is a like: a twin of `merits` of gpu/data/evidence.py, which says what a number of a table holds.

constexpr float BOTH_FROM = 0x1p104f, OF_BOTH = 0x1p-117f, RATING_UNIT = 32.0f;

__device__ __forceinline__ float merit_of(float value, float lift) {
    if (!(fabsf(value) >= BOTH_FROM)) return value;
    const unsigned bits = __float_as_uint(value);
    const float size = __uint_as_float((bits & 0x7FFFu) << 13) * 0x1p112f * RATING_UNIT;  // a float16, also below 2^-14
    const float rating = bits & 0x8000u ? -size : size;
    return __fadd_rn(rating, __fmul_rn(lift, __uint_as_float(bits & 0xFFFF0000u) * OF_BOTH));
}
