/* 05_pipeline.cu: distances between points of the plane, the next batch copied meanwhile.
 *
 * Idea: in step 4 everybody waits while a batch is copied. With two buffers the next batch can come
 * while this one is worked on: a pipeline of two stages. Each thread copies its points_per_thread
 * points of a batch; committing them closes the stage, and a wait that leaves one stage open waits
 * for the batch before.
 *
 * What changed: two buffers, used in turn through a table of their addresses; the copies go through
 * a cuda::pipeline. The block's own rows are still loaded in the plain way, before everything.
 *
 * What to expect: little. A batch of 1024 points is copied in about a microsecond and worked on for
 * some 90: an H200 gains 2 % at best. Pipelines pay where the copy takes as long as the work. And
 * there is a price. The table is indexed by a run-time number, so it ends up in memory, and what
 * comes out of it may point anywhere: the compiler no longer knows that it is shared memory, and
 * the inner loop loads with LD, which finds that out for each access, where step 4 has LDS. The
 * study gives no figure.
 *
 * Reached: 3.1 ms, 14 % slower than step 4.
 * Launch: m / block blocks of `block` threads, 8 bytes x block x (1 + 2 points_per_thread) of
 * shared memory.
 * Source: the study edm2d (RTX 5070 Ti, n = 30336), step 5. */
#include <cuda/pipeline>

#include "ladders/launch.cuh"

namespace {

constexpr const char *kId = "edm2d/5_pipeline";

__device__ __forceinline__ float distance(float2 p, float2 q)
{
    const float x = p.x - q.x, y = p.y - q.y;
    return sqrtf(fmaf(x, x, y * y));
}

__global__ void pipelined(const float2 *a, ptrdiff_t m, const float2 *b, ptrdiff_t n, float *out,
                          ptrdiff_t out_stride, int batch_size)
{
    extern __shared__ float2 points[];
    float2 *const own = points;
    float2 *const stages[2] = {points + blockDim.x, points + blockDim.x + batch_size};
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    const ptrdiff_t first = blockIdx.x * (ptrdiff_t)blockDim.x;
    const unsigned rows = (unsigned)min(m - first, (ptrdiff_t)blockDim.x);

    const auto fetch = [&](ptrdiff_t from, float2 *stage) {
        pipe.producer_acquire();
        for (int i = threadIdx.x; i < batch_size && from + i < n; i += blockDim.x) {
            cuda::memcpy_async(stage + i, b + from + i, sizeof(float2), pipe);
        }
        pipe.producer_commit(); /* also where there was nothing left to copy */
    };

    if (threadIdx.x < rows) {
        own[threadIdx.x] = a[first + threadIdx.x];
    }
    fetch(0, stages[0]);
    int turn = 0;
    for (ptrdiff_t from = 0; from < n; from += batch_size, ++turn) {
        fetch(from + batch_size, stages[(turn + 1) % 2]);
        cuda::pipeline_consumer_wait_prior<1>(pipe); /* for this thread's part of the batch */
        __syncthreads();                             /* and for everybody's */
        const float2 *const batch = stages[turn % 2];
        const unsigned count = (unsigned)min(n - from, (ptrdiff_t)batch_size);
        unsigned row = threadIdx.x / count, col = threadIdx.x % count;
        const unsigned down = blockDim.x / count, along = blockDim.x % count;
        while (row < rows) {
            out[(first + row) * out_stride + from + col] = distance(own[row], batch[col]);
            row += down, col += along;
            if (col >= count) {
                col -= count, ++row;
            }
        }
        pipe.consumer_release();
        __syncthreads(); /* the next turn overwrites this batch */
    }
}

}  // namespace

extern "C" gd_status gd_cuda_edm2d_pipeline(gd_cdist *call, gd_error *err)
{
    const int block = call->launch.options.value[0], batch = block * call->launch.options.value[1];
    const size_t bytes = (size_t)(block + 2 * batch) * sizeof(float2);
    call->launch.workspace_bytes = 0;
    const gd_status status = gd::check_shared(kId, bytes, err);
    if (status != GD_OK || call->launch.sizing) {
        return status;
    }
    GD_CUDA_TRY(
        err, kId,
        gd::enqueue(call->launch, pipelined, gd::ceil_div(call->out.rows, block), dim3(block),
                    bytes, (const float2 *)call->a.data, call->a.rows, (const float2 *)call->b.data,
                    call->b.rows, (float *)call->out.data, call->out.row_stride, batch));
    return GD_OK;
}
