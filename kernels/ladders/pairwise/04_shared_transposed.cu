/* 04_shared_transposed.cu: distances between descriptors, columns transposed in shared memory.
 *
 * Idea: the conflict of step 3 is in one operand alone. The threads of a warp share their row of A,
 * and a broadcast is never a conflict; it is the 32 rows of B that meet in two banks. Store those
 * transposed, dimension after dimension, and 32 threads read 32 neighbouring elements, one in each
 * bank. The transposition happens on the way from memory, which is still read row by row.
 *
 * What changed: the place of an element of B in shared memory. Dimensions start one element more
 * than `block` apart, so that writing the transposed tile, where neighbouring threads have
 * neighbouring dimensions, does not meet in one bank either.
 *
 * What to expect: loads of one turn each; two of them still stand beside one subtraction and one
 * multiply-add, and shared memory serves one warp a cycle, so it binds at a quarter of the
 * arithmetic's rate. The study reports 45.1 us after 70.6.
 *
 * Reached: 29 us on an H200, little more than step 2: one line from L1 costs about what one turn of
 * shared memory does. Staging pays where it saves loads, as in the next step.
 * Launch: a block for each square of `block` x `block` elements.
 * Source: the study pairwise (Titan V, m = 2048, n = 1024, d = 16), step 4. */
#include "common/launch.cuh"

namespace {

constexpr int kMostEdge = 32, kSlab = 16; /* dimensions at a time */

__global__ void shared_transposed(const float *a, ptrdiff_t m, const float *b, ptrdiff_t n,
                                  ptrdiff_t d, float *out, ptrdiff_t out_stride, unsigned across,
                                  bool root)
{
    __shared__ float a_rows[kMostEdge * kSlab], b_cols[kSlab * (kMostEdge + 1)];
    const int edge = blockDim.x, pitch = edge + 1, thread = threadIdx.y * edge + threadIdx.x;
    const ptrdiff_t tile_row = blockIdx.x / across, tile_col = blockIdx.x % across;
    float sum = 0;
    for (ptrdiff_t first = 0; first < d; first += kSlab) {
        const int width = (int)min(d - first, (ptrdiff_t)kSlab);
        for (int i = thread; i < edge * width; i += edge * edge) {
            const int row = i / width, k = i % width;
            const ptrdiff_t a_row = min(tile_row * edge + row, m - 1);
            const ptrdiff_t b_row = min(tile_col * edge + row, n - 1);
            a_rows[row * width + k] = a[a_row * d + first + k];
            b_cols[k * pitch + row] = b[b_row * d + first + k];
        }
        __syncthreads();
        for (int k = 0; k < width; ++k) {
            const float t = a_rows[threadIdx.y * width + k] - b_cols[k * pitch + threadIdx.x];
            sum = fmaf(t, t, sum);
        }
        __syncthreads();
    }
    const ptrdiff_t row = tile_row * edge + threadIdx.y, col = tile_col * edge + threadIdx.x;
    if (row < m && col < n) {
        out[row * out_stride + col] = root ? sqrtf(sum) : sum;
    }
}

}  // namespace

extern "C" gd_status gd_cuda_pairwise_shared_transposed(gd_cdist *call, gd_error *err)
{
    const int edge = call->launch.options.value[0];
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    const ptrdiff_t across = gd::ceil_div(call->out.cols, edge);
    GD_CUDA_TRY(err, "pairwise/4_shared_transposed",
                gd::enqueue(call->launch, shared_transposed,
                            across * gd::ceil_div(call->out.rows, edge), dim3(edge, edge), 0,
                            (const float *)call->a.data, call->a.rows, (const float *)call->b.data,
                            call->b.rows, call->a.cols, (float *)call->out.data,
                            call->out.row_stride, (unsigned)across, call->metric == GD_EUCLIDEAN));
    return GD_OK;
}
