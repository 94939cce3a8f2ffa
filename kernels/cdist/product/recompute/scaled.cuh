/* scaled.cuh: the arithmetic of suspect elements, of rows as they are and of scaled ones.
 *
 * Products are taken of rows that are multiplied by the roots of weights after they have moved. A
 * suspect element of such rows is the sum of squares of differences that are multiplied likewise:
 * never of scaled rows, whose rounding is all that is left of rows that are nearly the same. The
 * steps that compute suspects are written for a metric M: one of metrics.cuh, or Scaled or Ended
 * (common/ends.cuh), whose call says at run time which of several it is, so that there is one copy
 * of these steps for all. */
#ifndef GPUDIST_CDIST_PRODUCT_RECOMPUTE_SCALED_CUH
#define GPUDIST_CDIST_PRODUCT_RECOMPUTE_SCALED_CUH

#include "common/ends.cuh"

namespace gd {
namespace product_form {

/* Whether an element is a row's distance to itself, which is 0 and nothing else: where rows meet
 * themselves these zeros are all that is suspect. */
template <typename T, Form kForm>
__device__ __forceinline__ bool is_itself(const Cdist<T, kForm> &call, ptrdiff_t row, ptrdiff_t col)
{
    return row == col && call.a.data == call.b.data && call.a.row_stride == call.b.row_stride &&
           call.a.col_stride == call.b.col_stride;
}

/* What squares of differences are multiplied by, and its roots, which find_centre writes. */
template <typename T>
struct Weights {
    const double *given = nullptr; /* one a dimension, or NULL: then every one has */
    double every = 1;
    double *roots = nullptr; /* one a dimension; NULL: rows are not scaled */
    /* Roots as T, NaN where float32 does not hold the weight: that makes suspects doubtful, and
     * doubtful ones are computed in float64. */
    T *rounded = nullptr;

    __device__ __forceinline__ double at(ptrdiff_t k) const
    {
        return given ? __ldg(given + k) : every;
    }
    __device__ __forceinline__ void write_root(ptrdiff_t k) const
    {
        const double weight = at(k), root = sqrt(weight);
        const bool held =
            sizeof(T) > sizeof(float) || weight == 0 || (weight >= FLT_MIN && weight <= FLT_MAX);
        roots[k] = root;
        rounded[k] = held ? (T)root : (T)NAN;
    }
};

/* What preparation found out about each row, NULL for nothing: of hellinger, what is added to
 * results; of mahalanobis, a bound: the sum of both rows' is the square of a distance below which
 * the rows are rounded too much. */
struct RowTerms {
    const double *a = nullptr, *b = nullptr;
    bool added = false;
    double most = 0; /* of a norm, that a bound may be: less than the share of suspects (Bounds) */
    unsigned *lost = nullptr; /* set where a result is below the bound, or next to it */

    __device__ __forceinline__ double of(ptrdiff_t row, ptrdiff_t col) const
    {
        return __ldg(a + row) + __ldg(b + col);
    }
    /* A row's norm from the sum of its squares: with what is added; or -infinity, so that all its
     * elements are suspect, where that takes away much of it, or where the bound is not far below
     * it. So what is not suspect, a share of both norms, is above both bounds, however it is
     * rounded. */
    __device__ __forceinline__ double norm(double squares, ptrdiff_t row, bool of_a) const
    {
        const double term = __ldg((of_a ? a : b) + row);
        const bool usual = added          ? term >= -0.25 * squares
                           : squares != 0 ? term <= most * squares
                                          : true;
        return !usual  ? -__longlong_as_double(0x7ff0000000000000)
               : added ? squares + term
                       : squares;
    }
};

/* A call of scaled rows. */
template <typename T, Form kForm = Form::kEither>
struct ScaledCall : Cdist<T, kForm> {
    Weights<T> weights;
    RowTerms terms;
    bool is_root; /* results are roots of sums */

    /* Nothing that is added vanishes where rows are equal. */
    __device__ __forceinline__ bool adds() const { return terms.a && terms.added; }
    /* Notes where less may be left of a sum than what rounding took from the rows, or its root left
     * the range of results; a row's distance to itself is exact. */
    __device__ __forceinline__ void judge(double sum, T root, ptrdiff_t row, ptrdiff_t col) const
    {
        if (!(sum >= 1.001 * terms.of(row, col) && root < (T)HUGE_VAL) &&
            !is_itself(*this, row, col)) {
            *terms.lost = 1;
        }
    }
    __device__ __forceinline__ T result(T sum, ptrdiff_t row, ptrdiff_t col) const
    {
        if (adds()) {
            sum += (T)terms.of(row, col);
            return sum <= 0 ? T(0) : gd_root(sum);
        }
        const T found = is_root ? gd_root(sum) : sum;
        if (terms.a && safe(found)) {
            judge((double)sum, found, row, col);
        }
        return found;
    }
    /* Whether a result is known to be good. What is added is of the order of 1: nothing that
     * vanishes beside it matters. */
    __device__ __forceinline__ bool safe(float x) const
    {
        return adds()    ? x <= FLT_MAX
               : is_root ? GD_SAFE_EUCLIDEAN(x) && x <= FLT_MAX
                         : GD_SAFE_SQEUCLIDEAN(x);
    }
    __device__ __forceinline__ bool safe(double) const { return true; }
};

struct Scaled {
    template <typename T>
    static constexpr bool guarded = sizeof(T) == sizeof(float);
    template <typename T>
    static __device__ __forceinline__ T join(T total, T sum)
    {
        return total + sum;
    }
};
template <typename M>
constexpr bool kScales = std::is_same<M, Scaled>::value;

/* A call of Ended. */
template <typename T, Form kForm = Form::kEither>
struct EndedCall : Cdist<T, kForm> {
    gd_metric metric;
};

/* Whether the call says what results of M are. */
template <typename M>
constexpr bool kEndsByCall = kScales<M> || kIsEnded<M>;

/* The call of kernels for M. */
template <typename M, typename T, Form kForm = Form::kEither>
using CallFor =
    std::conditional_t<kScales<M>, ScaledCall<T, kForm>,
                       std::conditional_t<kIsEnded<M>, EndedCall<T, kForm>, Cdist<T, kForm>>>;

/* All of a call that a kernel for Scaled was given. */
template <typename T, Form kForm>
__device__ __forceinline__ const ScaledCall<T, kForm> &whole(const Cdist<T, kForm> &call)
{
    return static_cast<const ScaledCall<T, kForm> &>(call);
}

/* Calls f(Metric<...>{}) for what results of M, which is not Scaled, end by. */
template <typename M, typename T, Form kForm, typename F>
__device__ __forceinline__ void with_end_in([[maybe_unused]] const Cdist<T, kForm> &call, F &&f)
{
    if constexpr (kIsEnded<M>) {
        with_end_of<M>(static_cast<const EndedCall<T, kForm> &>(call).metric, f);
    }
    else {
        f(M{});
    }
}

/* The root of a dimension's weight; beyond the last dimension, where differences are 0, of that. */
template <typename M, typename T, Form kForm>
__device__ __forceinline__ T root_at([[maybe_unused]] const Cdist<T, kForm> &call,
                                     [[maybe_unused]] ptrdiff_t k)
{
    if constexpr (kScales<M>) {
        return __ldg(whole(call).weights.rounded + min(k, call.d - 1));
    }
    return 0;
}

/* Adds a dimension's term; root: of its weight. */
template <typename M, typename T>
__device__ __forceinline__ T add_term(T sum, T a, T b, [[maybe_unused]] T root)
{
    if constexpr (kScales<M>) {
        return gd_add_square(sum, (a - b) * root);
    }
    else {
        return M::term(sum, a, b);
    }
}

template <typename M, typename T, Form kForm>
__device__ __forceinline__ T result_of([[maybe_unused]] const Cdist<T, kForm> &call,
                                       [[maybe_unused]] ptrdiff_t row,
                                       [[maybe_unused]] ptrdiff_t col, T total)
{
    if constexpr (kScales<M>) {
        return whole(call).result(total, row, col);
    }
    else {
        with_end_in<M>(call, [&](auto end) { total = end.finish(total); });
        return total;
    }
}

template <typename M, typename T, Form kForm>
__device__ __forceinline__ bool is_safe([[maybe_unused]] const Cdist<T, kForm> &call, T result)
{
    if constexpr (kScales<M>) {
        return whole(call).safe(result);
    }
    else {
        bool safe = true;
        with_end_in<M>(call, [&](auto end) { safe = end.safe(result); });
        return safe;
    }
}

/* Whether results are more than functions of the rows' difference. */
template <typename M, typename T, Form kForm>
__device__ __forceinline__ bool adds_terms([[maybe_unused]] const Cdist<T, kForm> &call)
{
    if constexpr (kScales<M>) {
        return whole(call).adds();
    }
    return false;
}

/* A result of scaled rows in float64 from global memory. */
template <Form kForm>
__device__ __noinline__ float scaled_in_f64(const ScaledCall<float, kForm> &call, ptrdiff_t row,
                                            ptrdiff_t col)
{
    double sum = 0;
#pragma unroll 4
    for (ptrdiff_t k = 0; k < call.d; ++k) {
        const double t = (double)call.a.at(row, k) - (double)call.b.at(col, k);
        sum = fma(t * call.weights.at(k), t, sum);
    }
    if (call.adds()) {
        sum += call.terms.of(row, col);
        return sum <= 0 ? 0 : (float)sqrt(sum);
    }
    const float found = (float)(call.is_root ? sqrt(sum) : sum);
    if (call.terms.a) {
        call.judge(sum, found, row, col);
    }
    return found;
}

/* Computes what a thread has stored and is not safe again: runs in rows [row, end). */
template <typename M, Form kForm>
__device__ __forceinline__ void recompute_run(const Cdist<float, kForm> &call, ptrdiff_t row,
                                              ptrdiff_t end, const Run<float> &run)
{
    if constexpr (!kScales<M>) {
        with_end_in<M>(
            call, [&](auto metric) { recompute_f64<decltype(metric)>(call, row, end, 1, run); });
    }
    else {
        for (; row < end; ++row) {
            for (int j = max(run.start(call, row), 0); j < run.count; ++j) {
                float &result = call.row(row)[run.first + j];
                if (!whole(call).safe(result)) {
                    result = scaled_in_f64(whole(call), row, run.first + j);
                }
            }
        }
    }
}

}  // namespace product_form
}  // namespace gd
#endif
