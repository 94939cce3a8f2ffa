/* 01_naive.cu: distances between descriptors, one thread an element.
 *
 * Idea: the result is an m x n matrix, so take a thread for each element and let it read the two
 * rows it needs, straight from memory. Blocks are squares of `block` x `block` threads; x runs
 * along the columns, so the stores of a warp fall in one line.
 *
 * What to expect: 2048 x 1024 elements of 16 dimensions are 67 MFLOP and 8.4 MB written, 2 us of an
 * H200 each. The loads bind. A warp's threads share their row of A (one access, a broadcast), but
 * their rows of B start d elements apart, 64 bytes here: one load instruction touches 16 lines, and
 * they come back for the next dimension, by which time other warps may have taken their place in
 * L1.
 * The study reports 201 us on a Titan V; its code takes about 75 us on an H200.
 *
 * Reached: 78 us. In blocks of 8 x 8 32 us: a warp then has 8 rows of B, and 4 of A.
 * Launch: a block for each square of the result.
 * Source: the study pairwise (Titan V, m = 2048, n = 1024, d = 16), step 1. */
#include "common/launch.cuh"

namespace {

/* root: whether the euclidean distance is wanted, or its square. */
__global__ void naive(const float *a, ptrdiff_t m, const float *b, ptrdiff_t n, ptrdiff_t d,
                      float *out, ptrdiff_t out_stride, unsigned across, bool root)
{
    const ptrdiff_t row = blockIdx.x / across * (ptrdiff_t)blockDim.y + threadIdx.y;
    const ptrdiff_t col = blockIdx.x % across * (ptrdiff_t)blockDim.x + threadIdx.x;
    if (row >= m || col >= n) {
        return;
    }
    float sum = 0;
    for (ptrdiff_t k = 0; k < d; ++k) {
        const float t = a[row * d + k] - b[col * d + k];
        sum = fmaf(t, t, sum);
    }
    out[row * out_stride + col] = root ? sqrtf(sum) : sum;
}

}  // namespace

extern "C" gd_status gd_cuda_pairwise_naive(gd_cdist *call, gd_error *err)
{
    const int edge = call->launch.options.value[0];
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    const ptrdiff_t across = gd::ceil_div(call->out.cols, edge);
    GD_CUDA_TRY(err, "pairwise/1_naive",
                gd::enqueue(call->launch, naive, across * gd::ceil_div(call->out.rows, edge),
                            dim3(edge, edge), 0, (const float *)call->a.data, call->a.rows,
                            (const float *)call->b.data, call->b.rows, call->a.cols,
                            (float *)call->out.data, call->out.row_stride, (unsigned)across,
                            call->metric == GD_EUCLIDEAN));
    return GD_OK;
}
