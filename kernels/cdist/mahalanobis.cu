/* mahalanobis.cu: sqrt(t VI t) of differences t = x - y, for a symmetric matrix VI.
 *
 * Idea: where VI = F F^T, rows times F were made beforehand (GD_FACTORED), and their euclidean
 * distance is what is asked for: d operations a pair instead of d * d, by tile.cu. Where two such
 * rows are so close that their rounding shows, which the rows' terms tell, or left their range, the
 * distance is computed again as the quadratic form of the rows as given. Without a factor all
 * of them are.
 *
 * Floor: tile.cu, plus reading the results once: 0.23 ms for 16384 x 16384 float32, beside 0.9 ms
 * for d = 32. A quadratic form takes d * d float64 multiply-adds: 1.4e13 a second are 19 ms for all
 * of 16384 x 16384 at d = 32, and 2.5 loads and shuffles beside each make that some 60.
 *
 * Launch: 256 threads a tile of 32 x 128 results. They look for bad ones, each down a column, and
 * put their places on a list in shared memory; then groups of up to 32 lanes take the list's
 * entries one by one, so that a few bad results are as good as many at using the threads.
 *
 * Reached on an H200, a whole call with 16384 x 16384 float32 results: 4.7 ms for d = 128, of which
 * tile.cu 2.8. */
#include <math.h>

#include "common/grid.cuh"

namespace {

constexpr int kThreads = 256, kRows = 32, kCols = 128;
constexpr int kDown = kThreads / kCols; /* rows of threads */
constexpr double kInfinity = HUGE_VAL;

template <typename T>
struct Forms : gd::Target<T> {
    gd::Points<T> a, b; /* as given */
    ptrdiff_t d;
    const double *vi, *a_terms, *b_terms;
    int lanes; /* of a group: a power of two, at most a warp */
};

template <typename T>
__device__ __forceinline__ double difference(const Forms<T> &call, ptrdiff_t row, ptrdiff_t col,
                                             ptrdiff_t k)
{
    return k < call.d ? (double)call.a.at(row, k) - (double)call.b.at(col, k) : 0;
}

/* The sum over k of t[k] times the sum over i of t[i] VI[i, k]. A lane takes every lanes-th k, and
 * all share the differences that each has loaded. Nothing depends on the sign of t, so that the
 * result is symmetric; a group's lanes all return it. */
template <typename T>
__device__ double quadratic_form(const Forms<T> &call, ptrdiff_t row, ptrdiff_t col, int lane,
                                 unsigned group)
{
    double total = 0;
    for (ptrdiff_t base = 0; base < call.d; base += call.lanes) {
        const ptrdiff_t k = base + lane;
        /* Lanes beyond the last column read it again, and multiply by their difference, 0. */
        const double *from = call.vi + min(k, call.d - 1);
        double product = 0;
        for (ptrdiff_t dim = 0; dim < call.d; dim += call.lanes) {
            const double own = difference(call, row, col, dim + lane);
            const int depth = (int)min(call.d - dim, (ptrdiff_t)call.lanes);
#pragma unroll 8
            for (int i = 0; i < depth; ++i, from += call.d) {
                product = fma(__shfl_sync(group, own, i, call.lanes), __ldg(from), product);
            }
        }
        /* Infinity times 0 would be NaN where there is no column. */
        total = k < call.d ? fma(difference(call, row, col, k), product, total) : total;
    }
    for (int step = call.lanes / 2; step > 0; step /= 2) {
        total += __shfl_xor_sync(group, total, step, call.lanes);
    }
    return total;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    forms(const __grid_constant__ Forms<T> call, const __grid_constant__ gd::Grid grid)
{
    __shared__ unsigned short list[kRows * kCols];
    __shared__ int bad;
    unsigned tile_row, tile_col;
    if (!grid.find(&tile_row, &tile_col)) {
        return;
    }
    const ptrdiff_t top = (ptrdiff_t)tile_row * kRows, left = (ptrdiff_t)tile_col * kCols;
    const ptrdiff_t col = left + threadIdx.x % kCols;
    if (threadIdx.x == 0) {
        bad = 0;
    }
    __syncthreads();

    if (col < call.b.count) {
        const double term = call.a_terms == NULL ? 0 : call.b_terms[col];
#pragma unroll 8
        for (int i = threadIdx.x / kCols; i < kRows; i += kDown) {
            const ptrdiff_t row = top + i;
            if (row >= call.a.count || (call.pairs && row >= col)) {
                break;
            }
            bool good = call.a_terms != NULL;
            if (good) {
                const double x = __ldcs(call.row(row) + col);
                /* NaN compares as bad. */
                good = x * x >= call.a_terms[row] + term && x < kInfinity;
            }
            if (!good) {
                list[atomicAdd(&bad, 1)] = (unsigned short)(i * kCols + threadIdx.x % kCols);
            }
        }
    }
    __syncthreads();

    /* The order of the list is the threads' affair; a result is the same wherever it is made. */
    const int lane = threadIdx.x % call.lanes, first = threadIdx.x % 32 / call.lanes * call.lanes;
    const unsigned group = (call.lanes == 32 ? ~0u : (1u << call.lanes) - 1) << first;
    for (int at = threadIdx.x / call.lanes; at < bad; at += kThreads / call.lanes) {
        const ptrdiff_t i = top + list[at] / kCols, j = left + list[at] % kCols;
        const double square = quadratic_form(call, i, j, lane, group);
        if (lane == 0) {
            call.row(i)[j] = (T)sqrt(square); /* NaN below 0, as in SciPy */
        }
    }
}

template <typename T>
cudaError_t launch(const gd_cdist &call)
{
    int lanes = 1;
    while (lanes < 32 && lanes < call.a_given.cols) {
        lanes *= 2;
    }
    const Forms<T> arguments = {gd::target_of<T>(call),
                                gd::points_of<T>(call.a_given),
                                gd::points_of<T>(call.b_given),
                                call.a_given.cols,
                                call.vi,
                                call.a_terms,
                                call.b_terms,
                                lanes};
    const gd::Grid grid(call.pairs, gd::ceil_div(call.out.rows, kRows),
                        gd::ceil_div(call.out.cols, kCols), 1, kRows, kCols);
    return gd::enqueue(call.launch, forms<T>, grid.blocks(), dim3(kThreads), 0, arguments, grid);
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_mahalanobis(gd_cdist *call, gd_error *err)
{
    /* Without terms, a and b are the operands as given, and this only says that it needs no
     * workspace. */
    if (call->a_terms != NULL || call->launch.sizing) {
        gd_cdist euclidean = *call;
        euclidean.metric = GD_EUCLIDEAN;
        const gd_status status = gd_cuda_cdist_tile(&euclidean, err);
        call->launch.workspace_bytes = euclidean.launch.workspace_bytes;
        if (status != GD_OK || call->launch.sizing) {
            return status;
        }
    }
    return gd::with_float_type(call->out.dtype, [&](auto type) {
        GD_CUDA_TRY(err, "cdist/cuda_mahalanobis", launch<decltype(type)>(*call));
        return GD_OK;
    });
}
