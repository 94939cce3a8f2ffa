/* 01_naive.cu: distances between points of the plane, one thread a row.
 *
 * Idea: the loop that one would write without a GPU, `for col: out[row][col] = distance(a[row],
 * b[col])`, with a thread for each row. Every thread does the same work on its own data, nothing is
 * shared, nothing has to wait: it looks parallel enough.
 *
 * What to expect: the result is all that counts. 30336 x 30336 float32 are 3.68 GB, 0.78 ms at the
 * 4.7 TB/s that an H200 writes; the points are half a megabyte. But in each turn of the loop the 32
 * threads of a warp store to 32 different rows, so to 32 different sectors of 32 bytes, of which
 * they fill 4 bytes each. Memory is organised in sectors: the caches take in 8 times the
 * transactions that the data needs. And 30336 threads are 7 warps on a multiprocessor that
 * holds 64, too few to hide anything behind anything.
 * The study reports 233 GB/s on a card of 896 GB/s; its code takes 16.4 ms on an H200, 5 % of the
 * limit.
 *
 * Reached: 17.2 ms with the standard block, 214 GB/s; 16.2 ms in blocks of 64, and 34 in blocks of
 * 1024, of which there are too few for the card.
 * Launch: m / block blocks of `block` threads.
 * Source: the study edm2d (RTX 5070 Ti, n = 30336), step 1. */
#include "common/launch.cuh"

namespace {

/* A point is 8 bytes, x and y beside each other. The fused multiply-add is spelled out in all
 * steps, so that they give the same bits. */
__device__ __forceinline__ float distance(float2 p, float2 q)
{
    const float x = p.x - q.x, y = p.y - q.y;
    return sqrtf(fmaf(x, x, y * y));
}

__global__ void naive(const float2 *a, ptrdiff_t m, const float2 *b, ptrdiff_t n, float *out,
                      ptrdiff_t out_stride)
{
    const ptrdiff_t row = blockIdx.x * (ptrdiff_t)blockDim.x + threadIdx.x;
    if (row >= m) {
        return; /* the last block reaches beyond the last row */
    }
    const float2 own = a[row];
    for (ptrdiff_t col = 0; col < n; ++col) {
        /* All threads read the same point here, which costs one access. It is the other side:
         * neighbouring threads write out_stride elements apart. */
        out[row * out_stride + col] = distance(own, b[col]);
    }
}

}  // namespace

extern "C" gd_status gd_cuda_edm2d_naive(gd_cdist *call, gd_error *err)
{
    const int block = call->launch.options.value[0];
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    GD_CUDA_TRY(
        err, "edm2d/1_naive",
        gd::enqueue(call->launch, naive, gd::ceil_div(call->out.rows, block), dim3(block), 0,
                    (const float2 *)call->a.data, call->a.rows, (const float2 *)call->b.data,
                    call->b.rows, (float *)call->out.data, call->out.row_stride));
    return GD_OK;
}
