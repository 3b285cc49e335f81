// Runs a CUDA kernel on the CPU, for tests without a device: a C++ compiler reads this text and then the kernel's.
//
// Every thread of a block is a fiber with a stack of its own. In turns each runs to its next barrier; `order` 1 lets the
// last thread go first. So a kernel that forgets a barrier finds other numbers in one order than in the other. Blocks run one after
// the other, and shared memory holds NaN before each of them. For kernels without instructions of warps.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <functional>
#include <limits>
#include <vector>

#define __global__
#define __device__
#define __constant__
#define __shared__
#define __align__(n)
#define __forceinline__ inline
#define __launch_bounds__(...)

struct Index { unsigned int x; };
struct double2 { double x, y; };
static Index threadIdx, blockIdx, gridDim;
alignas(16) double memory[1 << 16];

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool is_done;
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static std::function<void()> body;

static void enter() {
    body();
    fibers[threadIdx.x].is_done = true;
    swapcontext(&fibers[threadIdx.x].context, &scheduler);
}

static void __syncthreads() { swapcontext(&fibers[threadIdx.x].context, &scheduler); }

// Let every thread run to its next barrier, or to its end; how many have ended.
static int run_to_barrier(int n_threads, int order) {
    int n_done = 0;
    for (int turn = 0; turn < n_threads; ++turn) {
        threadIdx.x = order ? n_threads - 1 - turn : turn;
        swapcontext(&scheduler, &fibers[threadIdx.x].context);
        n_done += fibers[threadIdx.x].is_done;
    }
    return n_done;
}

static void launch(int n_blocks, int n_threads, int order, std::function<void()> kernel) {
    body = kernel, gridDim.x = n_blocks;
    for (blockIdx.x = 0; blockIdx.x < (unsigned int)n_blocks; ++blockIdx.x) {
        for (double& word : memory) word = std::numeric_limits<double>::quiet_NaN();
        fibers.resize(n_threads);
        for (Fiber& fiber : fibers) {
            fiber.stack.resize(1 << 16), fiber.is_done = false;
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.data(), fiber.context.uc_stack.ss_size = fiber.stack.size();
            fiber.context.uc_link = nullptr;
            makecontext(&fiber.context, enter, 0);
        }
        int n_done = 0;
        while (!n_done) n_done = run_to_barrier(n_threads, order);
        if (n_done < n_threads) fprintf(stderr, "a barrier that some threads do not reach\n"), abort();
    }
}

