/* narrow.cu: cdist of points with one to four dimensions.
 *
 * Idea: nothing but the results matters. A 30336 x 30336 float32 matrix of 2-D points is 3.68 GB
 * written from 0.5 MB read, with about ten instructions a result: at 4.7 TB/s the H200 needs
 * 0.78 ms to write it, and 0.28 ms to issue the arithmetic. So the kernel is a way of writing:
 * each thread keeps the points of four columns in registers (float64: two) and walks down eight
 * rows, whose points all its neighbours read too, so that they come from L1 as broadcasts. Its
 * results of a row leave in one 16-byte store, past the caches.
 *
 * Where rows of `out` do not start on 16-byte boundaries (an odd n, say), long float32 rows are
 * shifted to suit them: a block takes every eighth row (sixteenth, of pairs) and columns to match
 * (span.cuh). In shorter rows and float64, where that does not pay, a thread's columns lie apart
 * instead, so that neighbouring threads still write neighbouring elements; and float64 points of
 * four dimensions do so wherever rows start, because reading them is what takes longest: 32 threads
 * with two columns each find an element in 16 lines, with columns apart in 8.
 *
 * Launch: 256 threads, as many along a row as it has use for, the others on further rows.
 * Reached on an H200: 30336 x 30336 x 2 float32 in 0.794 ms, 99 % of a kernel that only writes;
 * 30335 x 30335 x 2 in 0.820, shifted (1.196 without). float64 euclidean, 8192 x 8192, whose floor
 * is 0.114: d = 2 0.122, d = 3 0.132, d = 4 0.156 (cityblock 0.127), at an odd n 0.142, 0.147 and
 * 0.158; with four rows a thread 0.130, 0.144 and 0.180, with columns together d = 4 0.165, and
 * with neither and roots one after the other 0.228. float32 points of four dimensions are left to
 * short.cu. Pairs, of which each row starts anywhere, take 0.149 ms for 16384 x 2 float32, 63 % of
 * the matrix's 0.236, and 0.462 for 30336 x 2, 58 %; three dimensions 67 %; 5000 x 4 float64 0.043
 * (0.049 with four rows a thread). */
#include "common/grid.cuh"
#include "common/span.cuh"

namespace {

constexpr int kThreads = 256;
/* More rows spread the cost of starting a thread further. Of float64 half of them at a time are in
 * registers, and are finished together (finish_all). */
constexpr int kRows = 8;
template <typename T>
constexpr int kAhead = sizeof(T) == sizeof(float) ? kRows : kRows / 2;
template <typename T>
constexpr int kTogether = sizeof(T) == sizeof(float) ? 1 : kAhead<T>;
/* Points of neighbouring columns, if a thread has them, are a stride apart for the threads of a
 * warp that read them: of long points that costs more than stores of words save. */
template <typename T, int D>
constexpr bool kApart = D * sizeof(T) >= 32;

/* Rows of more results than this are shifted: their ends no longer count. */
constexpr ptrdiff_t kLong = 1024;

template <typename T>
__device__ __forceinline__ bool is_empty(const gd::Run<T> &run)
{
    return run.count == 0;
}
template <typename T>
__device__ __forceinline__ bool is_empty(const gd::Span<T> &span)
{
    return span.empty();
}

/* The columns of a thread, which start at `col` for the block. */
template <int D, bool kShifted, gd::Form kForm, typename T>
__device__ __forceinline__ auto run_of(const gd::Cdist<T, kForm> &call, ptrdiff_t col,
                                       unsigned log_kinds, unsigned kind)
{
    if constexpr (kShifted) {
        return gd::Span<T>::in_block(call, col, log_kinds, kind);
    }
    else {
        const bool words = call.words && !kApart<T, D>;
        return gd::Run<T>(call, col + threadIdx.x * (words ? gd::kPerWord<T> : 1),
                          words ? 1 : blockDim.x);
    }
}

/* Brings a thread's columns. Single elements, because inputs may have any strides. Neighbouring
 * threads share the lines, and all of it is read once for every kRows rows of results. */
template <bool kShifted, int D, typename R, gd::Form kForm, typename T>
__device__ __forceinline__ void take_columns(const gd::Cdist<T, kForm> &call, const R &run,
                                             T (&b)[gd::kPerWord<T>][D])
{
#pragma unroll
    for (int j = 0; j < gd::kPerWord<T>; ++j) {
#pragma unroll
        for (int k = 0; k < D; ++k) {
            if constexpr (kShifted) {
                b[j][k] = call.b.at(run.column(call.b, j), k);
            }
            else {
                b[j][k] = call.b.at(call.b.clamp(run.first + j * run.step), k);
            }
        }
    }
}

/* The distances of kTogether rows from the thread's columns, row after row. D is below GD_FOLD, so
 * one accumulator makes the total. */
template <typename M, int D, typename T, int kResults>
__device__ __forceinline__ void find_rows(T (&results)[kResults], const T (*a)[D],
                                          const T (&b)[gd::kPerWord<T>][D])
{
    constexpr int kCols = gd::kPerWord<T>;
#pragma unroll
    for (int at = 0; at < kResults; ++at) {
        T total = 0;
#pragma unroll
        for (int k = 0; k < D; ++k) {
            total = M::term(total, a[at / kCols][k], b[at % kCols][k]);
        }
        results[at] = total;
    }
    gd::finish_all<M>(results);
}

/* D is the number of dimensions: a constant, so that points stay in registers. log_row_kinds: see
 * span.cuh; without kShifted it is 0. */
template <typename M, int D, bool kShifted, gd::Form kForm, typename T>
__global__ void __launch_bounds__(kThreads, 3)
    narrow(const __grid_constant__ gd::Cdist<T, kForm> call, const __grid_constant__ gd::Grid grid,
           unsigned log_row_kinds)
{
    constexpr int kCols = gd::kPerWord<T>;
    unsigned block_row, block_col;
    if (!grid.find<kForm, false>(&block_row, &block_col)) {
        return;
    }
    const unsigned log_kinds = kShifted ? log_row_kinds : 0, kinds = 1u << log_kinds;
    const unsigned kind = block_row & (kinds - 1);

    /* This thread's rows are row, row + down, ... up to row + left. With few columns, so many rows
     * of threads, these steps let a block write the rows of its stretch one after the other. */
    const int down = blockDim.y * kinds;
    const ptrdiff_t row =
        (ptrdiff_t)(block_row >> log_kinds) * down * kRows + threadIdx.y * kinds + kind;
    const int left = call.a.count - row < down * kRows ? (int)(call.a.count - row) : down * kRows;
    const ptrdiff_t col = (ptrdiff_t)block_col * blockDim.x * kCols;
    const auto run = run_of<D, kShifted>(call, col, log_kinds, kind);
    if (left <= 0 || is_empty(run) || !call.has(row, run.first + (kCols - 1) * run.step + 1)) {
        return;
    }

    T b[kCols][D];
    take_columns<kShifted>(call, run, b);
    T *to = call.row(row) + run.first;
    /* A row of pairs is shorter than the one before, so steps from one to the next are as well. */
    ptrdiff_t next = call.step(row, down);
    const int start = run.start(call, row), fall = kForm == gd::Form::kPairs ? down : 0;
    unsigned unsafe = 0; /* a bit for each row */
    bool all_safe = true;
    const T *from = call.a.data + row * call.a.row_stride;
#pragma unroll
    for (int top = 0; top < kRows; top += kAhead<T>) {
        if (top > 0 && top * down >= left) {
            break;
        }
        /* These are asked for before the first is used, to wait for memory once. The last row
         * stands in for rows beyond the end. */
        T a[kAhead<T>][D];
#pragma unroll
        for (int i = 0; i < kAhead<T>; ++i) {
#pragma unroll
            for (int k = 0; k < D; ++k) {
                a[i][k] = __ldg(from + k * call.a.col_stride);
            }
            from += (top + i + 1) * down < left ? down * call.a.row_stride : 0;
        }
#pragma unroll
        for (int i = 0; i < kAhead<T>; i += kTogether<T>) {
            T results[kTogether<T> * kCols];
            find_rows<M>(results, a + i, b);
#pragma unroll
            for (int at = 0; at < kTogether<T>; to += next, next -= fall * fall, ++at) {
                const T *const of_row = results + at * kCols;
                const int step = top + i + at;
                bool safe = true;
#pragma unroll
                for (int j = 0; j < kCols; ++j) {
                    safe &= M::safe(of_row[j]);
                    all_safe &= M::safe(of_row[j]);
                }
                if (step * down < left) {
                    run.store(to, of_row, start + step * fall);
                    unsafe |= safe ? 0 : 1u << step;
                }
            }
        }
    }
    if constexpr (M::template guarded<T>) {
        /* Rare, and last: see recompute_f64. */
        if constexpr (kShifted) {
            for (; unsafe != 0; unsafe &= unsafe - 1) {
                const ptrdiff_t at = row + (__ffs((int)unsafe) - 1) * down;
                gd::recompute_f64<M>(call, at, at + 1, 1, run.run(call));
            }
        }
        else if (!all_safe) {
            gd::recompute_f64<M>(call, row, row + left, down, run);
        }
    }
}

template <int D, typename M, gd::Form kForm, typename T>
cudaError_t launch(const gd_cdist &call)
{
    const auto parameters = gd::parameters_of<T, kForm>(call);
    /* float32 points of four dimensions are here for those who ask by name alone. */
    constexpr bool kMayShift = sizeof(T) == sizeof(float) && D < 4;
    const bool shifted = kMayShift && !parameters.words && call.out.cols > kLong;
    const unsigned log_kinds = shifted ? log_kinds_of(parameters, gd::kLogSector<T>) : 0;
    const ptrdiff_t columns = call.out.cols + (1 << log_kinds) - 1; /* shifted rows are longer */
    /* A matrix with few columns has no use for 256 threads side by side. */
    unsigned across = 1;
    while (across < kThreads && across * gd::kPerWord<T> < columns) {
        across *= 2;
    }
    const dim3 threads(across, kThreads / across);
    const ptrdiff_t rows = (ptrdiff_t)threads.y * kRows, cols = across * gd::kPerWord<T>;
    const ptrdiff_t down = gd::ceil_div(call.out.rows, rows << log_kinds) << log_kinds;
    /* Blocks are counted along rows first: those that run at the same time write to one stretch of
     * memory. Of pairs a band is all kinds of the same rows. Their number fits 32 bits, rows and
     * columns need not. */
    const gd::Grid grid(call.pairs, down, gd::ceil_div(columns, cols),
                        call.pairs ? 1u << log_kinds : 1, rows, cols);
    return gd::enqueue(call.launch,
                       shifted ? narrow<M, D, kMayShift, kForm, T> : narrow<M, D, false, kForm, T>,
                       grid.blocks(), threads, 0, parameters, grid, log_kinds);
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_narrow(gd_cdist *call, gd_error *err)
{
    return gd::launch_lp(call, "cdist/cuda_narrow", err, [&](auto metric, auto type) {
        using M = decltype(metric);
        using T = decltype(type);
        return gd::with_form(*call, [&](auto form) {
            constexpr gd::Form kForm = decltype(form)::value;
            return call->a.cols == 1   ? launch<1, M, kForm, T>(*call)
                   : call->a.cols == 2 ? launch<2, M, kForm, T>(*call)
                   : call->a.cols == 3 ? launch<3, M, kForm, T>(*call)
                                       : launch<4, M, kForm, T>(*call);
        });
    });
}
