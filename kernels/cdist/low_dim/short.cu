/* short.cu: cdist of float32 points with four to twenty dimensions.
 *
 * Idea: as in narrow.cu the columns' points stay in registers, four of them a thread, so that a
 * row's results leave in one 16-byte store. Rows no longer fit beside them: a block
 * brings up to 256 rows to shared memory, and all its threads walk down them together, reading each
 * as a broadcast. That is one load of 16 bytes for 16 differences, and no barrier in the loop.
 *
 * A result costs two instructions a dimension and three for the root and its share of loads and
 * stores. 16384 x 16384 float32 on an H200, whose floor of writing is 0.23 ms: d = 8 issues for
 * 0.15 ms, d = 16 for 0.29.
 *
 * What carries the speed:
 * - The register file reads one even and one odd register a cycle. Columns' dimensions are loaded
 *   to registers of their own parity; rows are staged with neighbours exchanged, so that theirs
 *   have the other one.
 * - Eight rows are a turn of the loop, so that all but their own work is done once for 32 results.
 * - Roots are one instruction. Whether they are good is not asked where all elements of a block are
 *   0 or of ordinary size (Sizes): then they are, which takes a look at each element instead of one
 *   at each result. Elsewhere it is asked for eight rows at once, of the least and the most.
 * - Before its first row a block waits for its points, so their loads are all under way at once.
 * - Blocks get so many rows that the last round of them is a full one.
 *
 * Dimensions are filled up with zeros to the next of 4, 6, 8, 12, 16, 18 and 20, which add nothing
 * to any metric; so there are seven kernels rather than seventeen for each metric.
 *
 * Launch: 128 threads, as many along a row as it has use for, the others on further rows.
 *
 * Reached there: d = 4 0.249 ms, d = 8 0.249, d = 12 0.269, d = 16 0.334 (cityblock 0.312), d = 17
 * to 20 0.438 (direct.cu 0.518), of which 45.7 instructions a result issue in 0.367: with twenty
 * dimensions three blocks find registers, not four; n = 16383, d = 8 0.271, d = 16 0.366; 65536 x
 * 65536 x 8 3.82; 2048 x 1024 x 16 6.9 us, 3.9 of which an empty kernel takes. Up to d = 8 writing
 * binds: blocks of 256 rows, which write to more places at once, take 4 % longer. At d = 16 it is
 * issue: 36.3 instructions a result, of which 32 are arithmetic and none meet in a bank of
 * registers, one in 88 % of the cycles, where the arithmetic alone gets 90. Pairs take 60 to 63 %
 * of these times: their blocks end at different times, and are so short that warps wait for
 * instructions for 7 % of theirs. By counters, d = 16: 7 % more instructions than half of the
 * matrix's, issued in 84 % of the cycles instead of 90, and in the last 8 % of the time some
 * multiprocessors have no block. */
#include <type_traits>

#include "common/ends.cuh"
#include "common/grid.cuh"
#include "cdist/low_dim/short_operands.cuh"

namespace {

using T = float;
constexpr int kCols = gd::kShortCols, kThreads = gd::kShortThreads;
/* How many blocks a multiprocessor has, by their registers. */
template <int D>
constexpr int kThreadsAtWork = D <= GD_FOLD ? 512 : 384;
constexpr int kCheck = 8; /* rows of a thread that are recomputed together */
/* Rows of a block at most. Where writing binds, low blocks are better: those at work then write to
 * fewer places at once. Of pairs those at the diagonal end early, so that no round is a full one.
 */
template <int D, gd::Form kForm>
constexpr int kRows = D <= 8                      ? 64
                      : kForm == gd::Form::kPairs ? 128
                                                  : 256;
/* Shifted rows are written by whole sectors where writing binds, else by words (span.cuh). */
template <int D, gd::Form kForm>
constexpr unsigned kLogAligned =
    D <= 8 || kForm == gd::Form::kMatrix ? gd::kLogSector<T> : gd::kLogWord<T>;
constexpr int kFewest = 8;
/* Rows so short are all ends: there columns of a thread that lie apart are better. */
constexpr ptrdiff_t kAllEnds = 64;

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

    template <typename M>
    __device__ __forceinline__ void see(const T (&results)[kCols])
    {
        if constexpr (M::template guarded<T>) {
#pragma unroll
            for (int j = 0; j < kCols; j += 2) {
                const unsigned x = __float_as_uint(results[j]);
                const unsigned y = __float_as_uint(results[j + 1]);
                least = min(min(least, x), y);
                most = max(max(most, x), y);
            }
        }
    }
    /* Whether all are good. */
    template <typename M>
    __device__ __forceinline__ bool safe(gd_metric metric) const
    {
        bool good = true;
        if constexpr (M::template guarded<T>) {
            gd::with_end<M, true>(metric, [&](auto end) {
                using End = decltype(end);
                good = End::safe(__uint_as_float(least)) && End::safe(__uint_as_float(most)) &&
                       __uint_as_float(most) <= FLT_MAX;
            });
        }
        return good;
    }
};

/* A row's results; neighbours of its dimensions are exchanged. Sums start afresh after GD_FOLD
 * dimensions, as in all direct forms. */
template <typename M, int D, int kFill>
__device__ __forceinline__ void find_row(T (&results)[kCols], const T (&a)[kFill],
                                         const T (&b)[kCols][D], gd_metric metric)
{
#pragma unroll
    for (int first = 0; first < D; first += GD_FOLD) {
        T fold[kCols];
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
            fold[j] = gd::first_term<M>(a[first + 1], b[j][first]);
        }
#pragma unroll
        for (int k = first + 1; k < D && k < first + GD_FOLD; ++k) {
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
                fold[j] = M::term(fold[j], a[k ^ 1], b[j][k]);
            }
        }
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
            results[j] = first == 0 ? fold[j] : M::join(results[j], fold[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
        if (M::squares && metric == GD_EUCLIDEAN) {
            results[j] = gd::approximate_sqrt_ftz(results[j]);
        }
    }
}

/* Brings a row from shared memory. */
template <int kFill>
__device__ __forceinline__ void load_row(const T *from, T (&to)[kFill])
{
#pragma unroll
    for (int k = 0; k < kFill; k += kCols) {
        gd::load_word(from + k, to + k);
    }
}

/* Rows of a block's kind that have results in a thread's columns. */
template <gd::Form kForm>
__device__ __forceinline__ int rows_left(const gd::Cdist<T, kForm> &call, const gd::Span<T> &span,
                                         ptrdiff_t first_row, int block_rows, unsigned log_kinds)
{
    const int left =
        (int)max(min(((call.a.count - first_row - 1) >> log_kinds) + 1, (ptrdiff_t)block_rows),
                 (ptrdiff_t)0);
    if (kForm == gd::Form::kPairs) {
        const ptrdiff_t within = span.first + kCols - 2 - first_row;
        return within < 0 ? 0 : (int)min((ptrdiff_t)left, (within >> log_kinds) + 1);
    }
    return left;
}

/* Computes again what of a thread's results is not safe, a bit of `unsafe` for every kCheck of its
 * rows. Rare, and last: see recompute_f64. */
template <typename M, gd::Form kForm>
__device__ __forceinline__ void recompute_unsafe(const gd::Cdist<T, kForm> &call, unsigned unsafe,
                                                 gd_metric metric, unsigned block_row,
                                                 unsigned block_col, int block_rows,
                                                 unsigned log_kinds, int left)
{
    const int down = (int)blockDim.y;
    gd::hide_origin(block_row), gd::hide_origin(block_col);
    const Share<kForm> again(call, block_row, block_col, block_rows, log_kinds);
    for (; unsafe != 0; unsafe &= unsafe - 1) {
        const int from = threadIdx.y + (__ffs((int)unsafe) - 1) * kCheck * down;
        const int end = min(left, from + kCheck * down);
        gd::with_end<M, true>(metric, [&](auto ends) {
            gd::recompute_f64<decltype(ends)>(call,
                                              again.first_row + ((ptrdiff_t)from << log_kinds),
                                              again.first_row + ((ptrdiff_t)end << log_kinds),
                                              (ptrdiff_t)down << log_kinds, again.span.run(call));
        });
    }
}

/* Rows of a warp's threads, whole turns of them, that are above the diagonal in all columns: those
 * of the first one, which it crosses first. start: see Span; it grows by `fall` a row. */
__device__ __forceinline__ int rows_above_diagonal(unsigned together, int start, int fall, int rows)
{
    const int above = start > 0 ? 0 : min(rows, -start / fall + 1);
    return __shfl_sync(together, above, __ffs((int)together) - 1) / kCheck * kCheck;
}

/* M has the terms of `metric`. log_kinds: see span.cuh. words: both operands can be read by aligned
 * words along dimensions. */
template <typename M, int D, gd::Form kForm>
__global__ void __launch_bounds__(kThreads, kThreadsAtWork<D> / kThreads)
    short_points(const __grid_constant__ gd::Cdist<T, kForm> call,
                 const __grid_constant__ gd::Grid grid, int block_rows, unsigned log_kinds,
                 bool words, gd_metric metric)
{
    static_assert(kRows<D, kForm> <= kCheck * 32, "a bit for every kCheck rows");
    constexpr int kFill = (D + kCols - 1) / kCols * kCols;     /* a row in whole words */
    __shared__ alignas(16) T rows[kRows<D, kForm> + 1][kFill]; /* one more is read ahead */
    unsigned block_row, block_col;
    if (!grid.find<kForm, false>(&block_row, &block_col)) {
        return;
    }
    const Share<kForm> share(call, block_row, block_col, block_rows, log_kinds);
    const gd::Span<T> span = share.span;
    if (!call.has(share.first_row, (ptrdiff_t)(block_col + 1) * blockDim.x * kCols)) {
        return;
    }

    T b[kCols][D];
    gd::Sizes<M> sizes;
    gd::take_rows(call, share.first_row, block_rows, log_kinds, words, sizes, rows);
    gd::take_columns<D>(call, span, words, sizes, b);
    const bool ordinary = !__syncthreads_or(!sizes.ordinary());

    const int left = rows_left(call, span, share.first_row, block_rows, log_kinds);
    const int down = (int)blockDim.y, mine = (left - (int)threadIdx.y + down - 1) / down;
    if (span.empty() || mine <= 0) {
        return;
    }
    const ptrdiff_t step = (ptrdiff_t)down << log_kinds;
    const ptrdiff_t row = share.first_row + ((ptrdiff_t)threadIdx.y << log_kinds);
    T *to = call.row(row) + span.first;
    /* A row of pairs is shorter than the one before, so steps from one to the next are as well. No
     * matrix of them that fits into memory has so many columns that they outgrow 32 bits. */
    using Step = std::conditional_t<kForm == gd::Form::kPairs, int, ptrdiff_t>;
    Step next = (Step)call.step(row, step);
    int start = span.start(call, row);
    const int fall = kForm == gd::Form::kPairs ? (int)step : 0;
    const T *from = rows[threadIdx.y * ((block_rows + down - 1) / down)];
    T a[2][kFill]; /* row i, and the next, which is on its way meanwhile */
    const auto fetch = [&](T(&to_row)[kFill], int ahead) {
        load_row(from + ahead * kFill, to_row);
    };
    fetch(a[0], 0);
    int i = 0;
    Extremes extremes;
    /* plain: threads have all their columns in every row, they are a word, and all is good. */
    const auto walk = [&](auto plain, int end) {
        constexpr bool kPlain = decltype(plain)::value;
        constexpr int kTurn = kPlain ? 4 : 2; /* rows a turn of the loop */
        const auto add_row = [&](const T(&of_a)[kFill]) {
            T results[kCols];
            find_row<M, D>(results, of_a, b, metric);
            if constexpr (kPlain) {
                gd::stream_word(to, results);
            }
            else {
                extremes.see<M>(results);
                span.store(to, results, start);
            }
            to += next, next -= fall * fall, start += fall;
        };
#pragma unroll 1
        for (; i + kTurn <= end; i += kTurn, from += kTurn * kFill) {
#pragma unroll
            for (int j = 0; j < kTurn; ++j) {
                fetch(a[(j + 1) % 2], j + 1);
                add_row(a[j % 2]);
            }
        }
#pragma unroll 1
        for (; i < end; ++i, from += kFill) {
            add_row(a[0]);
            fetch(a[0], 1);
        }
    };
    /* A warp goes one way: plain until the diagonal crosses it. */
    const unsigned together = __activemask();
    if (__all_sync(together, ordinary && span.step == 1 && span.low == 0 && span.high == kCols &&
                                 (kForm == gd::Form::kMatrix || blockDim.x >= 32))) {
        int end = mine;
        if constexpr (kForm == gd::Form::kPairs) {
            end = rows_above_diagonal(together, start, fall, mine);
        }
        walk(std::true_type{}, end);
    }
    unsigned unsafe = 0; /* a bit for every kCheck of this thread's rows */
    while (i < mine) {
        const int group = i / kCheck;
        extremes = Extremes{};
        walk(std::false_type{}, min(mine, i + kCheck));
        unsafe |= extremes.safe<M>(metric) ? 0 : 1u << group;
    }
    if constexpr (M::template guarded<T>) {
        recompute_unsafe<M>(call, unsafe, metric, block_row, block_col, block_rows, log_kinds,
                            left);
    }
}

template <int D, typename M, gd::Form kForm>
cudaError_t launch(const gd_cdist &call, unsigned log_kinds)
{
    static_assert(D <= gd::kShortDims, "finish() knows which roots are quick");
    const auto parameters = gd::parameters_of<T, kForm>(call);
    const bool words = call.a.cols == D && gd::reads_words<T>(call.a) && gd::reads_words<T>(call.b);
    const ptrdiff_t columns = call.out.cols + (1 << log_kinds) - 1; /* shifted rows are longer */
    /* A matrix with few columns has no use for all threads side by side. Columns that lie apart lie
     * further than one from each other, by which they are told from words. */
    unsigned across = log_kinds == 0 && !parameters.words ? 2 : 1;
    while (across < kThreads && across * kCols < columns) {
        across *= 2;
    }
    const ptrdiff_t blocks_across = gd::ceil_div(columns, across * kCols);
    const int threads_down = kThreads / across;
    int processors = 0;
    const cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                    call.launch.device.index);
    if (code != cudaSuccess) {
        return code;
    }
    /* As few rounds of blocks as hold all rows, and rows so many that the last round is a full one;
     * or, where that takes but one, two blocks a multiprocessor, which have more rows to bring
     * columns for than as many as could be at work. Of pairs half the tiles are blocks. */
    const ptrdiff_t few = (ptrdiff_t)processors * 2 << call.pairs;
    const ptrdiff_t at_work = (ptrdiff_t)processors * (kThreadsAtWork<D> / kThreads) << call.pairs;
    const ptrdiff_t rows_of_kind = gd::ceil_div(call.out.rows, (ptrdiff_t)1 << log_kinds);
    const ptrdiff_t bands = blocks_across << log_kinds;
    const ptrdiff_t rounds =
        gd::ceil_div(gd::ceil_div(rows_of_kind, kRows<D, kForm>) * bands, at_work);
    const ptrdiff_t in_kind = (rounds > 1 ? rounds * at_work : few) / bands;
    const ptrdiff_t wanted = gd::ceil_div(rows_of_kind, in_kind > 0 ? in_kind : 1);
    const ptrdiff_t most = kRows<D, kForm>,
                    whole = gd::ceil_div(wanted, threads_down) * threads_down;
    const int rows = (int)(whole < kFewest ? kFewest : whole < most ? whole : most);
    const ptrdiff_t down = gd::ceil_div(rows_of_kind, rows) << log_kinds;
    /* Blocks are counted along rows first; of pairs a band is all kinds of the same rows. */
    const gd::Grid grid(call.pairs, down, blocks_across, call.pairs ? 1u << log_kinds : 1, rows,
                        across * kCols);
    return gd::enqueue(call.launch, short_points<M, D, kForm>, grid.blocks(),
                       dim3(across, threads_down), 0, parameters, grid, rows, log_kinds, words,
                       call.metric);
}

template <int D, typename M>
cudaError_t launch_form(const gd_cdist &call)
{
    return gd::with_form(call, [&](auto form) {
        constexpr gd::Form kForm = decltype(form)::value;
        const bool shifted = call.pairs || call.out.cols > kAllEnds;
        return launch<D, M, kForm>(
            call, shifted ? log_kinds_of(gd::target_of<T, kForm>(call), kLogAligned<D, kForm>) : 0);
    });
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_short(gd_cdist *call, gd_error *err)
{
    if (gd::sizes_nothing(call->launch)) {
        return GD_OK;
    }
    return gd::with_terms<true>(call->metric, [&](auto terms) {
        using M = decltype(terms);
        const ptrdiff_t d = call->a.cols;
        const cudaError_t code = d <= 4    ? launch_form<4, M>(*call)
                                 : d <= 6  ? launch_form<6, M>(*call)
                                 : d <= 8  ? launch_form<8, M>(*call)
                                 : d <= 12 ? launch_form<12, M>(*call)
                                 : d <= 16 ? launch_form<16, M>(*call)
                                 : d <= 18 ? launch_form<18, M>(*call)
                                           : launch_form<20, M>(*call);
        GD_CUDA_TRY(err, "cdist/cuda_short", code);
        return GD_OK;
    });
}
