// Scattering: turn · stride modulo n, for a stride without a factor in common with n, is a permutation of 0 … n − 1; near
// the golden ratio of n, turns that follow each other are far apart.

__device__ inline unsigned stride_of(unsigned n) {
    unsigned stride = (unsigned)(0.618034f * (float)n);
    for (stride += stride == 0;; ++stride) {
        unsigned a = n, b = stride;
        while (b) {
            const unsigned rest = a % b;
            a = b, b = rest;
        }
        if (a <= 1) return stride;
    }
}

__device__ inline unsigned scattered(unsigned turn, unsigned stride, unsigned n) {
    return (unsigned)((unsigned long long)turn * stride % n);
}
