/* tensor_sm90a.cu: how fast Hopper's tensor cores multiply halves into float32 sums.
 *
 * Idea: two groups of 128 threads a multiprocessor multiply 64 x 256 tiles, the largest that one
 * instruction takes, with operands that stay in shared memory. Nothing is loaded, drained or stored
 * meanwhile. The operands' bits are mixed: tensor cores that multiply zeros need less power and
 * clock higher than any kernel's will.
 *
 * Bound: 2048 multiply-adds a clock and multiprocessor, 535e12/s on an H200 at 1.98 GHz; its clock
 * falls under this load. Reached: 462e12/s. */
#include <cuda_fp16.h>

#include "arch/barrier.cuh"
#include "arch/wgmma_sm90.cuh"
#include "common/launch.cuh"

namespace {

constexpr char kId[] = "ceiling/cuda_tensor_wgmma";
constexpr int kGroup = 128, kGroups = 2, kThreads = kGroups * kGroup;
constexpr int kRows = 64, kCols = 256, kDepth = 64, kStep = 16;
constexpr int kRounds = 2048;

/* Operands as the instruction reads them without swizzling: 8 rows of 8 halves are 128 bytes in a
 * row, all rows of 8 dimensions follow each other, then come those of the next 8. */
constexpr int kEight = 8, kCore = kEight * kEight;
struct Shared {
    __half rows[kGroups][kDepth / kEight][kRows / kEight][kCore];
    __half cols[kDepth / kEight][kCols / kEight][kCore];
};
static_assert(sizeof(Shared) <= 48 * 1024, "shared memory that a block has without asking");

/* Whole numbers below 1024 in magnitude over 1024: halves hold them exactly. */
__device__ __forceinline__ __half mixed(int row, int k, int side)
{
    return __float2half((float)((row * 7919 + k * 6151 + side * 3571) % 2047 - 1023) / 1024);
}

template <int kCount>
__device__ __forceinline__ void fill(__half (&to)[kDepth / kEight][kCount / kEight][kCore],
                                     int side)
{
    for (int i = threadIdx.x; i < kCount * kDepth; i += kThreads) {
        const int k = i % kDepth, row = i / kDepth;
        to[k / kEight][row / kEight][row % kEight * kEight + k % kEight] = mixed(row, k, side);
    }
}

/* The address, and the distance from 8 dimensions to the next and from 8 rows to the next, in units
 * of 16 bytes. */
__device__ __forceinline__ uint64_t describe(const void *shared, int count)
{
    const uint64_t address = __cvta_generic_to_shared(shared);
    return address >> 4 | (uint64_t)(count * kEight * 2 >> 4) << 16 | (uint64_t)(128 >> 4) << 32;
}

__global__ void __launch_bounds__(kThreads, 1) multiply_halves(float *results)
{
    __shared__ alignas(128) Shared shared;
    const int group = threadIdx.x / kGroup;
    float sums[kCols / 2], sum = 0;
    for (int g = 0; g < kGroups; ++g) {
        fill<kRows>(shared.rows[g], g);
    }
    fill<kCols>(shared.cols, kGroups);
#pragma unroll
    for (int i = 0; i < kCols / 2; ++i) {
        sums[i] = 0;
    }
    /* The tensor cores read shared memory by another way than the stores above went. */
    gd::fence_other_way_to_shared();
    __syncthreads();
    const uint64_t rows = describe(shared.rows[group], kRows);
    const uint64_t cols = describe(shared.cols, kCols);
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
        gd::begin_products();
#pragma unroll
        for (int k = 0; k < kDepth; k += kStep) {
            /* k dimensions further on, in the descriptor's units of 16 bytes. */
            gd::multiply<true>(sums, rows + k * kRows * 2 / 16, cols + k * kCols * 2 / 16);
        }
        gd::commit_products();
        gd::await_products<1>();
    }
    gd::await_products();
    gd::pin(sums);
#pragma unroll
    for (int i = 0; i < kCols / 2; ++i) {
        sum += sums[i];
    }
    results[blockIdx.x * kThreads + threadIdx.x] = sum; /* so that nothing is dropped */
}

}  // namespace

extern "C" gd_status gd_cuda_ceiling_tensor_wgmma(gd_ceiling *call, gd_error *err)
{
    int sms = 0;
    GD_CUDA_TRY(
        err, kId,
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, call->launch.device.index));
    if (call->launch.sizing) {
        call->launch.workspace_bytes = (size_t)sms * kThreads * sizeof(float);
        call->work = (double)sms * kGroups * kRows * kCols * kDepth * kRounds;
        return GD_OK;
    }
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call->launch, multiply_halves, sms, kThreads, 0,
                            static_cast<float *>(call->launch.workspace)));
    return GD_OK;
}
