/* metrics.cuh: what the kernels of cdist share: their parameters, the arithmetic of the metrics,
 * how results are stored, and float32 results that lost digits, computed again. */
#ifndef GPUDIST_COMMON_METRICS_CUH
#define GPUDIST_COMMON_METRICS_CUH

#include <float.h>

#include "arch/approximate.cuh"
#include "common/launch.cuh"
#include "common/words.cuh"
#include "metric_terms.h"

/* ---------------------------------------------------------------- primitives of metric_terms.h */

/* fma is spelled out rather than left to the compiler: results must not depend on its mood. The
 * maximum drops a NaN operand, which is what SciPy's Chebyshev does with a NaN difference. */
__device__ __forceinline__ float gd_add_square(float acc, float t) { return fmaf(t, t, acc); }
__device__ __forceinline__ double gd_add_square(double acc, double t) { return fma(t, t, acc); }
__device__ __forceinline__ float gd_add_abs(float acc, float t) { return acc + fabsf(t); }
__device__ __forceinline__ double gd_add_abs(double acc, double t) { return acc + fabs(t); }
__device__ __forceinline__ float gd_add_product(float acc, float x, float y)
{
    return fmaf(x, y, acc);
}
__device__ __forceinline__ double gd_add_product(double acc, double x, double y)
{
    return fma(x, y, acc);
}
template <typename T>
__device__ __forceinline__ T gd_at_most_two(T x)
{
    return x > 2 ? T(2) : x; /* not fmin, which would turn NaN into 2 */
}
__device__ __forceinline__ float gd_max_abs(float acc, float t) { return fmaxf(acc, fabsf(t)); }
__device__ __forceinline__ double gd_max_abs(double acc, double t)
{
    return fabs(t) > acc ? fabs(t) : acc; /* fmax on doubles is ten instructions, this is three */
}
__device__ __forceinline__ double gd_root(double x) { return sqrt(x); }

/* Correctly rounded for 2**-101 <= x <= FLT_MAX: an approximate reciprocal root, then one step of
 * Newton whose residual x - s * s is exact. sqrtf is this very sequence between two tests for
 * other x, which costs as much again. Here 0, subnormal, infinite and negative x and NaN give NaN,
 * which the test for lost digits (Metric::safe) has to catch in any case. */
__device__ __forceinline__ float gd_root(float x)
{
    const float reciprocal = gd::approximate_rsqrt_ftz(x), s = __fmul_rn(x, reciprocal);
    return __fmaf_rn(__fmaf_rn(-s, s, x), __fmul_rn(reciprocal, 0.5f), s);
}

namespace gd {

/* Whether 2**-970 <= x <= DBL_MAX. */
__device__ __forceinline__ bool is_middling(double x)
{
    return (unsigned)__double2hiint(x) - 0x03500000u < 0x7ca00000u;
}
/* sqrt() of such numbers, by its own instructions. The approximation sees the upper half of x and
 * gives that of a number of 20 bits, whose lower half may be anything; a series makes all bits of
 * it, and then one step of Newton as for float32. */
__device__ __forceinline__ double root_of_middling(double x)
{
    double y = approximate_rsqrt_ftz(x);
    y = __hiloint2double(__double2hiint(y), __double2hiint(x) - 0x03500000);
    const double e = fma(x, -(y * y), 1.0);
    const double reciprocal = fma(fma(e, 0.375, 0.5), y * e, y), s = x * reciprocal;
    return fma(fma(s, -s, x), 0.5 * reciprocal, s);
}
/* sqrt() of any number that is not below 0. */
__device__ __forceinline__ double root_of_any(double x)
{
    const double root = root_of_middling(is_middling(x) ? x : x * 0x1p108);
    return is_middling(x) ? root : x > 0 && x < 1 ? root * 0x1p-54 : x;
}

__device__ __forceinline__ float reciprocal(float x) { return approximate_reciprocal_ftz(x); }
/* The reciprocal in all bits: the approximation has 20, a series makes the rest. */
__device__ __forceinline__ double reciprocal(double x)
{
    const double y = approximate_reciprocal_ftz(x), e = fma(-x, y, 1.0);
    return fma(y, fma(e, e, e), y);
}

/* Six instructions (float64: seven) where IEEE's division takes ten and a branch: a reciprocal, the
 * quotient, and its correction by what is left of x. Correctly rounded but for a rare last bit, for
 * normal y with a normal reciprocal. */
template <typename T>
__device__ __forceinline__ T quotient(T x, T y)
{
    const T inverse = reciprocal(y), q = x * inverse;
    return gd_add_product(q, gd_add_product(x, -q, y), inverse);
}

/* ---------------------------------------------------------------- metrics */

/* Whether a float32 result is known to be good. A sum of squares is within the safe range exactly
 * if its rounded root is at least 2**-50: there the range's upper end needs no test, as the root
 * of infinity came out NaN. Comparisons with NaN are false. */
static_assert(GD_F32_SQUARES_SAFE_MIN == 0x1p-50f * 0x1p-50f, "the root of the least safe sum");
#define GD_SAFE_EUCLIDEAN(x) ((x) >= 0x1p-50f)
#define GD_SAFE_SQEUCLIDEAN(x) ((x) >= GD_F32_SQUARES_SAFE_MIN && (x) <= GD_F32_SQUARES_SAFE_MAX)
#define GD_SAFE_CITYBLOCK(x) ((void)(x), true)
#define GD_SAFE_CHEBYSHEV(x) ((void)(x), true)
/* Differences of unit rows: a square that underflows is far below the rounding of the rows. */
#define GD_SAFE_COSINE(x) ((void)(x), true)
/* Once a product is infinite the sum is, too, or NaN. A sum of 0 passes for good, lest rows without
 * a common dimension be slow: what underflow can take from it is nothing beside other sums. */
#define GD_SAFE_INNER_PRODUCT(x) \
    (fabsf(x) <= FLT_MAX && (fabsf(x) >= GD_F32_SQUARES_SAFE_MIN || (x) == 0))

template <gd_metric kMetric>
struct Metric;

/* folds: whether sums over many dimensions need a fresh accumulator every GD_FOLD dimensions.
 * guarded: whether `safe` may say no, as it may of sums of squares and of products. */
#define GD_DEFINE_METRIC(NAME, is_sum, is_squares, is_guarded)                              \
    template <>                                                                             \
    struct Metric<GD_##NAME> {                                                              \
        static constexpr gd_metric metric = GD_##NAME;                                      \
        static constexpr bool folds = is_sum, squares = is_squares;                         \
        template <typename T>                                                               \
        static constexpr bool guarded = is_guarded && sizeof(T) == sizeof(float);           \
        static constexpr bool root = GD_##NAME == GD_EUCLIDEAN;                             \
        static constexpr bool lp = GD_##NAME != GD_COSINE && GD_##NAME != GD_INNER_PRODUCT; \
        template <typename T>                                                               \
        static __device__ __forceinline__ T term(T acc, T a, T b)                           \
        {                                                                                   \
            return GD_TERM_##NAME(acc, a, b);                                               \
        }                                                                                   \
        template <typename T>                                                               \
        static __device__ __forceinline__ T join(T total, T acc)                            \
        {                                                                                   \
            return GD_JOIN_##NAME(total, acc);                                              \
        }                                                                                   \
        template <typename T>                                                               \
        static __device__ __forceinline__ T finish(T total)                                 \
        {                                                                                   \
            return GD_FINISH_##NAME(total);                                                 \
        }                                                                                   \
        static __device__ __forceinline__ bool safe(float x) { return GD_SAFE_##NAME(x); }  \
        static __device__ __forceinline__ bool safe(double) { return true; }                \
    };
GD_DEFINE_METRIC(EUCLIDEAN, true, true, true)
GD_DEFINE_METRIC(SQEUCLIDEAN, true, true, true)
GD_DEFINE_METRIC(CITYBLOCK, true, false, false)
GD_DEFINE_METRIC(CHEBYSHEV, false, false, false)
GD_DEFINE_METRIC(COSINE, true, false, false)
GD_DEFINE_METRIC(INNER_PRODUCT, true, false, true)
#undef GD_DEFINE_METRIC

/* The sum that a first dimension makes, for the Lp family: M::term(0, a, b) without its addition,
 * which the compiler would have to keep, as 0 + x is not x for x = -0. */
template <typename M>
__device__ __forceinline__ float first_term(float a, float b)
{
    const float t = a - b;
    if (!M::folds) {
        return M::term(0.0f, a, b); /* a maximum drops NaN */
    }
    return M::squares ? t * t : fabsf(t);
}

/* The result of a total over d dimensions. Up to kShortDims of them make a row of short.cu, where
 * roots of one instruction are a tenth of the time; tile.cu and few.cu, of equal bits, have the
 * same. */
constexpr ptrdiff_t kShortDims = 20;
template <typename M, typename T>
__device__ __forceinline__ T finish(T total, ptrdiff_t d)
{
    if constexpr (M::root && sizeof(T) == sizeof(float)) {
        return d <= kShortDims ? approximate_sqrt_ftz(total) : M::finish(total);
    }
    return M::finish(total);
}

/* Makes results of some totals at once. Of float64, sqrt() has a branch of its own for arguments at
 * the ends of the range, so that a warp waits for one root after the other, each of eight
 * instructions in a row; here one branch serves all. */
template <typename M, typename T, int kCount>
__device__ __forceinline__ void finish_all(T (&totals)[kCount])
{
    if constexpr (M::root && sizeof(T) == sizeof(double)) {
        bool middling = true;
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            middling &= is_middling(totals[j]);
        }
        if (middling) {
#pragma unroll
            for (int j = 0; j < kCount; ++j) {
                totals[j] = root_of_middling(totals[j]);
            }
        }
        else {
#pragma unroll
            for (int j = 0; j < kCount; ++j) {
                totals[j] = root_of_any(totals[j]);
            }
        }
    }
    else {
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            totals[j] = M::finish(totals[j]);
        }
    }
}

/* Whether such a result is known to be good: the root of infinity may be infinity. */
template <typename M>
__device__ __forceinline__ bool is_good(float x)
{
    return M::safe(x) && (!M::root || x <= FLT_MAX);
}
template <typename M>
__device__ __forceinline__ bool is_good(double)
{
    return true;
}

/* Calls f(Metric<...>{}) for a metric of the Lp family. */
template <typename F>
gd_status with_lp_metric(gd_metric metric, F &&f)
{
    switch (metric) {
        case GD_SQEUCLIDEAN:
            return f(Metric<GD_SQEUCLIDEAN>{});
        case GD_CITYBLOCK:
            return f(Metric<GD_CITYBLOCK>{});
        case GD_CHEBYSHEV:
            return f(Metric<GD_CHEBYSHEV>{});
        default:
            return f(Metric<GD_EUCLIDEAN>{});
    }
}

/* Calls f(Metric<...>{}) for every metric that is one sum without weights. */
template <typename F>
gd_status with_one_sum_metric(gd_metric metric, F &&f)
{
    switch (metric) {
        case GD_COSINE:
            return f(Metric<GD_COSINE>{});
        case GD_INNER_PRODUCT:
            return f(Metric<GD_INNER_PRODUCT>{});
        default:
            return with_lp_metric(metric, f);
    }
}

/* What a launcher does that needs no workspace: it calls launch(metric, type) for the call's dtype
 * and the metric for which with_metric(metric, f) calls f. */
template <typename With, typename F>
gd_status launch_for_metric(gd_cdist *call, const char *id, gd_error *err, With &&with_metric,
                            F &&launch)
{
    if (sizes_nothing(call->launch)) {
        return GD_OK;
    }
    return with_float_type(call->out.dtype, [&](auto type) {
        return with_metric(call->metric, [&](auto metric) {
            GD_CUDA_TRY(err, id, launch(metric, type));
            return GD_OK;
        });
    });
}

/* The same for metrics that are one sum without weights. kLpOnly: the others are not compiled. */
template <bool kLpOnly, typename F>
gd_status launch_one_sum(gd_cdist *call, const char *id, gd_error *err, F &&launch)
{
    const auto with_metric = [](gd_metric metric, auto &&f) {
        if constexpr (kLpOnly) {
            return with_lp_metric(metric, f);
        }
        else {
            return with_one_sum_metric(metric, f);
        }
    };
    return launch_for_metric(call, id, err, with_metric, static_cast<F &&>(launch));
}

template <typename F>
gd_status launch_lp(gd_cdist *call, const char *id, gd_error *err, F &&launch)
{
    return launch_one_sum<true>(call, id, err, static_cast<F &&>(launch));
}

/* ---------------------------------------------------------------- parameters */

/* The rows of one operand: any strides, in elements. */
template <typename T>
struct Points {
    const T *data;
    ptrdiff_t count, row_stride, col_stride;

    __device__ __forceinline__ T at(ptrdiff_t row, ptrdiff_t dim) const
    {
        return __ldg(data + row * row_stride + dim * col_stride);
    }
    __device__ __forceinline__ Points from(ptrdiff_t begin) const
    {
        return {data + begin, count, row_stride, col_stride};
    }
    /* Rows beyond the last read as the last one: that needs no branch and no padding, and the
     * results, which nobody stores, look no worse than real ones. */
    __device__ __forceinline__ ptrdiff_t clamp(ptrdiff_t row) const
    {
        return row < count ? row : count - 1;
    }
};

/* Where results go: `cols` of them a row, one row after the other, out_stride apart; or, with
 * `pairs`, those right of the diagonal alone, packed into one vector (gd_cdist). Row i of n has
 * n - i - 1 of them, so rows are what they are in a matrix of n columns, but for the i (i + 3) / 2
 * + 1 places that the rows up to it leave out. words: rows start on 16-byte boundaries. */
enum class Form { kMatrix, kPairs, kEither };
template <typename T, Form kForm = Form::kEither>
struct Target {
    T *out;
    ptrdiff_t out_stride, cols;
    bool words, pairs;

    __device__ __forceinline__ Target from(ptrdiff_t begin) const
    {
        return {out + begin, out_stride, cols, words, pairs};
    }
    /* Kernels that writing binds are made for one form, others for either. */
    __device__ __forceinline__ bool packed() const
    {
        return kForm == Form::kEither ? pairs : kForm == Form::kPairs;
    }
    /* Where the result in column 0 of a row stands, or would stand. */
    __device__ __forceinline__ T *row(ptrdiff_t i) const
    {
        return out + (i * out_stride - (packed() ? i * (i + 3) / 2 + 1 : 0));
    }
    /* How far it is from a row to one that many rows below. */
    __device__ __forceinline__ ptrdiff_t step(ptrdiff_t i, ptrdiff_t down) const
    {
        return down * out_stride - (packed() ? down * (2 * i + down + 3) / 2 : 0);
    }
    /* Whether there is a result in some row from `top` on and some column below `end`. */
    __device__ __forceinline__ bool has(ptrdiff_t top, ptrdiff_t end) const
    {
        return !packed() || end > top + 1;
    }
};

/* A call as its kernels see it. */
template <typename T, Form kForm = Form::kEither>
struct Cdist : Target<T, kForm> {
    Points<T> a, b;
    ptrdiff_t d;
};

template <typename T>
Points<T> points_of(const gd_matrix &x)
{
    return {(const T *)x.data, x.rows, x.row_stride, x.col_stride};
}

template <typename T, Form kForm = Form::kEither>
Target<T, kForm> target_of(const gd_cdist &call)
{
    T *const out = (T *)call.out.data;
    return {out, call.out.row_stride, call.out.cols,
            !call.pairs && rows_of_words(out, call.out.row_stride), call.pairs};
}

template <typename T, Form kForm = Form::kEither>
Cdist<T, kForm> parameters_of(const gd_cdist &call)
{
    return {target_of<T, kForm>(call), points_of<T>(call.a), points_of<T>(call.b), call.a.cols};
}

/* Calls f(form) for the call's form, a constant in `form`. */
template <Form kForm>
struct FormOf {
    static constexpr Form value = kForm;
};
template <typename F>
cudaError_t with_form(const gd_cdist &call, F &&f)
{
    return call.pairs ? f(FormOf<Form::kPairs>{}) : f(FormOf<Form::kMatrix>{});
}

/* ---------------------------------------------------------------- results */

/* The results that a thread has in one row, a word of them at most: at columns first,
 * first + step, ... Of these the matrix has `count`. word: they are neighbours, all there, and
 * aligned, so that one 16-byte store takes them. */
template <typename T>
struct Run {
    ptrdiff_t first, step;
    int count;
    bool word;

    /* A run in a matrix of so many columns; words: its rows start on 16-byte boundaries. */
    __device__ __forceinline__ Run(ptrdiff_t columns, bool words, ptrdiff_t first_, ptrdiff_t step_)
        : first(first_), step(step_), count(0)
    {
#pragma unroll
        for (int j = 0; j < kPerWord<T>; ++j) {
            count += first + j * step < columns;
        }
        word = words && step == 1 && count == kPerWord<T>;
    }

    template <Form kForm>
    __device__ __forceinline__ Run(const Target<T, kForm> &to, ptrdiff_t first_, ptrdiff_t step_)
        : Run(to.cols, to.words, first_, step_)
    {
    }

    /* How far the first column that has a place in the row is from the first of these: below 1
     * where all have one. It goes up with the row, so callers keep it. */
    template <Form kForm>
    __device__ __forceinline__ int start(const Target<T, kForm> &to, ptrdiff_t row) const
    {
        return to.packed() ? (int)(row + 1 - first) : INT_MIN / 2;
    }

    /* `row` points to the row's element at column `first`. What is not there reads as 0. */
    __device__ __forceinline__ void load(const T *row, T *results, int start = 0) const
    {
        if (word) {
            load_word(row, results);
            return;
        }
#pragma unroll
        for (int j = 0; j < kPerWord<T>; ++j) {
            results[j] = start <= j * step && j < count ? row[j * step] : T(0);
        }
    }

    /* Results leave the cache first; kKeep: the thread will load them again. */
    template <bool kKeep = false>
    __device__ __forceinline__ void store(T *row, const T *results, int start = 0) const
    {
        if (word) {
            if constexpr (kKeep) {
                store_word(row, results);
            }
            else {
                stream_word(row, results);
            }
            return;
        }
#pragma unroll
        for (int j = 0; j < kPerWord<T>; ++j) {
            if (start <= j * step && j < count) {
                if constexpr (kKeep) {
                    row[j * step] = results[j];
                }
                else {
                    __stcs(row + j * step, results[j]);
                }
            }
        }
    }
};

/* A result in float64 from global memory. */
template <typename M, Form kForm>
__device__ __forceinline__ float result_in_f64(const Cdist<float, kForm> &call, ptrdiff_t row,
                                               ptrdiff_t col)
{
    constexpr int kBatch = 4; /* dimensions that are on their way at once */
    double total = 0;
    for (ptrdiff_t first = 0; first < call.d; first += kBatch) {
        float a[kBatch], b[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
            const ptrdiff_t dim = first + k < call.d ? first + k : call.d - 1;
            a[k] = call.a.at(row, dim), b[k] = call.b.at(col, dim);
        }
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
            if (first + k < call.d) {
                total = M::term(total, (double)a[k], (double)b[k]);
            }
        }
    }
    return (float)M::finish(total);
}

/* Computes stored results that are not safe again, in float64 from global memory. A thread calls
 * this for what it has stored itself, after everything else: then it needs no list of bad results
 * (they show in what was stored), and being a function of its own, it takes no registers from the
 * hot path. Equal rows come here too, as zero is what underflow looks like. */
template <typename M, Form kForm>
__device__ __noinline__ void recompute_f64(const Cdist<float, kForm> &call, ptrdiff_t row,
                                           ptrdiff_t end, ptrdiff_t row_step, Run<float> run)
{
    for (; row < end; row += row_step) {
        for (int j = 0; j < run.count; ++j) {
            const ptrdiff_t col = run.first + j * run.step;
            if (run.start(call, row) > j * run.step) {
                continue;
            }
            float *const at = call.row(row) + col;
            if (is_good<M>(*at)) {
                continue;
            }
            *at = result_in_f64<M>(call, row, col);
        }
    }
}

/* Computes again, likewise, what a thread of a tile has stored: kRuns words in each of kRows rows
 * that touch, a warp's words side by side, 8 threads' at a time. */
template <typename M, int kRows, int kRuns, Form kForm>
__device__ __forceinline__ void recompute_tile_f64(const Cdist<float, kForm> &call, ptrdiff_t row,
                                                   ptrdiff_t col)
{
    const ptrdiff_t left = call.a.count - row;
    for (int r = 0; r < kRuns; ++r) {
        const Run<float> run(call, col + r * 8 * kPerWord<float>, 1);
        recompute_f64<M>(call, row, row + (left < kRows ? left : kRows), 1, run);
    }
}

}  // namespace gd
#endif
