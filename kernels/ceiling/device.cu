/* device.cu: how fast this device moves memory and does arithmetic, measured by doing nothing else.
 * A kernel is judged by the share of these that it reaches in the same run.
 *
 * Memory: 16 bytes a thread and access, stored past the caches, over a buffer that should be many
 * times the L2 cache. Arithmetic: enough warps to fill every SM, work that fits registers and
 * shared memory, and operands that no compiler can know or hoist.
 *
 * Reached on an H200: write 4.6, copy 3.9 to 4.1 TB/s (of 4.8 by the data sheet); host to device
 * and back 55.6 and 55.4 GB/s; fma 32.5e12/s, of the 33.4e12 that the pipe can issue; minplus 17.6
 * of 22.3e12/s without negative numbers, in a tile fed from shared memory. */
#include "semiring/rings.cuh"

namespace {

constexpr int kThreads = 256;

gd_status report(gd_ceiling *call, size_t workspace_bytes, double work)
{
    call->launch.workspace_bytes = workspace_bytes;
    call->work = work;
    return GD_OK;
}

gd_status count_sms(const gd_ceiling *call, const char *id, int *sms, gd_error *err)
{
    GD_CUDA_TRY(
        err, id,
        cudaDeviceGetAttribute(sms, cudaDevAttrMultiProcessorCount, call->launch.device.index));
    return GD_OK;
}

/* ---------------------------------------------------------------- memory */

__global__ void __launch_bounds__(kThreads) write_words(float4 *to, ptrdiff_t count)
{
    const ptrdiff_t i = (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    if (i < count) {
        __stcs(to + i, make_float4(1, 2, 3, 4));
    }
}

/* Each thread has eight loads under way; the blocks walk over the buffer side by side. */
constexpr int kReads = 8, kReadBlocksPerSm = 8;
__global__ void __launch_bounds__(kThreads)
    read_words(float *results, const float4 *__restrict__ from, ptrdiff_t count)
{
    const ptrdiff_t threads = (ptrdiff_t)gridDim.x * kThreads;
    const ptrdiff_t me = (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    float sum = 0;
    for (ptrdiff_t first = me; first < count; first += threads * kReads) {
#pragma unroll
        for (int i = 0; i < kReads; ++i) {
            if (first + i * threads < count) {
                const float4 word = __ldcs(from + first + i * threads);
                sum += word.x + word.y + word.z + word.w;
            }
        }
    }
    results[me] = sum; /* so that nothing is dropped */
}

/* Four loads are under way in each thread before the first store waits for one. */
constexpr int kCopies = 4;
__global__ void __launch_bounds__(kThreads)
    copy_words(float4 *__restrict__ to, const float4 *__restrict__ from, ptrdiff_t count)
{
    const ptrdiff_t first = (ptrdiff_t)blockIdx.x * kThreads * kCopies + threadIdx.x;
    float4 words[kCopies];
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
        if (first + i * kThreads < count) {
            words[i] = __ldcs(from + first + i * kThreads);
        }
    }
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
        if (first + i * kThreads < count) {
            __stcs(to + first + i * kThreads, words[i]);
        }
    }
}

/* ---------------------------------------------------------------- arithmetic */

/* Sixteen independent chains a thread: eight warps a scheduler, each with 16 in flight, cover an
 * instruction's latency of four clocks many times over. */
constexpr int kChains = 16, kFmaSteps = 8192, kFmaBlocksPerSm = 8;
template <typename T>
__global__ void __launch_bounds__(kThreads) chain_fmas(T *results, T scale, T shift)
{
    T x[kChains], sum = 0;
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
        x[c] = (T)(threadIdx.x + c);
    }
#pragma unroll 8
    for (int step = 0; step < kFmaSteps; ++step) {
#pragma unroll
        for (int c = 0; c < kChains; ++c) {
            x[c] = fma(x[c], scale, shift);
        }
    }
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
        sum += x[c];
    }
    results[blockIdx.x * kThreads + threadIdx.x] = sum; /* so that nothing is dropped */
}

/* The inner loop of apsp without negative weights, on slabs that stay: each operand of each step is
 * loaded from shared memory, and differs from step to step, so that no sum can be hoisted. */
using Tile = gd::MinplusTile<float, 16, 8, 2, 2>;
constexpr int kPairs = 16, kMinplusRounds = 512, kMinplusBlocksPerSm = 2;
__global__ void __launch_bounds__(Tile::kThreads, kMinplusBlocksPerSm) fold_slabs(float *results)
{
    __shared__ alignas(16) gd::Pair<float> left[kPairs][Tile::kBlockRows];
    __shared__ alignas(16) gd::Pair<float> right[kPairs][Tile::kBlockCols];
    for (int i = threadIdx.x; i < kPairs * Tile::kBlockRows; i += Tile::kThreads) {
        left[0][i] = {(float)(i * 7919 % 1000), (float)(i * 5471 % 1000)};
    }
    for (int i = threadIdx.x; i < kPairs * Tile::kBlockCols; i += Tile::kThreads) {
        right[0][i] = {(float)(i * 104729 % 1000), (float)(i * 3571 % 1000)};
    }
    float c[Tile::kRows][Tile::kCols], sum = 0;
#pragma unroll
    for (int i = 0; i < Tile::kRows * Tile::kCols; ++i) {
        c[i / Tile::kCols][i % Tile::kCols] = 1e30f;
    }
#pragma unroll 1
    for (int round = 0; round < kMinplusRounds; ++round) {
        __syncthreads(); /* as between slabs; also keeps loads inside the loop */
        Tile::for_pairs(kPairs, left, right,
                        [&](int i, int j, const gd::Pair<float> &a, const gd::Pair<float> &b) {
                            gd::PlusUnsigned::fold(c[i][j], a, b);
                        });
    }
#pragma unroll
    for (int i = 0; i < Tile::kRows * Tile::kCols; ++i) {
        sum += c[i / Tile::kCols][i % Tile::kCols];
    }
    results[blockIdx.x * Tile::kThreads + threadIdx.x] = sum;
}

template <typename T>
gd_status run_fmas(gd_ceiling *call, const char *id, gd_error *err)
{
    int sms = 0;
    const gd_status status = count_sms(call, id, &sms, err);
    if (status != GD_OK) {
        return status;
    }
    const int blocks = sms * kFmaBlocksPerSm;
    if (call->launch.sizing) {
        return report(call, (size_t)blocks * kThreads * sizeof(T),
                      (double)blocks * kThreads * kChains * kFmaSteps);
    }
    GD_CUDA_TRY(err, id,
                gd::enqueue(call->launch, chain_fmas<T>, blocks, kThreads, 0,
                            static_cast<T *>(call->launch.workspace), (T)0.999, (T)0.001));
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_ceiling_write(gd_ceiling *call, gd_error *err)
{
    const ptrdiff_t count = (ptrdiff_t)(call->bytes / sizeof(float4));
    if (call->launch.sizing) {
        return report(call, call->bytes, (double)count * sizeof(float4));
    }
    GD_CUDA_TRY(err, "ceiling/cuda_write",
                gd::enqueue(call->launch, write_words, gd::ceil_div(count, kThreads), kThreads, 0,
                            static_cast<float4 *>(call->launch.workspace), count));
    return GD_OK;
}

extern "C" gd_status gd_cuda_ceiling_read(gd_ceiling *call, gd_error *err)
{
    int sms = 0;
    const gd_status status = count_sms(call, "ceiling/cuda_read", &sms, err);
    if (status != GD_OK) {
        return status;
    }
    const ptrdiff_t count = (ptrdiff_t)(call->bytes / sizeof(float4));
    const int blocks = sms * kReadBlocksPerSm;
    if (call->launch.sizing) {
        return report(call, (size_t)count * sizeof(float4) + (size_t)blocks * kThreads * 4,
                      (double)count * sizeof(float4));
    }
    float4 *const from = static_cast<float4 *>(call->launch.workspace);
    GD_CUDA_TRY(err, "ceiling/cuda_read",
                gd::enqueue(call->launch, read_words, blocks, kThreads, 0,
                            reinterpret_cast<float *>(from + count), from, count));
    return GD_OK;
}

extern "C" gd_status gd_cuda_ceiling_copy(gd_ceiling *call, gd_error *err)
{
    const ptrdiff_t count = (ptrdiff_t)(call->bytes / sizeof(float4));
    if (call->launch.sizing) {
        return report(call, 2 * call->bytes, 2.0 * (double)count * sizeof(float4));
    }
    float4 *const to = static_cast<float4 *>(call->launch.workspace);
    GD_CUDA_TRY(err, "ceiling/cuda_copy",
                gd::enqueue(call->launch, copy_words, gd::ceil_div(count, kThreads * kCopies),
                            kThreads, 0, to, to + count, count));
    return GD_OK;
}

extern "C" gd_status gd_cuda_ceiling_h2d(gd_ceiling *call, gd_error *err)
{
    if (call->launch.sizing) {
        call->wants_pinned = true;
        return report(call, call->bytes, (double)call->bytes);
    }
    GD_CUDA_TRY(err, "ceiling/cuda_h2d",
                cudaMemcpyAsync(call->launch.workspace, call->pinned, call->bytes,
                                cudaMemcpyHostToDevice, (cudaStream_t)call->launch.stream));
    return GD_OK;
}

extern "C" gd_status gd_cuda_ceiling_d2h(gd_ceiling *call, gd_error *err)
{
    if (call->launch.sizing) {
        call->wants_pinned = true;
        return report(call, call->bytes, (double)call->bytes);
    }
    GD_CUDA_TRY(err, "ceiling/cuda_d2h",
                cudaMemcpyAsync(call->pinned, call->launch.workspace, call->bytes,
                                cudaMemcpyDeviceToHost, (cudaStream_t)call->launch.stream));
    return GD_OK;
}

extern "C" gd_status gd_cuda_ceiling_fma(gd_ceiling *call, gd_error *err)
{
    return run_fmas<float>(call, "ceiling/cuda_fma", err);
}

extern "C" gd_status gd_cuda_ceiling_fma64(gd_ceiling *call, gd_error *err)
{
    return run_fmas<double>(call, "ceiling/cuda_fma64", err);
}

extern "C" gd_status gd_cuda_ceiling_minplus(gd_ceiling *call, gd_error *err)
{
    int sms = 0;
    const gd_status status = count_sms(call, "ceiling/cuda_minplus", &sms, err);
    if (status != GD_OK) {
        return status;
    }
    const int blocks = sms * kMinplusBlocksPerSm;
    if (call->launch.sizing) {
        return report(
            call, (size_t)blocks * Tile::kThreads * sizeof(float),
            (double)blocks * Tile::kBlockRows * Tile::kBlockCols * 2 * kPairs * kMinplusRounds);
    }
    GD_CUDA_TRY(err, "ceiling/cuda_minplus",
                gd::enqueue(call->launch, fold_slabs, blocks, Tile::kThreads, 0,
                            static_cast<float *>(call->launch.workspace)));
    return GD_OK;
}
