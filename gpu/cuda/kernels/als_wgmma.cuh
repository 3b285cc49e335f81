// als_wide.cu, part 5: barriers, and products of whole groups of four warps (`wgmma`), both operands in shared memory.
//
// An operand has 16 ratings; the columns of each are contiguous ("MN-major"). Factors lie in
// planes of 64 columns: a rating's 128 bytes, its eight pieces of 16 bytes exchanged by the rating's number modulo 8, which
// `wgmma` undoes (128-byte swizzle).

typedef unsigned long long Operand;

// Planes from `address` on, eight ratings each 1024 bytes; the next 16 ratings are 2048 bytes further.
__device__ __forceinline__ Operand planes_at(unsigned address) {
    constexpr Operand leading = PLANE_BYTES >> 4, stride = 1024 >> 4, swizzle = 1;
    return (Operand)((address & 0x3ffff) >> 4) | leading << 16 | stride << 32 | swizzle << 62;
}

// Makes writes of threads to shared memory visible to `wgmma`.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Wait until all groups of products except the last N are done.
template <int N> __device__ __forceinline__ void wait_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> __device__ __forceinline__ void settle(float (&sums)[N]) {  // the compiler must not move them
#pragma unroll
    for (int n = 0; n < N; ++n) asm volatile("" : "+f"(sums[n])::"memory");
}
#define NUMBERS_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NUMBERS_1 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NUMBERS_2 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NUMBERS_3 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FLOATS_4(d, n) "+f"((d)[n]), "+f"((d)[(n) + 1]), "+f"((d)[(n) + 2]), "+f"((d)[(n) + 3])
#define FLOATS_16(d, n) FLOATS_4(d, n), FLOATS_4(d, (n) + 4), FLOATS_4(d, (n) + 8), FLOATS_4(d, (n) + 12)
#define FLOATS_32(d, n) FLOATS_16(d, n), FLOATS_16(d, (n) + 16)
#define PRODUCT(columns, numbers, a, b, keep, ...)                                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " keep ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns           \
                 "k16.f32.f16.f16 {" numbers "}, " a ", " b ", p, 1, 1, 1, 1;\n}" __VA_ARGS__ : "l"(a_at), "l"(b_at), "n"(!IS_FIRST))

// d = aᵀ b for 16 ratings, added to d unless `IS_FIRST`; 64 columns of a, COLUMNS of b.
template <int COLUMNS, bool IS_FIRST> __device__ __forceinline__ void product(float* d, Operand a_at, Operand b_at) {
    if constexpr (COLUMNS == 64)
        PRODUCT(64, NUMBERS_0, "%32", "%33", "%34", : FLOATS_32(d, 0));
    else if constexpr (COLUMNS == 128)
        PRODUCT(128, NUMBERS_0 ", " NUMBERS_1, "%64", "%65", "%66", : FLOATS_32(d, 0), FLOATS_32(d, 32));
    else if constexpr (COLUMNS == 192)
        PRODUCT(192, NUMBERS_0 ", " NUMBERS_1 ", " NUMBERS_2, "%96", "%97", "%98",
                : FLOATS_32(d, 0), FLOATS_32(d, 32), FLOATS_32(d, 64));
    else
        PRODUCT(256, NUMBERS_0 ", " NUMBERS_1 ", " NUMBERS_2 ", " NUMBERS_3, "%128", "%129", "%130",
                : FLOATS_32(d, 0), FLOATS_32(d, 32), FLOATS_32(d, 64), FLOATS_32(d, 96));
}

__device__ __forceinline__ void expect(unsigned long long& barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(&barrier)), "r"(count) : "memory");
}
__device__ __forceinline__ void arrive(unsigned long long& barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(&barrier)) : "memory");
}
__device__ __forceinline__ void arrive_when_copied(unsigned long long& barrier) {  // counts as one arrival
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address(&barrier)) : "memory");
}
__device__ __forceinline__ void wait(unsigned long long& barrier, unsigned round) {  // for the end of a round, from 0
    asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra over;\nbra again;\nover:\n}"
                 ::"r"(address(&barrier)), "r"(round & 1) : "memory");
}
__device__ __forceinline__ void meet_solvers() { asm volatile("bar.sync 1, %0;" ::"n"(SOLVERS) : "memory"); }
