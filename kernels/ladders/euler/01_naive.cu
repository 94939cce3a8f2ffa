/* 01_naive.cu: distances between points that are stored dimension after dimension, one a thread.
 *
 * Idea: a thread for each element of the result. Its loop over the dimensions reads both operands
 * straight from global memory.
 *
 * What to expect: the layout is kind. Neighbouring threads read neighbouring points of B, one line
 * a load, and the same point of A, one word for all; L1 keeps what the next warps of the block ask
 * for again. Memory is not the limit, then, but the load unit: each dimension of 32 pairs takes two
 * load instructions for a subtraction and a multiply-add, and an SM starts one load a cycle, where
 * it could start four instructions. That allows 16 pairs a cycle and SM, 4.2e12 a second on an
 * H200, a quarter of what the arithmetic does: 0.77 ms for 16000 x 1000 pairs of 200 dimensions.
 * It takes 1.35 ms, as both addresses move on by 64 bits in each turn, four more instructions
 * beside the two that count. (The study's code takes 1.05.)
 * The study reports 29.8 ms, 430 times one CPU thread.
 *
 * Launch: a block for each square of `block` x `block` elements.
 * Source: the study euler (card not named; 16000 x 1000 x 200), step 1. */
#include "common/launch.cuh"

namespace {

/* a_pitch, b_pitch: elements from one dimension to the next. */
__global__ void __launch_bounds__(1024)
    naive(const float *a, ptrdiff_t a_pitch, ptrdiff_t m, const float *b, ptrdiff_t b_pitch,
          ptrdiff_t n, ptrdiff_t d, float *out, ptrdiff_t out_stride, unsigned across, bool root)
{
    const ptrdiff_t row = (ptrdiff_t)(blockIdx.x / across) * blockDim.y + threadIdx.y;
    const ptrdiff_t col = (ptrdiff_t)(blockIdx.x % across) * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) {
        return;
    }
    float sum = 0;
    for (ptrdiff_t k = 0; k < d; ++k) {
        const float difference = a[k * a_pitch + row] - b[k * b_pitch + col];
        sum = fmaf(difference, difference, sum);
    }
    out[row * out_stride + col] = root ? sqrtf(sum) : sum;
}

}  // namespace

extern "C" gd_status gd_cuda_euler_naive(gd_cdist *call, gd_error *err)
{
    const int block = call->launch.options.value[0];
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    const ptrdiff_t across = gd::ceil_div(call->out.cols, block);
    GD_CUDA_TRY(err, "euler/1_naive",
                gd::enqueue(call->launch, naive, across * gd::ceil_div(call->out.rows, block),
                            dim3(block, block), 0, (const float *)call->a.data, call->a.col_stride,
                            call->a.rows, (const float *)call->b.data, call->b.col_stride,
                            call->b.rows, call->a.cols, (float *)call->out.data,
                            call->out.row_stride, (unsigned)across, call->metric == GD_EUCLIDEAN));
    return GD_OK;
}
