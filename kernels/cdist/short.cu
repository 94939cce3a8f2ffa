/* short.cu: cdist of float32 points with four to sixteen dimensions.
 *
 * Idea: as in narrow.cu the columns' points stay in registers, four of them a thread, so that a
 * row's results leave in one 16-byte store. Rows no longer fit beside them: a block
 * brings up to 256 rows to shared memory, and all its threads walk down them together, reading each
 * as a broadcast. That is one load of 16 bytes for 16 differences, and no barrier in the loop.
 *
 * A result costs two instructions a dimension and some five for the root, its check and its share
 * of loads and stores. 16384 x 16384 float32 on an H200, whose floor of writing is 0.23 ms: d = 8
 * issues for 0.17 ms, d = 16 for 0.31.
 *
 * Three details carry the speed:
 * - The register file reads one even and one odd register a cycle. A row's dimension k is loaded to
 *   a register of k's parity; columns' dimensions are staged with neighbours exchanged, so that
 *   theirs has the other one.
 * - Roots are one instruction, and whether they are good is asked for eight rows at once, of the
 *   least and the most of them, which one instruction finds for two results.
 * - Before its first row a block waits for its points, so their loads are all under way at once.
 *
 * Dimensions are filled up with zeros to the next of 4, 6, 8, 12 and 16, which add nothing to any
 * metric; so there are five kernels rather than thirteen for each metric.
 * Launch: 128 threads, or 256 where rows are shifted, as many along a row as it has use for, the
 * others on further rows.
 * Reached there: d = 4 0.251 ms, d = 8 0.257, d = 12 0.319, d = 16 0.397 (cityblock 0.367); n =
 * 16383, d = 8 0.289. Up to d = 8 writing binds: blocks of 256 rows, which write to more places at
 * once, take 0.270. At d = 16 it is issue: without its stores the kernel takes as long, with a root
 * of five instructions 0.433. Its loop is 37.9 instructions a result, of which 32 are arithmetic
 * and 1 % meet in a bank of registers: 0.304 ms if one is issued every cycle. That is 77 %,
 * cityblock (34.9) the same. 4 % of it is the last wave of blocks. Two rows at once,
 * one row a turn, three blocks with more registers, blocks of 64, 128 and 512 rows, of 64 and 256
 * threads and columns of blocks first are all slower, by 1 to 10 %. Pairs take 59 % of these times
 * at d = 4, 69 % at d = 8, 64 % at d = 16. Bringing columns to registers takes longer than a small
 * matrix of longer rows does: those are left to tile.cu, which has the same bits (gd_stand_in):
 * 2048 x 1024 x 16 in 7.5 us instead of 12.4. */
#include <cuda/std/type_traits>

#include "grid.cuh"
#include "span.cuh"

namespace {

using T = float;
constexpr int kCols = gd::kPerWord<T>;
/* Of a block: few, because small blocks start and end sooner, but where rows are shifted, whose
 * ends cost. */
constexpr int kFewThreads = 128, kManyThreads = 256;
constexpr int kCheck = 8; /* rows of a thread that are repaired together */
/* Where writing binds, low blocks are better: those at work then write to fewer places at once. */
template <int D>
constexpr int kRows = D <= 8 ? 64 : 256;
/* Rows so short are all ends: there columns of a thread that lie apart are better. */
constexpr ptrdiff_t kAllEnds = 64;
constexpr int kEnoughBlocks = 1024; /* some for each multiprocessor of a large GPU */

/* Brings a thread's columns to registers. A warp reads the points of all its threads, 32 of them at
 * a time, as they lie in memory, and the threads take theirs from a shared copy: read by each
 * thread for itself, every element would be a line of its own. Loops over points stay loops: a
 * block meets this code once, and its instructions have to come from memory. */
template <int D, int kThreads, gd::Form kForm>
__device__ __forceinline__ void take_columns(const gd::Cdist<T, kForm> &call,
                                             const gd::Span<T> &span, T (&b)[kCols][D])
{
    constexpr int kPitch = D + 2; /* pairs stay aligned */
    __shared__ alignas(8) T staged[kThreads / 32][32][kPitch];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = (int)call.d;
    if (blockDim.x < 32) {
        /* So few columns that a warp spans several rows of threads. */
#pragma unroll 1
        for (int j = 0; j < kCols; ++j) {
            const ptrdiff_t point = span.column(call.b, j);
#pragma unroll
            for (int k = 0; k < D; ++k) {
                b[0][k] = b[1][k], b[1][k] = b[2][k], b[2][k] = b[3][k];
                b[3][k] = call.b.at(point, min(k, d - 1));
                b[3][k] = k < d ? b[3][k] : T(0);
            }
        }
        return;
    }
    /* Threads of the further rows (blockDim.y) stage the same columns, each warp for itself. */
    T(*mine)[kPitch] = staged[threadIdx.y * (blockDim.x / 32) + warp];
    ptrdiff_t from = span.first - lane * kCols;
#pragma unroll 1
    for (int chunk = 0; chunk < kCols; ++chunk, from += 32) {
        T raw[D];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < D; ++i) {
            const int point = (i * 32 + lane) / D, k = (i * 32 + lane) % D;
            /* Without a branch around it, all loads are under way at once. */
            raw[i] = call.b.at(call.b.clamp(max(from + point, (ptrdiff_t)0)), min(k, d - 1));
        }
#pragma unroll
        for (int i = 0; i < D; ++i) {
            const int point = (i * 32 + lane) / D, k = (i * 32 + lane) % D;
            mine[point][k ^ 1] = k < d ? raw[i] : T(0);
        }
        __syncwarp();
        /* Eight threads have all their columns in this chunk. */
        if (lane / 8 == chunk) {
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
#pragma unroll
                for (int k = 0; k < D; k += 2) {
                    const float2 pair =
                        *reinterpret_cast<const float2 *>(&mine[lane % 8 * kCols + j][k]);
                    b[j][k + 1] = pair.x, b[j][k] = pair.y;
                }
            }
        }
    }
}

/* A thread's results: of every kinds * blockDim.y-th row from first_row + threadIdx.y * kinds on.
 */
template <gd::Form kForm>
struct Share {
    ptrdiff_t first_row;
    gd::Span<T> span;

    __device__ __forceinline__ Share(const gd::Cdist<T, kForm> &call, unsigned block_row,
                                     unsigned block_col, int block_rows, unsigned log_kinds)
        : first_row(((ptrdiff_t)(block_row >> log_kinds) * block_rows << log_kinds) +
                    (block_row & ((1u << log_kinds) - 1))),
          span(gd::Span<T>::in_block(call, (ptrdiff_t)block_col * blockDim.x * kCols, log_kinds,
                                     block_row & ((1u << log_kinds) - 1)))
    {
    }
};

/* The least and the most of a thread's results, by their bits, which sort as numbers >= 0 do, NaN
 * above all: two results an instruction. */
struct Extremes {
    unsigned least = UINT_MAX, most = 0;

    __device__ __forceinline__ void see(float x, float y)
    {
        least = min(min(least, __float_as_uint(x)), __float_as_uint(y));
        most = max(max(most, __float_as_uint(x)), __float_as_uint(y));
    }
    /* Whether all are good. */
    template <typename M>
    __device__ __forceinline__ bool safe() const
    {
        return !M::template guarded<T> ||
               (M::safe(__uint_as_float(least)) && M::safe(__uint_as_float(most)) &&
                __uint_as_float(most) <= FLT_MAX);
    }
};

/* A row's results. D is at most GD_FOLD, so one accumulator makes the total. */
template <typename M, int D, int kFill>
__device__ __forceinline__ void find_row(T (&results)[kCols], const T (&a)[kFill],
                                         const T (&b)[kCols][D], Extremes &extremes)
{
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
        results[j] = gd::first_term<M>(a[0], b[j][0]);
    }
#pragma unroll
    for (int k = 1; k < D; ++k) {
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
            results[j] = M::term(results[j], a[k], b[j][k]);
        }
    }
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
        if constexpr (M::root) {
            results[j] = gd::quick_root(results[j]);
        }
    }
    if constexpr (M::template guarded<T>) {
#pragma unroll
        for (int j = 0; j < kCols; j += 2) {
            extremes.see(results[j], results[j + 1]);
        }
    }
}

/* log_kinds: see span.cuh. */
template <typename M, int D, gd::Form kForm, int kThreads>
__global__ void __launch_bounds__(kThreads, 512 / kThreads)
    short_points(const __grid_constant__ gd::Cdist<T, kForm> call,
                 const __grid_constant__ gd::Grid grid, int block_rows, unsigned log_kinds)
{
    static_assert(kRows<D> <= kCheck * 32, "a bit for every kCheck rows");
    constexpr int kFill = (D + kCols - 1) / kCols * kCols; /* a row in whole words */
    constexpr bool kAhead = D > 8;
    __shared__ alignas(16) T rows[kRows<D>][kFill];
    unsigned block_row, block_col;
    if (!grid.find<kForm, false>(&block_row, &block_col)) {
        return;
    }
    const Share<kForm> share(call, block_row, block_col, block_rows, log_kinds);
    const ptrdiff_t first_row = share.first_row;
    const gd::Span<T> span = share.span;
    if (!call.has(first_row, (ptrdiff_t)(block_col + 1) * blockDim.x * kCols)) {
        return;
    }

    /* Neighbouring threads read neighbouring elements of a row; the last row stands in for rows
     * beyond the end. */
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll 8
    for (int i = thread; i < block_rows * kFill; i += blockDim.x * blockDim.y) {
        const int row = i / kFill, k = i % kFill;
        const T x = call.a.at(call.a.clamp(first_row + ((ptrdiff_t)row << log_kinds)),
                              min(k, (int)call.d - 1));
        rows[row][k] = k < call.d ? x : T(0);
    }
    T b[kCols][D];
    take_columns<D, kThreads>(call, span, b);
    __syncthreads();
    if (span.empty()) {
        return;
    }

    /* Rows of this kind, but those that have no results here. */
    int left =
        (int)max(min(((call.a.count - first_row - 1) >> log_kinds) + 1, (ptrdiff_t)block_rows),
                 (ptrdiff_t)0);
    if (kForm == gd::Form::kPairs) {
        const ptrdiff_t within = span.first + kCols - 2 - first_row;
        left = within < 0 ? 0 : (int)min((ptrdiff_t)left, (within >> log_kinds) + 1);
    }
    const ptrdiff_t step = (ptrdiff_t)blockDim.y << log_kinds;
    const ptrdiff_t row = first_row + ((ptrdiff_t)threadIdx.y << log_kinds);
    T *to = call.row(row) + span.first;
    /* Of pairs a row is shorter than the one before, so steps from one to the next are as well. No
     * matrix of them that fits into memory has so many columns that they outgrow 32 bits. */
    using Step = cuda::std::conditional_t<kForm == gd::Form::kPairs, int, ptrdiff_t>;
    Step next = (Step)call.step(row, step);
    int start = span.start(call, row);
    const int fall = kForm == gd::Form::kPairs ? (int)step : 0;
    unsigned unsafe = 0; /* a bit for every kCheck of this thread's rows */
    int i = threadIdx.y;
    /* all_whole: threads have all their columns in every row, and they are a word. */
    const auto walk = [&](auto all_whole) {
        T a[kAhead ? 2 : 1][kFill]; /* a row, and the next, which is on its way meanwhile */
        const auto fetch = [&](T(&to_row)[kFill], int at) {
#pragma unroll
            for (int k = 0; k < kFill; k += kCols) {
                gd::load_word(&rows[kAhead ? min(at, kRows<D> - 1) : at][k], to_row + k);
            }
        };
        if constexpr (kAhead) {
            fetch(a[0], i);
        }
        for (unsigned bit = 1; i < left; bit *= 2) {
            Extremes extremes;
            const int end = min(left, i + kCheck * (int)blockDim.y);
            const auto add_row = [&](const T(&of_a)[kFill]) {
                T results[kCols];
                find_row<M, D>(results, of_a, b, extremes);
                if constexpr (decltype(all_whole)::value) {
                    gd::stream_word(to, results);
                }
                else {
                    span.store(to, results, start);
                }
                to += next, next -= fall * fall, start += fall;
            };
            if constexpr (!kAhead) {
#pragma unroll 2
                for (; i < end; i += blockDim.y) {
                    fetch(a[0], i);
                    add_row(a[0]);
                }
            }
            else {
#pragma unroll 1
                for (; i < end; i += 2 * blockDim.y) {
                    fetch(a[1], i + (int)blockDim.y);
                    add_row(a[0]);
                    if (i + (int)blockDim.y >= end) {
                        memcpy(a[0], a[1], sizeof a[0]);
                        i += blockDim.y;
                        break;
                    }
                    fetch(a[0], i + 2 * (int)blockDim.y);
                    add_row(a[1]);
                }
            }
            unsafe |= extremes.safe<M>() ? 0 : bit;
        }
    };
    const bool whole = span.step == 1 && span.low == 0 && span.high == kCols;
    /* A warp goes one way. */
    if (kForm == gd::Form::kMatrix && __all_sync(__activemask(), whole)) {
        walk(cuda::std::true_type{});
    }
    else {
        walk(cuda::std::false_type{});
    }
    if constexpr (M::template guarded<T>) {
        /* Rare, and last: see repair. */
        gd::forget(block_row), gd::forget(block_col);
        const Share<kForm> again(call, block_row, block_col, block_rows, log_kinds);
        for (; unsafe != 0; unsafe &= unsafe - 1) {
            const int from = threadIdx.y + (__ffs((int)unsafe) - 1) * kCheck * (int)blockDim.y;
            const int end = min(left, from + kCheck * (int)blockDim.y);
            gd::repair<M>(call, again.first_row + ((ptrdiff_t)from << log_kinds),
                          again.first_row + ((ptrdiff_t)end << log_kinds),
                          (ptrdiff_t)blockDim.y << log_kinds, again.span.run(call));
        }
    }
}

template <int D, typename M, gd::Form kForm, int kThreads>
cudaError_t launch(const gd_cdist &call, unsigned log_kinds)
{
    static_assert(D <= GD_FOLD, "one accumulator");
    const auto parameters = gd::parameters_of<T, kForm>(call);
    const ptrdiff_t columns = call.out.cols + (1 << log_kinds) - 1; /* shifted rows are longer */
    /* A matrix with few columns has no use for all threads side by side. Columns that lie apart lie
     * further than one from each other, by which they are told from words. */
    unsigned across = log_kinds == 0 && !parameters.words ? 2 : 1;
    while (across < kThreads && across * kCols < columns) {
        across *= 2;
    }
    const ptrdiff_t blocks_across = gd::ceil_div(columns, across * kCols);
    /* A small matrix is cut into more blocks, so that every multiprocessor gets some. */
    int rows = kRows<D>;
    const int enough = call.pairs ? 2 * kEnoughBlocks : kEnoughBlocks; /* half of them have tiles */
    while (rows > 8 && blocks_across * gd::ceil_div(call.out.rows, rows) < enough) {
        rows /= 2;
    }
    const ptrdiff_t down = gd::ceil_div(call.out.rows, (ptrdiff_t)rows << log_kinds) << log_kinds;
    /* Blocks are counted along rows first; of pairs a band is all kinds of the same rows. */
    const gd::Grid grid(call.pairs, down, blocks_across, call.pairs ? 1u << log_kinds : 1, rows,
                        across * kCols);
    return gd::enqueue(call.launch, short_points<M, D, kForm, kThreads>, grid.blocks(),
                       dim3(across, kThreads / across), 0, parameters, grid, rows, log_kinds);
}

template <int D, typename M>
cudaError_t launch_form(const gd_cdist &call)
{
    if (call.pairs) {
        constexpr gd::Form kForm = gd::Form::kPairs;
        return launch<D, M, kForm, kManyThreads>(call, log_kinds_of(gd::target_of<T, kForm>(call)));
    }
    constexpr gd::Form kForm = gd::Form::kMatrix;
    const unsigned log_kinds =
        call.out.cols <= kAllEnds ? 0 : log_kinds_of(gd::target_of<T, kForm>(call));
    return log_kinds == 0 ? launch<D, M, kForm, kFewThreads>(call, log_kinds)
                          : launch<D, M, kForm, kManyThreads>(call, log_kinds);
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
        const cudaError_t code = d <= 4    ? launch_form<4, M>(*call)
                                 : d <= 6  ? launch_form<6, M>(*call)
                                 : d <= 8  ? launch_form<8, M>(*call)
                                 : d <= 12 ? launch_form<12, M>(*call)
                                           : launch_form<16, M>(*call);
        GD_CUDA_TRY(err, "cdist/cuda_short", code);
        return GD_OK;
    });
}
