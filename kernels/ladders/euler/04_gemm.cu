/* 04_gemm.cu: distances from a matrix product.
 *
 * Idea: (a - b)^2 = a^2 + b^2 - 2 a b. Summed up over the dimensions, the first two are the norms
 * of points, m + n of them, and the last is a matrix product, on which libraries have worked for
 * decades. This one is from cuBLAS.
 *
 * What changed: everything. Three kinds of kernel in place of one: norms, product, epilogue.
 *
 * What to expect: a product takes one multiply-add a dimension and pair, where the direct form
 * takes a subtraction besides, and cuBLAS keeps its tiles in registers: it does 25e12 of them a
 * second on an H200 in float32, 0.13 ms for 16000 x 1000 x 200, a sixth of step 2's limit. The
 * epilogue reads and writes the result once more: 128 MB, 0.03 ms. It takes 0.22 ms after 1.12, of
 * which cuBLAS takes 0.15 and the epilogue 0.05; with 15000 dimensions 0.76 after 5.0.
 * The study reports 15.1 ms after 20.8, and 32.7 after 68.0 with 15000 dimensions.
 *
 * What it costs: digits. For close points a^2 + b^2 and 2 a b are nearly the same, and their
 * difference consists of what both rounded away. Equal points come out apart, by some 1e-3 of their
 * distance from the origin, and what falls below 0 has to be clamped before the root. Which kernel
 * cuBLAS picks, and so each rounding, goes by the sizes: a row is not the same in a larger matrix.
 * Where production uses this form (kernels/cdist/product_f32/operands.cuh) it computes all
 * elements that cancel a second time.
 *
 * Launch: two of norms, those of cuBLAS, and 256 columns x 8 rows a block for the epilogue.
 * Source: the study euler (card not named; 16000 x 1000 x 200), step 4. */
#include "common/launch.cuh"
#include "cublas.h"

namespace {

constexpr const char *kId = "euler/4_gemm";
constexpr int kPoints = 32, kShares = 32; /* of a block of norms: points, shares of a sum */
constexpr int kThreads = 256, kRows = 8;  /* of a block of the epilogue */

/* Point i's norm is added up by 32 threads, which take the dimensions in turns: there may be few
 * points of many dimensions. */
__global__ void __launch_bounds__(kPoints *kShares)
    add_squares(const float *x, ptrdiff_t pitch, ptrdiff_t count, ptrdiff_t d, float *norms)
{
    __shared__ float shares[kShares][kPoints];
    const ptrdiff_t i = (ptrdiff_t)blockIdx.x * kPoints + threadIdx.x;
    float sum = 0;
    if (i < count) {
#pragma unroll 4 /* loads under way together */
        for (ptrdiff_t k = threadIdx.y; k < d; k += kShares) {
            const float value = x[k * pitch + i];
            sum = fmaf(value, value, sum);
        }
    }
    shares[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && i < count) {
        for (int share = 1; share < kShares; ++share) {
            sum += shares[share][threadIdx.x];
        }
        norms[i] = sum;
    }
}

/* The direct form, for the few elements that the other one has no answer to. */
__device__ float direct(const gd_matrix &a, const gd_matrix &b, ptrdiff_t row, ptrdiff_t col)
{
    float sum = 0;
    for (ptrdiff_t k = 0; k < a.cols; ++k) {
        const float difference = static_cast<const float *>(a.data)[k * a.col_stride + row] -
                                 static_cast<const float *>(b.data)[k * b.col_stride + col];
        sum = fmaf(difference, difference, sum);
    }
    return sum;
}

/* Adds the norms to `out`, which holds -2 a b. A thread asks for all its products before it waits
 * for the first: one at a time would leave the memory idle for most of the time. */
__global__ void __launch_bounds__(kThreads)
    add_norms(const __grid_constant__ gd_matrix a, const __grid_constant__ gd_matrix b,
              const float *a_norms, const float *b_norms, float *out, ptrdiff_t out_stride,
              unsigned across, bool root)
{
    const ptrdiff_t first = (ptrdiff_t)(blockIdx.x / across) * kRows;
    const ptrdiff_t col = (ptrdiff_t)(blockIdx.x % across) * kThreads + threadIdx.x;
    if (col >= b.rows) {
        return;
    }
    float *const at = out + first * out_stride + col;
    const int rows = (int)min((ptrdiff_t)kRows, a.rows - first);
    const float b_norm = b_norms[col];
    float squares[kRows];
    unsigned lost = 0; /* bit i: infinity - infinity, where one is infinitely far away */
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        squares[i] = i < rows ? a_norms[first + i] + b_norm + at[i * out_stride] : 0;
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const float square = squares[i] < 0 ? 0 : squares[i]; /* fmaxf would make 0 of a NaN */
        lost |= !isfinite(squares[i]) << i;
        if (i < rows) {
            at[i * out_stride] = root ? sqrtf(square) : square;
        }
    }
    for (; lost != 0; lost &= lost - 1) {
        const int i = __ffs(lost) - 1;
        const float square = direct(a, b, first + i, col);
        at[i * out_stride] = root ? sqrtf(square) : square;
    }
}

cudaError_t enqueue_squares(const gd_launch &launch, const gd_matrix &x, float *norms)
{
    return gd::enqueue(launch, add_squares, gd::ceil_div(x.rows, kPoints), dim3(kPoints, kShares),
                       0, static_cast<const float *>(x.data), x.col_stride, x.rows, x.cols, norms);
}

}  // namespace

extern "C" gd_status gd_cuda_euler_gemm(gd_cdist *call, gd_error *err)
{
    const gd_matrix &a = call->a, &b = call->b, &out = call->out;
    if (call->launch.sizing) {
        call->launch.workspace_bytes = (size_t)(a.rows + b.rows) * sizeof(float);
        return GD_OK;
    }
    float *const a_norms = static_cast<float *>(call->launch.workspace);
    float *const b_norms = a_norms + a.rows;
    GD_CUDA_TRY(err, kId, enqueue_squares(call->launch, a, a_norms));
    GD_CUDA_TRY(err, kId, enqueue_squares(call->launch, b, b_norms));
    const gd_status status = gd_cublas_multiply(&call->launch, -2, &a, &b, &out, err);
    if (status != GD_OK) {
        return status;
    }
    const ptrdiff_t across = gd::ceil_div(out.cols, kThreads);
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call->launch, add_norms, across * gd::ceil_div(out.rows, kRows),
                            kThreads, 0, a, b, a_norms, b_norms, static_cast<float *>(out.data),
                            out.row_stride, (unsigned)across, call->metric == GD_EUCLIDEAN));
    return GD_OK;
}
