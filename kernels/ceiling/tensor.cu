/* tensor.cu: how fast tensor cores multiply by warps: halves into float32 sums, and float64.
 *
 * Idea: each warp has eight independent sums in registers and adds products of operands that stay
 * in registers as well, so that nothing but the tensor cores is busy. The operands' bits are mixed:
 * tensor cores that multiply zeros need less power and clock higher than any kernel's will.
 *
 * Bound: of halves 2048 multiply-adds a clock and multiprocessor, of which products by warps reach
 * some 60 % on Hopper (tensor_sm90a.cu has the other form); of float64 128, 33.4e12/s on an H200.
 * Reached there: 300e12/s of halves, 33.0e12/s of float64. */
#include "arch/mma.cuh"
#include "common/launch.cuh"

namespace {

constexpr int kThreads = 256, kBlocksPerSm = 2, kChains = 8, kSteps = 2048;

/* sum += a * b for 16 rows, 8 columns and kDepth dimensions; a thread holds four elements of the
 * sums, and `Part`s of both operands. */
struct Halves {
    using Sum = float;
    using Part = unsigned; /* two halves */
    static constexpr int kDepth = 16, kPartsA = 4, kPartsB = 2;

    /* Two halves between 1 and 2 whose last bits are mixed. */
    static __device__ __forceinline__ Part mixed(unsigned i)
    {
        return 0x3c003c00 | ((i * 2654435761u) & 0x03ff03ff);
    }

    static __device__ __forceinline__ void add(Sum (&s)[4], const Part (&a)[4], const Part (&b)[2])
    {
        gd::multiply_add(s, a, b);
    }
};

struct Doubles {
    using Sum = double;
    using Part = double;
    static constexpr int kDepth = 8, kPartsA = 4, kPartsB = 2;

    static __device__ __forceinline__ Part mixed(unsigned i)
    {
        return 1.0 + (double)(i * 2654435761u) * 0x1p-32;
    }

    static __device__ __forceinline__ void add(Sum (&s)[4], const Part (&a)[4], const Part (&b)[2])
    {
        gd::multiply_add(s[0], s[1], s[2], s[3], a[0], a[1], a[2], a[3], b[0], b[1]);
    }
};

template <typename Kind>
__global__ void __launch_bounds__(kThreads) chain_products(typename Kind::Sum *results)
{
    typename Kind::Sum sums[kChains][4] = {}, sum = 0;
    typename Kind::Part a[Kind::kPartsA], b[kChains][Kind::kPartsB];
#pragma unroll
    for (int i = 0; i < Kind::kPartsA; ++i) {
        a[i] = Kind::mixed(threadIdx.x * Kind::kPartsA + i);
    }
#pragma unroll
    for (int i = 0; i < kChains * Kind::kPartsB; ++i) {
        b[i / Kind::kPartsB][i % Kind::kPartsB] = Kind::mixed(threadIdx.x + i * kThreads);
    }
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int c = 0; c < kChains; ++c) {
            Kind::add(sums[c], a, b[c]);
        }
    }
#pragma unroll
    for (int i = 0; i < kChains * 4; ++i) {
        sum += sums[i / 4][i % 4];
    }
    results[blockIdx.x * kThreads + threadIdx.x] = sum; /* so that nothing is dropped */
}

template <typename Kind>
gd_status run(gd_ceiling *call, const char *id, gd_error *err)
{
    int sms = 0;
    GD_CUDA_TRY(
        err, id,
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, call->launch.device.index));
    const int blocks = sms * kBlocksPerSm;
    if (call->launch.sizing) {
        call->launch.workspace_bytes = (size_t)blocks * kThreads * sizeof(typename Kind::Sum);
        call->work = (double)blocks * (kThreads / 32) * kChains * kSteps * 16 * 8 * Kind::kDepth;
        return GD_OK;
    }
    GD_CUDA_TRY(err, id,
                gd::enqueue(call->launch, chain_products<Kind>, blocks, kThreads, 0,
                            static_cast<typename Kind::Sum *>(call->launch.workspace)));
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_ceiling_tensor_mma(gd_ceiling *call, gd_error *err)
{
    return run<Halves>(call, "ceiling/cuda_tensor_mma", err);
}

extern "C" gd_status gd_cuda_ceiling_tensor64(gd_ceiling *call, gd_error *err)
{
    return run<Doubles>(call, "ceiling/cuda_tensor64", err);
}
