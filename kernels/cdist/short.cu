/* short.cu: cdist of float32 points with five to sixteen dimensions.
 *
 * Idea: as in narrow.cu the columns' points stay in registers, four of them a thread, so that a
 * row's results leave in one 16-byte store. Rows no longer fit beside them: a block
 * brings up to 256 rows to shared memory, and all its threads walk down them together, reading each
 * as a broadcast. That is one load of 16 bytes for 16 differences, and no barrier in the loop.
 *
 * A result costs two instructions a dimension and some seven for the root, its check and its share
 * of loads and stores. 16384 x 16384 float32 on an H200, whose floor of writing is 0.23 ms: d = 8
 * issues for 0.19 ms, d = 16 for 0.32.
 *
 * Dimensions are filled up with zeros to the next of 6, 8, 12 and 16, which add nothing to any
 * metric; so there are four kernels rather than twelve for each metric.
 * Launch: 256 threads, as many along a row as it has use for, the others on further rows. */
#include "metrics.cuh"

namespace {

using T = float;
constexpr int kThreads = 256, kRows = 256, kCols = gd::kPerWord<T>;
constexpr int kEnoughBlocks = 1024; /* some for each multiprocessor of a large GPU */

/* Brings a thread's columns to registers. A warp reads the points of all its threads, 32 of them at
 * a time, as they lie in memory, and the threads take theirs from a shared copy: read by each
 * thread for itself, every element would be a line of its own. */
template <bool kWords, int D>
__device__ __forceinline__ void take_columns(const gd::Cdist<T> &call, ptrdiff_t col,
                                             const gd::Run<T> &run, T (&b)[kCols][D])
{
    constexpr int kPitch = D | 1; /* odd, so that points start in different banks */
    __shared__ T staged[kThreads / 32][32][kPitch];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (blockDim.x < 32) {
        /* So few columns that a warp spans several rows of threads. */
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
            const ptrdiff_t point = call.b.clamp(run.first + j * run.step);
#pragma unroll
            for (int k = 0; k < D; ++k) {
                b[j][k] = k < call.d ? call.b.at(point, k) : T(0);
            }
        }
        return;
    }
    /* Threads of the further rows (blockDim.y) stage the same columns, each warp for itself. */
    T(*mine)[kPitch] = staged[threadIdx.y * (blockDim.x / 32) + warp];
#pragma unroll
    for (int chunk = 0; chunk < kCols; ++chunk) {
        const ptrdiff_t from = kWords ? col + warp * 32 * kCols + chunk * 32
                                      : col + chunk * (ptrdiff_t)blockDim.x + warp * 32;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < D; ++i) {
            const int point = (i * 32 + lane) / D, k = (i * 32 + lane) % D;
            mine[point][k] = k < call.d ? call.b.at(call.b.clamp(from + point), k) : T(0);
        }
        __syncwarp();
        if constexpr (kWords) {
            /* Eight threads have all their columns in this chunk. */
            if (lane / 8 == chunk) {
#pragma unroll
                for (int j = 0; j < kCols; ++j) {
#pragma unroll
                    for (int k = 0; k < D; ++k) {
                        b[j][k] = mine[lane % 8 * kCols + j][k];
                    }
                }
            }
        }
        else {
#pragma unroll
            for (int k = 0; k < D; ++k) {
                b[chunk][k] = mine[lane][k];
            }
        }
    }
}

/* kWords: rows of the result start on 16-byte boundaries, and a thread's columns are neighbours. */
template <typename M, bool kWords, int D>
__global__ void __launch_bounds__(kThreads, 2)
    short_points(const __grid_constant__ gd::Cdist<T> call, unsigned blocks_across, int block_rows)
{
    constexpr int kFill = (D + kCols - 1) / kCols * kCols; /* a row in whole words */
    __shared__ alignas(16) T rows[kRows][kFill];
    const unsigned block_row = blockIdx.x / blocks_across, block_col = blockIdx.x % blocks_across;
    const ptrdiff_t first_row = (ptrdiff_t)block_row * block_rows;
    const ptrdiff_t col = (ptrdiff_t)block_col * blockDim.x * kCols;
    const gd::Run<T> run(call, col + threadIdx.x * (kWords ? kCols : 1), kWords ? 1 : blockDim.x);

    /* Neighbouring threads read neighbouring elements of a row; the last row stands in for rows
     * beyond the end. */
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = thread; i < block_rows * kFill; i += kThreads) {
        const int row = i / kFill, k = i % kFill;
        rows[row][k] = k < call.d ? call.a.at(call.a.clamp(first_row + row), k) : T(0);
    }
    T b[kCols][D];
    take_columns<kWords>(call, col, run, b);
    __syncthreads();
    if (run.count == 0) {
        return;
    }

    const int left = (int)min(call.a.count - first_row, (ptrdiff_t)block_rows);
    T *to = call.out + (first_row + threadIdx.y) * call.out_stride + run.first;
    bool safe = true;
#pragma unroll 2
    for (int i = threadIdx.y; i < left; i += blockDim.y, to += blockDim.y * call.out_stride) {
        T a[kFill];
#pragma unroll
        for (int k = 0; k < kFill; k += kCols) {
            gd::load_word(&rows[i][k], a + k);
        }
        /* D is at most GD_FOLD, so one accumulator makes the total. */
        T results[kCols] = {};
#pragma unroll
        for (int k = 0; k < D; ++k) {
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
                results[j] = M::term(results[j], a[k], b[j][k]);
            }
        }
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
            results[j] = M::finish(results[j]);
            safe &= M::safe(results[j]);
        }
        if (kWords && run.word) {
            gd::stream_word(to, results);
        }
        else {
            run.store(to, results);
        }
    }
    if constexpr (M::template guarded<T>) {
        /* Rare, and last: see repair. */
        if (!safe) {
            gd::repair<M>(call, first_row + threadIdx.y, first_row + left, blockDim.y, run);
        }
    }
}

template <int D, typename M>
cudaError_t launch(const gd_cdist &call)
{
    static_assert(D <= GD_FOLD, "one accumulator");
    const gd::Cdist<T> parameters = gd::parameters_of<T>(call);
    /* A matrix with few columns has no use for 256 threads side by side. */
    unsigned across = 1;
    while (across < kThreads && across * kCols < call.out.cols) {
        across *= 2;
    }
    const ptrdiff_t blocks_across = gd::ceil_div(call.out.cols, across * kCols);
    /* A small matrix is cut into more blocks, so that every multiprocessor gets some. */
    int rows = kRows;
    while (rows > 8 && blocks_across * gd::ceil_div(call.out.rows, rows) < kEnoughBlocks) {
        rows /= 2;
    }
    const ptrdiff_t blocks_down = gd::ceil_div(call.out.rows, rows);
    return gd::enqueue(call.launch,
                       parameters.words ? short_points<M, true, D> : short_points<M, false, D>,
                       blocks_across * blocks_down, dim3(across, kThreads / across), 0, parameters,
                       (unsigned)blocks_across, rows);
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_short(gd_cdist *call, gd_error *err)
{
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    return gd::with_lp_metric(call->metric, [&](auto metric) {
        using M = decltype(metric);
        const ptrdiff_t d = call->a.cols;
        const cudaError_t code = d <= 6    ? launch<6, M>(*call)
                                 : d <= 8  ? launch<8, M>(*call)
                                 : d <= 12 ? launch<12, M>(*call)
                                           : launch<16, M>(*call);
        GD_CUDA_TRY(err, "cdist/cuda_short", code);
        return GD_OK;
    });
}
