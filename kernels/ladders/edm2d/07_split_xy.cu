/* 07_split_xy.cu: distances between points of the plane, four columns a thread in one store.
 *
 * Idea: the study stops with two questions open, and this step answers the first: a warp that reads
 * 8-byte points from shared memory meets each bank twice. With x and y in arrays of their own, four
 * neighbouring x are one 16-byte word, read without conflict. That gives a thread four
 * columns, which it keeps in registers while it walks down `rows` rows, whose points its
 * neighbours read too (a broadcast). The four results of a row leave in one 16-byte store, past
 * the caches, since nobody reads them soon.
 *
 * What changed: almost everything. Columns are cut among blocks as well as rows, so there are tens
 * of thousands of blocks instead of 119 and every multiprocessor is full; an element costs no
 * index arithmetic, a quarter of a store and no access to shared memory.
 *
 * What to expect: the limit. Some 16 instructions an element are 0.44 ms for 920 M of them, and
 * writing 3.68 GB takes 0.78 ms at 4.7 TB/s. Rows that do not start on 16-byte boundaries
 * (n not a multiple of 4) are written element by element, at about two thirds of that rate:
 * the production kernel shows how to keep the words (span.cuh).
 *
 * Reached: 0.83 to 0.88 ms from run to run, 90 to 95 % of a kernel that only writes (0.79); with
 * n = 30335 1.14 ms.
 * Launch: m / rows x n / (4 block) blocks of `block` threads, 32 bytes x block of shared memory.
 * Source: gpudist, after the question that the study edm2d leaves open. */
#include "common/words.cuh"
#include "ladders/launch.cuh"

namespace {

constexpr const char *kId = "edm2d/7_split_xy";
constexpr int kCols = 4;

__device__ __forceinline__ float distance(float x, float y) { return sqrtf(fmaf(x, x, y * y)); }

/* kWords: rows of `out` start on 16-byte boundaries. Otherwise a thread's columns lie blockDim.x
 * apart, so that neighbouring threads still write neighbouring elements. */
template <bool kWords>
__global__ void split_xy(const float2 *a, ptrdiff_t m, const float2 *b, ptrdiff_t n, float *out,
                         ptrdiff_t out_stride, unsigned blocks_across, int block_rows)
{
    extern __shared__ float4 coordinates[];
    float *const xs = (float *)coordinates, *const ys = xs + kCols * blockDim.x;
    const int step = kWords ? 1 : blockDim.x, own = kWords ? kCols * threadIdx.x : threadIdx.x;
    const ptrdiff_t first_col = blockIdx.x % blocks_across * (ptrdiff_t)(kCols * blockDim.x);
    const ptrdiff_t first_row = blockIdx.x / blocks_across * (ptrdiff_t)block_rows;
    const int rows = (int)min(m - first_row, (ptrdiff_t)block_rows);
    const ptrdiff_t cols = min(n - first_col, (ptrdiff_t)kCols * blockDim.x);

    /* Points come as they lie in memory, 8 bytes a thread, and are split on the way. Beyond the
     * last there is a copy of it, whose results nobody stores. */
    for (int i = threadIdx.x; i < kCols * blockDim.x; i += blockDim.x) {
        const float2 point = b[first_col + min((ptrdiff_t)i, cols - 1)];
        xs[i] = point.x, ys[i] = point.y;
    }
    __syncthreads();
    float x[kCols], y[kCols];
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
        x[j] = xs[own + j * step], y[j] = ys[own + j * step];
    }

    float *to = out + first_row * out_stride + first_col + own;
#pragma unroll 4
    for (int i = 0; i < rows; ++i, to += out_stride) {
        const float2 point = __ldg(a + first_row + i);
        float result[kCols];
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
            result[j] = distance(point.x - x[j], point.y - y[j]);
        }
        if (kWords && own + kCols <= cols) {
            gd::stream_word(to, result);
            continue;
        }
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
            if (own + j * step < cols) {
                __stcs(to + j * step, result[j]);
            }
        }
    }
}

}  // namespace

extern "C" gd_status gd_cuda_edm2d_split_xy(gd_cdist *call, gd_error *err)
{
    const int block = call->launch.options.value[0], rows = call->launch.options.value[1];
    const size_t bytes = (size_t)block * kCols * sizeof(float2);
    const bool words = gd::rows_of_words((const float *)call->out.data, call->out.row_stride);
    const auto kernel = words ? split_xy<true> : split_xy<false>;
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    const ptrdiff_t across = gd::ceil_div(call->out.cols, (ptrdiff_t)block * kCols);
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call->launch, kernel, across * gd::ceil_div(call->out.rows, rows),
                            dim3(block), bytes, (const float2 *)call->a.data, call->a.rows,
                            (const float2 *)call->b.data, call->b.rows, (float *)call->out.data,
                            call->out.row_stride, (unsigned)across, rows));
    return GD_OK;
}
