/* 06_pipeline_l2.cu: distances between points of the plane, all points by asynchronous copy.
 *
 * Idea: two refinements of step 5. The block's own rows come by asynchronous copy as well, in the
 * same stage as the first batch, so that one wait covers both and no thread holds a point in a
 * register on its way. And the two halves of the buffer are told apart by an offset that is
 * toggled, where a table of addresses, indexed by a run-time number, may end up in memory.
 *
 * What changed: those two details.
 *
 * What to expect: the loads of the inner loop are LDS again, since an offset into an array leaves
 * no doubt where it lies; own rows are loaded once a block and matter to nobody. So the time of
 * step 4, less the 2 % for waiting on batches. What binds is still the inner loop and how few warps
 * run it. The study gives no figure.
 *
 * Reached: 3.0 ms. The inner loop has the same 39 instructions as that of step 4, in other
 * registers, and takes 9 % longer; we have not found out why.
 * Launch: m / block blocks of `block` threads, 8 bytes x block x (1 + 2 points_per_thread) of
 * shared memory.
 * Source: the study edm2d (RTX 5070 Ti, n = 30336), step 6. */
#include <cuda/pipeline>

#include "ladders/launch.cuh"

namespace {

constexpr const char *kId = "edm2d/6_pipeline_l2";

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
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    const ptrdiff_t first = blockIdx.x * (ptrdiff_t)blockDim.x;
    const unsigned rows = (unsigned)min(m - first, (ptrdiff_t)blockDim.x);

    /* Where the batch of this turn starts, blockDim.x or batch_size further on. */
    unsigned start = blockDim.x;
    const unsigned both = 2 * blockDim.x + batch_size;
    const auto copy = [&](ptrdiff_t from, float2 *to) {
        for (int i = threadIdx.x; i < batch_size && from + i < n; i += blockDim.x) {
            cuda::memcpy_async(to + i, b + from + i, sizeof(float2), pipe);
        }
    };

    pipe.producer_acquire();
    if (threadIdx.x < rows) {
        cuda::memcpy_async(own + threadIdx.x, a + first + threadIdx.x, sizeof(float2), pipe);
    }
    copy(0, points + start);
    pipe.producer_commit();
    for (ptrdiff_t from = 0; from < n; from += batch_size) {
        pipe.producer_acquire();
        copy(from + batch_size, points + (both - start));
        pipe.producer_commit();
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        __syncthreads();
        const float2 *const batch = points + start;
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
        start = both - start;
        __syncthreads(); /* the next turn overwrites this batch */
    }
}

}  // namespace

extern "C" gd_status gd_cuda_edm2d_pipeline_l2(gd_cdist *call, gd_error *err)
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
