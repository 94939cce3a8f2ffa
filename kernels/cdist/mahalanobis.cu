/* mahalanobis.cu: sqrt(t VI t) of differences t = x - y, for a symmetric matrix VI.
 *
 * Idea: where VI = F F^T, rows times F were made beforehand (GD_FACTORED), and their euclidean
 * distance is what is asked for: d operations a pair instead of d * d, by tile.cu here, and by
 * tensor cores in kernels that leave this file its second step (mahalanobis.cuh). Where two such
 * rows are so close that their rounding shows, which the rows' terms tell, or left their range, the
 * distance is computed again as the quadratic form of the rows as given. Without a factor all
 * of them are.
 *
 * Floor: tile.cu, plus reading the results once: 0.23 ms for 16384 x 16384 float32, beside 0.9 ms
 * for d = 32; nothing where the first step says that no result was lost. A quadratic form takes
 * d * d float64 multiply-adds: 1.4e13 a second are 19 ms for all of 16384 x 16384 at d = 32, and
 * 2.5 loads and shuffles beside each make that some 60.
 *
 * Launch: 256 threads a tile of 32 x 128 results. They look for bad ones, each down a column, and
 * put their places on a list in shared memory; then groups of up to 32 lanes take the list's
 * entries one by one, so that a few bad results are as good as many at using the threads. Of a
 * batch all matrices' tiles are one grid, and the first step is one launch too.
 *
 * Reached on an H200, a whole call with 16384 x 16384 float32 results: 4.7 ms for d = 128, of which
 * tile.cu 2.8. */
#include <math.h>

#include "arch/dependent.cuh"
#include "cdist/mahalanobis.cuh"
#include "cdist/matrices.cuh"
#include "common/grid.cuh"

namespace {

constexpr int kThreads = 256, kRows = 32, kCols = 128;
constexpr int kDown = kThreads / kCols, kEach = kRows / kDown; /* rows of threads, and of one */
constexpr int kBlocks = 8;                                     /* of a multiprocessor */
constexpr double kInfinity = HUGE_VAL;

template <typename T>
struct Forms : gd::Target<T> {
    gd::Points<T> a, b; /* as given */
    ptrdiff_t d;
    const double *vi, *a_terms, *b_terms;
    int lanes;            /* of a group: a power of two, at most a warp */
    const unsigned *lost; /* whether there is a bad one, NULL if that is unknown */
    gd::Matrices all;
    gd::Apart given_a, given_b; /* how far matrices of operands as given are apart */

    /* The call for one of many matrices, which begins there. */
    __device__ __forceinline__ Forms one(const gd::Begin &begin, unsigned number) const
    {
        Forms call = *this;
        call.out += begin.out;
        call.a.data += all.batch.offset(given_a, number);
        call.b.data += all.batch.offset(given_b, number);
        if (a_terms != NULL) {
            call.a_terms += begin.rows_a, call.b_terms += begin.rows_b;
        }
        return call;
    }
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

/* Whether a result has lost no digits; NaN has. */
template <typename T>
__device__ __forceinline__ bool is_good(const Forms<T> &call, double x, ptrdiff_t row,
                                        ptrdiff_t col)
{
    return x * x >= __ldg(call.a_terms + row) + __ldg(call.b_terms + col) && x < kInfinity;
}

/* Whose squares are at least the sum of two rows' limits, and finite, are good for sure: limits are
 * a little more than terms, and no squares above them vanish. */
template <typename T>
__device__ __forceinline__ T limit_of(const double *terms, ptrdiff_t row)
{
    constexpr T kLeast = sizeof(T) == sizeof(float) ? T(0x1p-100) : T(0);
    return terms == NULL ? (T)kInfinity : max((T)(1.001 * __ldg(terms + row)), kLeast);
}

/* Lists the bad results of the tile whose first is at (top, left). A thread's are on their way
 * all at once, and most of them pass by their limits. */
template <typename T>
__device__ __forceinline__ void list_bad(const Forms<T> &call, ptrdiff_t top, ptrdiff_t left,
                                         const T *limits, unsigned short *list, int *bad)
{
    const ptrdiff_t col = left + threadIdx.x % kCols;
    const int first = threadIdx.x / kCols;
    if (col >= call.b.count) {
        return;
    }
    /* Rows that the column has results in, from the thread's first on. */
    const ptrdiff_t end = call.pairs ? min(call.a.count, col) : call.a.count;
    const int rows = (int)min(end - top - first, (ptrdiff_t)kRows);
    const bool known = call.a_terms != NULL; /* else there are no results yet */
    const T limit = limit_of<T>(call.b_terms, col);
    T results[kEach];
    const T *at = call.row(top + first) + col;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        results[i] = known && i * kDown < rows ? __ldcs(at) : T(0);
        at += call.step(top + first + i * kDown, kDown);
    }
    unsigned doubtful = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const T square = results[i] * results[i];
        const bool good = square >= limits[first + i * kDown] + limit && square < (T)kInfinity;
        doubtful |= (unsigned)(i * kDown < rows && !good) << i;
    }
    for (; doubtful != 0; doubtful &= doubtful - 1) {
        const int row = first + (__ffs((int)doubtful) - 1) * kDown;
        if (!known || !is_good(call, (double)call.row(top + row)[col], top + row, col)) {
            list[atomicAdd(bad, 1)] = (unsigned short)(row * kCols + threadIdx.x % kCols);
        }
    }
}

/* each: tiles of a matrix. For one matrix nothing is added to find it. */
template <bool kMany, typename T>
__global__ void __launch_bounds__(kThreads)
    forms(const __grid_constant__ Forms<T> first, const __grid_constant__ gd::Grid grid,
          unsigned each)
{
    __shared__ unsigned short list[kRows * kCols];
    __shared__ T limits[kRows];
    __shared__ int bad;
    [[maybe_unused]] __shared__ gd::Begin begin;
    gd::follow();
    if (first.lost && *first.lost == 0) {
        return;
    }
    for (ptrdiff_t tile = blockIdx.x; tile < each * first.all.count; tile += gridDim.x) {
        unsigned tile_row, tile_col;
        if (!grid.find(&tile_row, &tile_col, (unsigned)(kMany ? tile % each : tile))) {
            continue;
        }
        const ptrdiff_t top = (ptrdiff_t)tile_row * kRows, left = (ptrdiff_t)tile_col * kCols;
        __syncthreads(); /* nobody reads the last tile's list any more */
        [[maybe_unused]] Forms<T> moved;
        if constexpr (kMany) {
            const unsigned number = (unsigned)(tile / each);
            first.all.find(begin, number, first.a.count, first.b.count);
            moved = first.one(begin, number);
        }
        const Forms<T> &call = kMany ? moved : first;
        if (threadIdx.x == 0) {
            bad = 0;
        }
        if (threadIdx.x < kRows) {
            limits[threadIdx.x] = limit_of<T>(call.a_terms, call.a.clamp(top + threadIdx.x));
        }
        __syncthreads();
        list_bad(call, top, left, limits, list, &bad);
        __syncthreads();

        /* The order of the list is the threads' affair; a result is the same wherever it is made.
         */
        const int lane = threadIdx.x % call.lanes,
                  first_lane = threadIdx.x % 32 / call.lanes * call.lanes;
        const unsigned group = (call.lanes == 32 ? ~0u : (1u << call.lanes) - 1) << first_lane;
        for (int at = threadIdx.x / call.lanes; at < bad; at += kThreads / call.lanes) {
            const ptrdiff_t i = top + list[at] / kCols, j = left + list[at] % kCols;
            const double square = quadratic_form(call, i, j, lane, group);
            if (lane == 0) {
                call.row(i)[j] = (T)sqrt(square); /* NaN below 0, as in SciPy */
            }
        }
    }
}

template <typename T>
cudaError_t launch(const gd_cdist &call, const unsigned *lost)
{
    int lanes = 1, processors = 0;
    while (lanes < 32 && lanes < call.a_given.cols) {
        lanes *= 2;
    }
    Forms<T> arguments = {gd::target_of<T>(call),
                          gd::points_of<T>(call.a_given),
                          gd::points_of<T>(call.b_given),
                          call.a_given.cols,
                          call.vi,
                          call.a_terms,
                          call.b_terms,
                          lanes,
                          lost,
                          gd::matrices_of<T>(call),
                          {},
                          {}};
    for (int axis = 0; axis < arguments.all.batch.axes; ++axis) {
        arguments.given_a.along[axis] = call.many.given_a[axis] / (ptrdiff_t)sizeof(T);
        arguments.given_b.along[axis] = call.many.given_b[axis] / (ptrdiff_t)sizeof(T);
    }
    const gd::Grid grid(call.pairs, gd::ceil_div(call.out.rows, kRows),
                        gd::ceil_div(call.out.cols, kCols), 1, kRows, kCols);
    const cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                    call.launch.device.index);
    const ptrdiff_t most = (ptrdiff_t)processors * kBlocks;
    const ptrdiff_t tiles = grid.blocks() * arguments.all.count;
    return code != cudaSuccess
               ? code
               : gd::enqueue<gd::Start::kEarly>(
                     call.launch, arguments.all.count > 1 ? forms<true, T> : forms<false, T>,
                     tiles < most ? tiles : most, dim3(kThreads), 0, arguments, grid,
                     (unsigned)grid.blocks());
}

}  // namespace

cudaError_t gd::recompute_lost_forms(const gd_cdist &call, const unsigned *lost)
{
    return call.out.dtype == GD_F32 ? launch<float>(call, lost) : launch<double>(call, lost);
}

extern "C" gd_status gd_cuda_cdist_mahalanobis(gd_cdist *call, gd_error *err)
{
    /* Without terms, a and b are the operands as given, and this only says that it needs no
     * workspace. */
    if (call->a_terms != NULL || call->launch.sizing) {
        gd_cdist euclidean = *call;
        euclidean.metric = GD_EUCLIDEAN;
        const bool small =
            call->many.count > 0 && (call->out.rows < kRows || call->out.cols < kRows);
        const gd_status status =
            small ? gd_cuda_cdist_many(&euclidean, err) : gd_cuda_cdist_tile(&euclidean, err);
        call->launch.workspace_bytes = euclidean.launch.workspace_bytes;
        if (status != GD_OK || call->launch.sizing) {
            return status;
        }
    }
    GD_CUDA_TRY(err, "cdist/cuda_mahalanobis", gd::recompute_lost_forms(*call, NULL));
    return GD_OK;
}
