/* bits.cu: cdist of truths that are packed to bits (GD_BITS), for the metrics that are functions of
 * four counts.
 *
 * Idea: only one count takes both rows, that of the columns where both are true; the rows' own
 * counts, their terms, give the other three. It is a matrix product whose multiplication is `and`,
 * and tensor cores have it: one instruction of a warp takes 16 rows and 8 columns through 256
 * bits. What binds then is the writing of the results: 16384 x 16384 float32 takes the H200
 * 0.23 ms, in which it can issue 24 instructions a result, and the products of 256 bits some
 * 0.03 ms; from 2048 bits on the products and the loads behind them bind.
 *
 * A count does not care for the order of bits. So a thread reads 16 bytes of a row at once, 64 of
 * the four that share a row, and gives its words to the instruction as they come: no shared memory,
 * no barrier, no shuffling. The warps of a block read each other's rows from L1.
 *
 * Three details spare instructions:
 * - counts start at the bits of 2**23 (2**52), so that one subtraction makes them floating-point;
 * - columns are dealt out so that a thread's results of a row are neighbours, for 16-byte stores;
 * - the division is a reciprocal and one correction (Count in common/counts.cuh): of float64, where
 * instructions take two cycles, that is a quarter less than IEEE's.
 *
 * Of a batch all matrices' tiles are one grid, in the form for rows that start anywhere: in the
 * other there is no register left for where a matrix begins, and keeping that in shared memory made
 * one matrix of 16384 x 16384 10 % slower.
 *
 * Launch: 8 warps, 2 below each other and 4 side by side, of 32 x 32 results each; blocks in bands
 * as in tile.cu. Where rows of the result are not of words, a block's rows are of one kind and its
 * columns shifted to suit (span.cuh).
 *
 * Reached on an H200, 16384 x 16384 float32: 128 bits 0.39 ms, 1024 bits 0.51; at n = 16383 0.52
 * and 0.60 (1.5 with single stores); pairs 0.28 and 0.35. float64, 1024 bits: jaccard 0.68 (0.94
 * with IEEE's division, the same bits), hamming 0.72 (0.86). */
#include <type_traits>

#include "arch/mma_bits.cuh"
#include "cdist/matrices.cuh"
#include "common/counts.cuh"
#include "common/grid.cuh"
#include "common/span.cuh"

namespace {

using gd::Count;

constexpr int kThreads = 256, kWarpsAcross = 4, kWarpsDown = 2;
constexpr int kDown = 2, kAcross = 4; /* products of a warp, each of 16 x 8 results */
constexpr int kRows = 16 * kDown, kCols = 8 * kAcross;
constexpr int kBlockRows = kRows * kWarpsDown, kBlockCols = kCols * kWarpsAcross;
constexpr unsigned kBand = 16;
constexpr int kStep = 4 * GD_BITS_ALIGNMENT; /* words of a row that a turn of the loop takes */
static_assert(kWarpsAcross * kWarpsDown * 32 == kThreads, "every warp has its results");
static_assert(GD_BITS_ALIGNMENT * sizeof(int32_t) == sizeof(uint4), "a group is a load");

/* A call's operands and result. kMatrix: the result has aligned rows; kEither: all others. */
template <typename T, gd::Form kForm>
struct Bits : gd::Target<T, kForm> { /* of the first matrix, where there are many */
    gd::Matrices all;
    gd::Points<int32_t> a, b;
    ptrdiff_t length; /* words of a row */
    const double *a_terms, *b_terms;
    double columns;
    gd_metric metric;
};

/* Instead of a metric: that of the call, told once a result. */
constexpr int kAsCalled = -1;

/* ---------------------------------------------------------------- counting */

/* A row's group of words; zeros, which count nothing, beyond the last. */
__device__ __forceinline__ uint4 load_group(const gd::Points<int32_t> &x, ptrdiff_t row,
                                            ptrdiff_t word, bool present)
{
    return present
               ? __ldg(reinterpret_cast<const uint4 *>(x.data + x.clamp(row) * x.row_stride + word))
               : uint4{};
}

/* ---------------------------------------------------------------- from counts to distances */

/* The bits that counts start at, and the number that a sum from there on stands for. */
template <typename R>
struct Counter;
template <>
struct Counter<Count<float>> {
    static constexpr int start = 0x4b000000; /* 2**23 */
    static __device__ __forceinline__ float value(int sum) { return __int_as_float(sum) - 0x1p23f; }
};
template <>
struct Counter<Count<double>> {
    static constexpr int start = 0;
    static __device__ __forceinline__ double value(int sum)
    {
        return __hiloint2double(0x43300000, sum) - 0x1p52; /* 2**52 */
    }
};

/* A row's own count. The launcher takes float32 only for counts that it holds exactly. */
template <typename R>
__device__ __forceinline__ R own_count(const double *terms, ptrdiff_t row)
{
    if constexpr (sizeof(R) == sizeof(float)) {
        return (float)__ldg(terms + row);
    }
    else {
        return __ldg(terms + row);
    }
}

template <typename R>
__device__ __noinline__ R distance_as_called(gd_metric metric, R both, R x, R y, R columns)
{
    return gd::distance_of_counts(metric, both, x, y, columns);
}

template <int kMetric, typename R>
__device__ __forceinline__ R distance(gd_metric metric, int sum, R x, R y, R columns)
{
    const R counted = Counter<R>::value(sum);
    const R both = gd::kCountsUnequal ? (x + y - counted) * R(0.5f) : counted;
    if constexpr (kMetric == kAsCalled) {
        return distance_as_called(metric, both, x, y, columns);
    }
    return gd::distance_of_counts((gd_metric)kMetric, both, x, y, columns);
}

/* ---------------------------------------------------------------- the kernel */

/* A thread's rows and columns start here. */
struct Corner {
    ptrdiff_t row, col;

    template <typename T, gd::Form kForm>
    __device__ __forceinline__ Corner(const gd::Target<T, kForm> &to, unsigned tile_row,
                                      unsigned tile_col, unsigned thread, unsigned log_kinds)
    {
        const unsigned kind = tile_row & ((1u << log_kinds) - 1), warp = thread / 32;
        const ptrdiff_t top = (ptrdiff_t)(tile_row >> log_kinds) * kBlockRows;
        row = ((top + warp / kWarpsAcross * kRows + thread % 32 / 4) << log_kinds) + kind;
        col = (ptrdiff_t)tile_col * kBlockCols + warp % kWarpsAcross * kCols -
              shift_of(to, log_kinds, kind);
    }
};

/* Whether a warp is beyond the last row or column: matrices of a batch may be small. */
template <typename T, gd::Form kForm>
__device__ __forceinline__ bool is_idle(const Bits<T, kForm> &call, unsigned tile_row,
                                        unsigned tile_col, unsigned warp, unsigned log_kinds)
{
    const ptrdiff_t top =
        (ptrdiff_t)(tile_row >> log_kinds) * kBlockRows + warp / kWarpsAcross * kRows;
    const ptrdiff_t left = (ptrdiff_t)tile_col * kBlockCols + warp % kWarpsAcross * kCols;
    return top << log_kinds >= call.a.count || left >= call.cols + (1 << log_kinds);
}

__device__ __forceinline__ void start_counting(int (&sum)[kDown][kAcross][4], int start)
{
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                sum[i][j][e] = start;
            }
        }
    }
}

/* Points or results of a matrix of many. */
template <bool kMany, typename X>
__device__ __forceinline__ std::conditional_t<kMany, X, const X &> moved(
    const X &first, const volatile ptrdiff_t &begin)
{
    if constexpr (kMany) {
        return first.from(begin);
    }
    else {
        return first;
    }
}

/* R is what distances are computed in. A warp's rows are of one kind, see span.cuh. With kEither
 * there may be many matrices, each of `each` blocks. */
template <int kMetric, gd::Form kForm, typename R, typename T>
__global__ void __launch_bounds__(kThreads, 3)
    bits(const __grid_constant__ Bits<T, kForm> call, const __grid_constant__ gd::Grid grid,
         unsigned each, unsigned log_row_kinds)
{
    constexpr int kWord = gd::kPerWord<T>, kShare = kWord / 2; /* products that make up a word */
    constexpr bool kShifted = kForm != gd::Form::kMatrix, kMany = kShifted;
    const unsigned log_kinds = kShifted ? log_row_kinds : 0;
    __shared__ gd::Begin shared;
    const unsigned block = kMany ? blockIdx.x % each : blockIdx.x;
    unsigned tile_row, tile_col;
    if (!(kShifted ? grid.find(&tile_row, &tile_col, block)
                   : grid.find<gd::Form::kMatrix>(&tile_row, &tile_col, block)) ||
        !call.has((ptrdiff_t)(tile_row >> log_kinds) * kBlockRows << log_kinds,
                  (ptrdiff_t)(tile_col + 1) * kBlockCols)) {
        return;
    }

    int sum[kDown][kAcross][4];
    start_counting(sum, Counter<R>::start);
    unsigned thread = threadIdx.x;
    if constexpr (kMany) {
        call.all.find(shared, blockIdx.x / each, call.a.count, call.b.count);
        if (is_idle(call, tile_row, tile_col, thread / 32, log_kinds)) {
            return;
        }
    }
    /* Read anew where it is needed: registers are too scarce to keep it. */
    const volatile gd::Begin &begin = shared;
    for (ptrdiff_t word = 0; word < call.length; word += kStep) {
        if constexpr (kShifted) {
            gd::hide_origin(tile_row), gd::hide_origin(tile_col), gd::hide_origin(thread);
        }
        const gd::Target<T, kForm> &out = moved<kMany, gd::Target<T, kForm>>(call, begin.out);
        const Corner from(out, tile_row, tile_col, thread, log_kinds);
        decltype(auto) rows = moved<kMany>(call.a, begin.a);
        decltype(auto) columns = moved<kMany>(call.b, begin.b);
        const unsigned eighth = thread % 32 / 4;
        const ptrdiff_t own = word + thread % 4 * GD_BITS_ALIGNMENT;
        const bool present = own < call.length;
        uint4 a[kDown][2], b[kAcross];
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
            a[i][0] = load_group(rows, from.row + (i * 16 << log_kinds), own, present);
            a[i][1] = load_group(rows, from.row + (i * 16 + 8 << log_kinds), own, present);
        }
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
            /* Column 2 q + e of product j belongs to thread q: kShare products interleave, so that
             * a thread's pairs from them touch. */
            const int at =
                j / kShare * 8 * kShare + eighth / 2 * kWord + j % kShare * 2 + eighth % 2;
            b[j] = load_group(columns, kShifted ? max(from.col + at, (ptrdiff_t)0) : from.col + at,
                              own, present);
        }
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
#pragma unroll
            for (int j = 0; j < kAcross; ++j) {
                gd::count_bits(sum[i][j], a[i][0].x, a[i][1].x, a[i][0].y, a[i][1].y, b[j].x,
                               b[j].y);
                gd::count_bits(sum[i][j], a[i][0].z, a[i][1].z, a[i][0].w, a[i][1].w, b[j].z,
                               b[j].w);
            }
        }
    }

    const gd::Target<T, kForm> &out = moved<kMany, gd::Target<T, kForm>>(call, begin.out);
    const Corner to(out, tile_row, tile_col, thread, log_kinds);
    const double *const a_terms = call.a_terms + (kMany ? begin.rows_a : 0);
    const double *const b_terms = call.b_terms + (kMany ? begin.rows_b : 0);
    const R columns = (R)(sizeof(R) == sizeof(float) ? (float)call.columns : call.columns);
#pragma unroll
    for (int r = 0; r < kAcross / kShare; ++r) {
        const gd::Span<T> span(out, to.col + (r * 4 + thread % 4) * kWord, 1);
        R y[kWord];
#pragma unroll
        for (int j = 0; j < kWord; ++j) {
            y[j] = own_count<R>(b_terms, span.column(call.b, j));
        }
#pragma unroll
        for (int i = 0; i < 2 * kDown; ++i) {
            const ptrdiff_t at = to.row + (i * 8 << log_kinds);
            const R x = own_count<R>(a_terms, call.a.clamp(at));
            T results[kWord];
#pragma unroll
            for (int j = 0; j < kWord; ++j) {
                const int counted = sum[i / 2][r * kShare + j / 2][i % 2 * 2 + j % 2];
                results[j] = (T)distance<kMetric, R>(call.metric, counted, x, y[j], columns).value;
            }
            if (at < call.a.count) {
                span.store(out.row(at) + span.first, results, span.start(out, at));
            }
        }
    }
}

/* ---------------------------------------------------------------- launch */

/* Whether all rows of all results start on 16-byte boundaries. */
template <typename T>
bool has_words(const gd_cdist &call)
{
    const gd::Matrices all = gd::matrices_of<T, int32_t>(call);
    return gd::target_of<T>(call).words && gd::all_of_words<T>(all, all.out);
}

template <int kMetric, gd::Form kForm, typename R, typename T>
cudaError_t launch_form(const gd_cdist &call, bool words)
{
    Bits<T, kForm> bits_call = {gd::target_of<T, kForm>(call),
                                gd::matrices_of<T, int32_t>(call),
                                gd::points_of<int32_t>(call.a),
                                gd::points_of<int32_t>(call.b),
                                call.a.cols,
                                call.a_terms,
                                call.b_terms,
                                call.weight_sum,
                                call.metric};
    bits_call.words = words;
    const unsigned log_kinds = log_kinds_of(bits_call, gd::kLogWord<T>);
    const ptrdiff_t columns = call.out.cols + (1 << log_kinds) - 1; /* shifted rows are longer */
    const ptrdiff_t down = gd::ceil_div(call.out.rows, kBlockRows << log_kinds) << log_kinds;
    const gd::Grid grid(call.pairs, down, gd::ceil_div(columns, kBlockCols), kBand, kBlockRows,
                        kBlockCols);
    return gd::enqueue(call.launch, bits<kMetric, kForm, R, T>, grid.blocks() * bits_call.all.count,
                       dim3(kThreads), 0, bits_call, grid, (unsigned)grid.blocks(), log_kinds);
}

template <gd_metric kMetric, typename R, typename T>
cudaError_t launch(const gd_cdist &call)
{
    const bool words = has_words<T>(call);
    return call.many.count == 0 && words
               ? launch_form<kMetric, gd::Form::kMatrix, R, T>(call, words)
               : launch_form<kMetric, gd::Form::kEither, R, T>(call, words);
}

template <gd_metric kMetric>
cudaError_t launch_metric(const gd_cdist &call)
{
    if (call.out.dtype == GD_F64) {
        return launch<kMetric, Count<double>, double>(call);
    }
    return launch<kMetric, Count<float>, float>(call);
}

cudaError_t launch_any(const gd_cdist &call)
{
    /* Beside counting so many columns, finishing is nothing. */
    if (call.out.dtype == GD_F32 && call.weight_sum >= 0x1p23) {
        return launch_form<kAsCalled, gd::Form::kEither, Count<double>, float>(
            call, has_words<float>(call));
    }
    switch (call.metric) {
        case GD_DICE:
            return launch_metric<GD_DICE>(call);
        case GD_JACCARD:
            return launch_metric<GD_JACCARD>(call);
        case GD_KULCZYNSKI1:
            return launch_metric<GD_KULCZYNSKI1>(call);
        case GD_ROGERSTANIMOTO:
            return launch_metric<GD_ROGERSTANIMOTO>(call);
        case GD_RUSSELLRAO:
            return launch_metric<GD_RUSSELLRAO>(call);
        case GD_SOKALSNEATH:
            return launch_metric<GD_SOKALSNEATH>(call);
        case GD_YULE:
            return launch_metric<GD_YULE>(call);
        default:
            return launch_metric<GD_HAMMING>(call);
    }
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_bits(gd_cdist *call, gd_error *err)
{
    if (gd::sizes_nothing(call->launch)) {
        return GD_OK;
    }
    if (call->weight_sum >= 0x1p32) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "cdist/cuda_bits counts fewer than 2**32 columns, not %.0f",
                       call->weight_sum);
    }
    GD_CUDA_TRY(err, "cdist/cuda_bits", launch_any(*call));
    return GD_OK;
}
