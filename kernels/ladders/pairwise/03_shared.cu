/* 03_shared.cu: distances between descriptors, a tile's rows staged in shared memory as they lie.
 *
 * Idea: a block needs `block` rows of A and as many of B, and its threads read each of them
 * `block` times. So bring them to shared memory once, neighbouring threads copying neighbouring
 * elements, and read them there. Rows stay rows: no transposition is needed anywhere.
 *
 * What changed: operands are row after row again, and go through shared memory, at most 16
 * dimensions at a time.
 *
 * What to expect: a disappointment that teaches. Shared memory has 32 banks of 4 bytes, and a
 * warp's load takes as many turns as the fullest bank has to serve. At d = 16 the rows of B start
 * 16 banks apart: 32 threads meet in two banks, 16 turns a load. The study reports 70.6 us, slower
 * than the transposed operands without shared memory (52.2).
 *
 * Reached: 92 us on an H200, where it is slower than step 1 even (78). There the 32 rows of 64
 * bytes are 16 lines in L1, so 16 turns as well, and no copies and barriers. In blocks of 8 x 8,
 * where four rows of B meet in a bank, 40 us.
 * Launch: a block for each square of `block` x `block` elements.
 * Source: the study pairwise (Titan V, m = 2048, n = 1024, d = 16), step 3. */
#include "common/launch.cuh"

namespace {

constexpr int kMostEdge = 32, kSlab = 16; /* dimensions at a time */

/* Brings `width` dimensions from `first` on of a tile's rows, to rows of `width` elements. The last
 * row stands in for rows beyond the end. */
__device__ __forceinline__ void bring(const float *from, ptrdiff_t rows, ptrdiff_t tile,
                                      ptrdiff_t d, ptrdiff_t first, int width, float *to)
{
    const int edge = blockDim.x, thread = threadIdx.y * edge + threadIdx.x;
    for (int i = thread; i < edge * width; i += edge * edge) {
        const ptrdiff_t row = min(tile * edge + i / width, rows - 1);
        to[i] = from[row * d + first + i % width];
    }
}

__global__ void shared(const float *a, ptrdiff_t m, const float *b, ptrdiff_t n, ptrdiff_t d,
                       float *out, ptrdiff_t out_stride, unsigned across, bool root)
{
    __shared__ float a_rows[kMostEdge * kSlab], b_rows[kMostEdge * kSlab];
    const ptrdiff_t tile_row = blockIdx.x / across, tile_col = blockIdx.x % across;
    float sum = 0;
    for (ptrdiff_t first = 0; first < d; first += kSlab) {
        const int width = (int)min(d - first, (ptrdiff_t)kSlab);
        bring(a, m, tile_row, d, first, width, a_rows);
        bring(b, n, tile_col, d, first, width, b_rows);
        __syncthreads();
        for (int k = 0; k < width; ++k) {
            const float t = a_rows[threadIdx.y * width + k] - b_rows[threadIdx.x * width + k];
            sum = fmaf(t, t, sum);
        }
        __syncthreads(); /* all threads, those beyond the matrix too: nobody left early */
    }
    const ptrdiff_t row = tile_row * blockDim.y + threadIdx.y;
    const ptrdiff_t col = tile_col * blockDim.x + threadIdx.x;
    if (row < m && col < n) {
        out[row * out_stride + col] = root ? sqrtf(sum) : sum;
    }
}

}  // namespace

extern "C" gd_status gd_cuda_pairwise_shared(gd_cdist *call, gd_error *err)
{
    const int edge = call->launch.options.value[0];
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    const ptrdiff_t across = gd::ceil_div(call->out.cols, edge);
    GD_CUDA_TRY(err, "pairwise/3_shared",
                gd::enqueue(call->launch, shared, across * gd::ceil_div(call->out.rows, edge),
                            dim3(edge, edge), 0, (const float *)call->a.data, call->a.rows,
                            (const float *)call->b.data, call->b.rows, call->a.cols,
                            (float *)call->out.data, call->out.row_stride, (unsigned)across,
                            call->metric == GD_EUCLIDEAN));
    return GD_OK;
}
