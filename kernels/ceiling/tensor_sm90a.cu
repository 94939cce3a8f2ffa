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

#include "common.cuh"

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

#define GD_SUM4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define GD_SUM16(i) GD_SUM4(i), GD_SUM4(i + 4), GD_SUM4(i + 8), GD_SUM4(i + 12)
#define GD_SUM64(i) GD_SUM16(i), GD_SUM16(i + 16), GD_SUM16(i + 32), GD_SUM16(i + 48)
__device__ __forceinline__ void multiply(float (&sums)[kCols / 2], uint64_t rows, uint64_t cols)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
        "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "
        "%125, %126, %127}, %128, %129, 1, 1, 1, 0, 0;\n"
        : GD_SUM64(0), GD_SUM64(64)
        : "l"(rows), "l"(cols));
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
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const uint64_t rows = describe(shared.rows[group], kRows);
    const uint64_t cols = describe(shared.cols, kCols);
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < kDepth; k += kStep) {
            /* k dimensions further on, in the descriptor's units of 16 bytes. */
            multiply(sums, rows + k * kRows * 2 / 16, cols + k * kCols * 2 / 16);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kCols / 2; ++i) {
        asm volatile("" : "+f"(sums[i])::"memory"); /* not read before the wait */
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
