// Shared by kernels of signatures: products of bits, Φ of a user, and asynchronous copies.


constexpr int WARP = 32;
constexpr unsigned ALL = ~0u;

#if __CUDA_ARCH__ >= 800 && !defined(EMULATED)
#define HAS_BIT_PRODUCTS
#endif

// c += popcount(A & B) for A of 16 rows and B of 8 columns of 256 bits, spread over a warp as `mma.m16n8k256` has it: lane
// (g, t) = (lane / 4, lane % 4) holds words t and t + 4 of rows g and g + 8 and of column g, and c of these rows in
// columns 2 t and 2 t + 1. Devices before 8.0, whose tensor cores lack it, do the same with shuffles.
__device__ __forceinline__ void add_product(int (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#ifdef HAS_BIT_PRODUCTS
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    const int lane = threadIdx.x % WARP, row = lane / 4 * 4, column = lane % 4 * 8;
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned one = __shfl_sync(ALL, a[2 * half], row + t), two = __shfl_sync(ALL, a[2 * half + 1], row + t);
            const unsigned left = __shfl_sync(ALL, b[half], column + t), right = __shfl_sync(ALL, b[half], column + 4 + t);
            c[0] += __popc(one & left), c[1] += __popc(one & right);
            c[2] += __popc(two & left), c[3] += __popc(two & right);
        }
#endif
}

// Copy BYTES (8 or 16) from global to shared memory; zeros unless `wanted`. Done after `await_copies`.
template <int BYTES> __device__ __forceinline__ void copy(void* to, const void* from, bool wanted) {
#if __CUDA_ARCH__ >= 800
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 ::"r"(address), "l"(from), "n"(BYTES), "r"(wanted ? BYTES : 0) : "memory");
#else
    for (int n = 0; n < BYTES / 8; ++n) ((Word*)to)[n] = wanted ? ((const Word*)from)[n] : 0;
#endif
}
__device__ __forceinline__ void await_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
