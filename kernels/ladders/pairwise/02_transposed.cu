/* 02_transposed.cu: distances between descriptors that are stored dimension after dimension.
 *
 * Idea: the threads of a warp read element k of 32 neighbouring rows of B at the same time. If
 * these lie beside each other, that is one line of 128 bytes instead of 32 lines. So store the
 * operands the other way around, dimension after dimension: element k of row i at [k][i].
 *
 * What changed: the layout of the operands, and two index expressions. Whoever has them row after
 * row pays for a transposition first, which the caller of this kernel does (GD_DIM_MAJOR) and the
 * ladder's times leave out.
 *
 * What to expect: a load instruction now touches one line, so the caches' transactions fall by
 * 32. What is left is that each element is still read m (or n) times in all, two loads for a
 * subtraction and a multiply-add. The study reports 52.2 us after 201.
 *
 * Reached: 26 us on an H200.
 * Launch: a block for each square of `block` x `block` elements.
 * Source: the study pairwise (Titan V, m = 2048, n = 1024, d = 16), step 2. */
#include "common/launch.cuh"

namespace {

/* a_pitch, b_pitch: elements from one dimension to the next. */
__global__ void transposed(const float *a, ptrdiff_t a_pitch, ptrdiff_t m, const float *b,
                           ptrdiff_t b_pitch, ptrdiff_t n, ptrdiff_t d, float *out,
                           ptrdiff_t out_stride, unsigned across, bool root)
{
    const ptrdiff_t row = blockIdx.x / across * (ptrdiff_t)blockDim.y + threadIdx.y;
    const ptrdiff_t col = blockIdx.x % across * (ptrdiff_t)blockDim.x + threadIdx.x;
    if (row >= m || col >= n) {
        return;
    }
    float sum = 0;
    for (ptrdiff_t k = 0; k < d; ++k) {
        const float t = a[k * a_pitch + row] - b[k * b_pitch + col];
        sum = fmaf(t, t, sum);
    }
    out[row * out_stride + col] = root ? sqrtf(sum) : sum;
}

}  // namespace

extern "C" gd_status gd_cuda_pairwise_transposed(gd_cdist *call, gd_error *err)
{
    const int edge = call->launch.options.value[0];
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    const ptrdiff_t across = gd::ceil_div(call->out.cols, edge);
    GD_CUDA_TRY(err, "pairwise/2_transposed",
                gd::enqueue(call->launch, transposed, across * gd::ceil_div(call->out.rows, edge),
                            dim3(edge, edge), 0, (const float *)call->a.data, call->a.col_stride,
                            call->a.rows, (const float *)call->b.data, call->b.col_stride,
                            call->b.rows, call->a.cols, (float *)call->out.data,
                            call->out.row_stride, (unsigned)across, call->metric == GD_EUCLIDEAN));
    return GD_OK;
}
