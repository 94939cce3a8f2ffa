/* bottleneck.cu: all-pairs least bottlenecks: a path is as long as its largest weight.
 *
 * Idea: three-phase blocked Floyd-Warshall as in blocked.cu, with "the larger of" for "+". Nothing
 * is added, so nothing rounds, and the order in which paths are found does not show in the lengths:
 * close the tile of 64 pivots, multiply the pivots' rows by it from the left and their columns from
 * the right, and all the rest by both, with the products of kernels/minplus, which take the larger
 * and the lesser.
 *
 * Predecessors do depend on the order, and a product does not tell over which pivot an element
 * went. With them the loop goes pivot by pivot, as in the textbook: row k and column k hold still
 * at stage k, because d[k][k] is the least number.
 *
 * Cost: n^3 updates at the product's 10.5e12 a second on an H200, and for each 64 pivots the matrix
 * read and written once. With predecessors the matrix is read for each pivot: n^3 x 4 bytes, from
 * L2 up to n = 3000 or so.
 *
 * Reached on an H200, in ms: float32 n = 1024 1.8, 4096 17, 16384 690; float64 n = 4096 31; with
 * predecessors float32 n = 1024 4.5, 4096 157. Small n wait for the ten launches of a round.
 *
 * Launch: a tile in one block of 1024 threads; with predecessors a block for 1024 elements of a
 * row. */
#include "common/launch.cuh"

namespace {

constexpr const char *kId = "apsp/cuda_bottleneck";
constexpr int kPivots = 64, kPadding = 128; /* whole tiles of the products */
constexpr int kTileThreads = 1024, kTileDown = kTileThreads / kPivots;
constexpr int kLoopThreads = 256, kPerThread = 4;

template <typename T>
__device__ __forceinline__ T larger(T x, T y)
{
    return x > y ? x : y;
}

/* The pivots' own tile. Column k and row k are not written in stage k, since nothing is strictly
 * less than they are then; so one barrier a stage is enough. */
template <typename T>
__global__ void __launch_bounds__(kTileThreads) close_tile(T *dist, ptrdiff_t padded)
{
    __shared__ T tile[kPivots][kPivots];
    const int j = threadIdx.x % kPivots, i0 = threadIdx.x / kPivots;
    for (int i = i0; i < kPivots; i += kTileDown) {
        tile[i][j] = dist[i * padded + j];
    }
    for (int k = 0; k < kPivots; ++k) {
        __syncthreads();
        const T row = tile[k][j];
#pragma unroll
        for (int r = 0; r < kPivots / kTileDown; ++r) {
            const int i = i0 + r * kTileDown;
            const T way = larger(tile[i][k], row);
            if (way < tile[i][j]) {
                tile[i][j] = way;
            }
        }
    }
    for (int i = i0; i < kPivots; i += kTileDown) {
        dist[i * padded + j] = tile[i][j];
    }
}

/* Stage k of the plain loop. */
template <typename T>
__global__ void __launch_bounds__(kLoopThreads)
    relax_over(const __grid_constant__ gd_apsp call, ptrdiff_t k, unsigned blocks_across)
{
    T *const dist = static_cast<T *>(call.dist);
    const ptrdiff_t i = blockIdx.x / blocks_across;
    const ptrdiff_t j0 = (ptrdiff_t)(blockIdx.x % blocks_across) * kLoopThreads * kPerThread;
    const T there = dist[i * call.padded + k];
#pragma unroll
    for (int e = 0; e < kPerThread; ++e) {
        const ptrdiff_t j = j0 + e * kLoopThreads + threadIdx.x;
        if (j < call.n) {
            const T way = larger(there, dist[k * call.padded + j]);
            if (way < dist[i * call.padded + j]) {
                dist[i * call.padded + j] = way;
                call.pred[i * call.padded + j] = call.pred[k * call.padded + j];
            }
        }
    }
}

template <typename T>
gd_status loop(const gd_apsp &call, gd_error *err)
{
    const ptrdiff_t across = gd::ceil_div(call.n, kLoopThreads * kPerThread);
    gd_status status = GD_OK;
    for (ptrdiff_t k = 0; k < call.n && status == GD_OK; ++k) {
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, relax_over<T>, call.n * across, kLoopThreads, 0, call,
                                k, (unsigned)across));
        status = gd_pass(&call.launch, (double)(k + 1) / (double)call.n, err);
    }
    return status;
}

/* Part of the matrix. */
gd_matrix part_of(const gd_apsp &call, size_t size, ptrdiff_t row, ptrdiff_t col, ptrdiff_t rows,
                  ptrdiff_t cols)
{
    char *const data = static_cast<char *>(call.dist);
    return {data + (size_t)(row * call.padded + col) * size,
            rows,
            cols,
            call.padded,
            1,
            call.dtype,
            call.launch.device};
}

/* out = the lesser of out and of a and b multiplied; sizing only tells *bytes. */
gd_status multiply(const gd_apsp &call, const gd_matrix &a, const gd_matrix &b,
                   const gd_matrix &out, size_t *bytes, gd_error *err)
{
    gd_minplus product = {};
    product.launch = call.launch;
    product.launch.watch = NULL; /* which is told of whole rounds */
    product.a = a;
    product.b = b;
    product.c = product.out = out;
    product.semiring = GD_MIN_MAX;
    const gd_status status = gd_cuda_minplus_tile(&product, err);
    *bytes = product.launch.workspace_bytes > *bytes ? product.launch.workspace_bytes : *bytes;
    return status;
}

/* Phases 2 and 3 of a round. The panels' elements hold their own better, so joining is no harm. */
gd_status multiply_all(const gd_apsp &call, size_t size, ptrdiff_t pivot, size_t *bytes,
                       gd_error *err)
{
    const gd_matrix all = part_of(call, size, 0, 0, call.padded, call.padded);
    const gd_matrix tile = part_of(call, size, pivot, pivot, kPivots, kPivots);
    const gd_matrix rows = part_of(call, size, pivot, 0, kPivots, call.padded);
    const gd_matrix cols = part_of(call, size, 0, pivot, call.padded, kPivots);
    gd_status status = multiply(call, tile, rows, rows, bytes, err);
    status = status == GD_OK ? multiply(call, cols, tile, cols, bytes, err) : status;
    return status == GD_OK ? multiply(call, cols, rows, all, bytes, err) : status;
}

template <typename T>
gd_status run(gd_apsp &call, gd_error *err)
{
    size_t bytes = 0;
    gd_status status = GD_OK;
    if (call.launch.sizing) {
        call.padded = gd::ceil_div(call.n, kPadding) * kPadding;
        call.launch.workspace_bytes = 0;
        status = call.pred == NULL ? multiply_all(call, sizeof(T), 0, &bytes, err) : GD_OK;
        call.launch.workspace_bytes = bytes;
        return status;
    }
    if (call.pred != NULL) {
        return loop<T>(call, err);
    }
    for (ptrdiff_t pivot = 0; pivot < call.n && status == GD_OK; pivot += kPivots) {
        T *const tile = static_cast<T *>(call.dist) + pivot * call.padded + pivot;
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, close_tile<T>, 1, kTileThreads, 0, tile, call.padded));
        status = multiply_all(call, sizeof(T), pivot, &bytes, err);
        if (status == GD_OK) {
            status = gd_pass(&call.launch, (double)(pivot + kPivots) / (double)call.padded, err);
        }
    }
    return status;
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_bottleneck(gd_apsp *call, gd_error *err)
{
    return gd::with_weight_type(call->dtype,
                                [&](auto type) { return run<decltype(type)>(*call, err); });
}
