/* ahead.cu: what a better vector is made of (perron_ahead.c), on the device.
 *
 * There are at most 66 inner products of 11 steps, of n components each; the host solves for the
 * weights. One block does it: 12 vectors of 8192 are 0.8 MB from the L2 cache and 0.5 M fused
 * multiply-adds, a third of the time of a round that reads A, and there are eleven of those to one
 * of these. A thread keeps all products of its components in registers. */
#include "common.cuh"
#include "perron_judge.h"

namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kVectors = GD_PERRON_KEPT, kSteps = kVectors - 1;
constexpr int kProducts = kSteps * (kSteps + 1) / 2;
constexpr char kId[] = "perron's better vector on the device";

struct Vectors {
    double *of[kVectors];
    ptrdiff_t n;
    int count;
};

struct Weights {
    double of[kVectors];
};

/* Sums over the block, in the order of lanes and warps; every thread has to come. */
template <int kCount>
__device__ void add_up(double (&sums)[kCount], double *totals)
{
    __shared__ double of_warps[kWarps][kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) {
            sums[k] += __shfl_xor_sync(~0u, sums[k], lanes);
        }
        if (threadIdx.x % 32 == 0) {
            of_warps[threadIdx.x / 32][k] = sums[k];
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < kCount; k += kThreads) {
        double total = 0;
        for (int warp = 0; warp < kWarps; ++warp) {
            total += of_warps[warp][k];
        }
        totals[k] = total;
    }
    __syncthreads();
}

__global__ void __launch_bounds__(kThreads)
    walk(const __grid_constant__ Vectors x, gd_perron_steps *steps)
{
    __shared__ double totals[kVectors], products[kProducts];
    const double *const latest = x.of[x.count - 1];
    double sums[kVectors] = {};
    for (ptrdiff_t i = threadIdx.x; i < x.n; i += kThreads) {
#pragma unroll
        for (int k = 0; k < kVectors; ++k) {
            sums[k] += k < x.count ? x.of[k][i] : 0;
        }
    }
    add_up(sums, totals);
    double scales[kVectors], all[kProducts] = {};
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
        scales[k] = k < x.count ? totals[x.count - 1] / totals[k] : 0;
    }
    for (ptrdiff_t i = threadIdx.x; i < x.n; i += kThreads) {
        const double unit = 1 / latest[i];
        double step[kSteps], before = x.of[0][i] * scales[0];
#pragma unroll
        for (int j = 0; j < kSteps; ++j) {
            const double now = j + 1 < x.count ? x.of[j + 1][i] * scales[j + 1] : 0;
            step[j] = j + 1 < x.count ? (now - before) * unit : 0;
            before = now;
        }
#pragma unroll
        for (int j = 0; j < kSteps; ++j) {
#pragma unroll
            for (int k = 0; k <= j; ++k) {
                all[j * (j + 1) / 2 + k] = fma(step[j], step[k], all[j * (j + 1) / 2 + k]);
            }
        }
    }
    add_up(all, products);
    if (threadIdx.x < kVectors) {
        steps->sums[threadIdx.x] = totals[threadIdx.x];
    }
    for (int p = threadIdx.x; p < kSteps * kSteps; p += kThreads) {
        const int j = p / kSteps, k = p % kSteps;
        steps->products[j][k] = k <= j ? products[j * (j + 1) / 2 + k] : 0;
    }
}

__global__ void __launch_bounds__(kThreads)
    combine(const __grid_constant__ Vectors x, const __grid_constant__ Weights weights,
            double share)
{
    const ptrdiff_t i = (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    if (i >= x.n) {
        return;
    }
    double sum = 0;
    for (int k = 0; k < x.count; ++k) {
        sum = fma(weights.of[k], x.of[k][i], sum);
    }
    double *const latest = x.of[x.count - 1] + i;
    *latest = gd_perron_larger(gd_perron_larger(sum, share * *latest), GD_PERRON_LEAST);
}

Vectors vectors_of(const gd_perron &call, int64_t last, int count)
{
    Vectors x = {};
    x.n = call.a.rows;
    x.count = count;
    for (int k = 0; k < count; ++k) {
        x.of[k] = call.vectors + (last - count + 1 + k) % GD_PERRON_KEPT * call.padded;
    }
    return x;
}

}  // namespace

extern "C" gd_status gd_cuda_perron_walk(const gd_perron *call, int64_t last, int count,
                                         void *scratch, gd_perron_steps *steps, gd_error *err)
{
    auto *const found = static_cast<gd_perron_steps *>(scratch);
    const cudaStream_t stream = (cudaStream_t)call->launch.stream;
    GD_CUDA_TRY(
        err, kId,
        gd::enqueue(call->launch, walk, 1, kThreads, 0, vectors_of(*call, last, count), found));
    GD_CUDA_TRY(err, kId,
                cudaMemcpyAsync(steps, found, sizeof *steps, cudaMemcpyDeviceToHost, stream));
    GD_CUDA_TRY(err, kId, cudaStreamSynchronize(stream));
    return GD_OK;
}

extern "C" gd_status gd_cuda_perron_combine(const gd_perron *call, int64_t last, int count,
                                            const double *weights, double share, gd_error *err)
{
    Weights all = {};
    for (int k = 0; k < count; ++k) {
        all.of[k] = weights[k];
    }
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call->launch, combine, gd::ceil_div(call->a.rows, kThreads), kThreads,
                            0, vectors_of(*call, last, count), all, share));
    return GD_OK;
}
