/* call.cuh: a call as sums.cu sees it, and what becomes of a pair's sums: a result, or one that is
 * computed again. */
#ifndef GPUDIST_CDIST_SUMS_CALL_CUH
#define GPUDIST_CDIST_SUMS_CALL_CUH

#include "cdist/matrices.cuh"
#include "cdist/sums/terms.cuh"

namespace gd {
namespace sums {

template <typename T>
struct Call : Cdist<T> { /* of the first matrix, where there are many */
    Matrices all;
    gd_metric metric;
    const double *weights, *a_terms, *b_terms;
    double p, weight_sum, scale;
    Exponent power, root; /* p and 1 / p */
    float least;          /* last sum that is good, where sums can be too small */
    /* What swift forms take: terms of the rows, what elements are multiplied by, the same if only
     * the device knows it, for each matrix of b, and good sums (kSwiftPowers). Terms are those of
     * the operands' own matrices, one after the other. */
    const void *a_rows, *b_rows;
    float unit;
    const float *unit_at;
    float least_mean, most_mean;

    /* Loads that stores to the result do not stand between are done once a row or column. */
    template <typename R>
    __device__ __forceinline__ R terms(const Begin &begin, ptrdiff_t row, ptrdiff_t col) const
    {
        return a_terms
                   ? (R)__ldg(a_terms + begin.rows_a + row) + (R)__ldg(b_terms + begin.rows_b + col)
                   : R(0);
    }
};

/* A call as given. */
template <int kSum, typename T>
Call<T> call_of(const gd_cdist &given)
{
    Call<T> call = {};
    call.all = matrices_of<T>(given);
    (Cdist<T> &)call = first_of<T>(given, call.all);
    call.metric = given.metric;
    call.weights = given.weights;
    call.a_terms = given.a_terms, call.b_terms = given.b_terms;
    call.p = given.p;
    call.weight_sum = given.weight_sum;
    call.scale = given.scale;
    call.power = Exponent(given.p), call.root = Exponent(1 / given.p);
    call.least = kSum == GD_SUM_POWERS ? smallest_good_power_sum(given.p) : GD_F32_SQUARES_SAFE_MIN;
    return call;
}

/* p in the type that terms of the given type want. */
template <typename T>
__device__ __forceinline__ const Exponent &exponent_for(const Call<T> &call, float)
{
    return call.power;
}
template <typename T>
__device__ __forceinline__ double exponent_for(const Call<T> &call, double)
{
    return call.p;
}

GD_DEFINE_FINISH(static __device__ __forceinline__, distance, float, approximate_sqrt_ftz,
                 cube_root, powf)
GD_DEFINE_FINISH(static __device__ __forceinline__, distance, double, sqrt, cbrt, pow)
GD_DEFINE_FINISH_TRUTHS(static __device__ __noinline__, truths_distance, float)
GD_DEFINE_FINISH_TRUTHS(static __device__ __noinline__, truths_distance, double)

/* Exponents above 1 magnify the error of `power`. */
static __device__ __noinline__ double wide_power(double x, double p) { return pow(x, p); }

/* The metric of sums that have but one; as a constant, it leaves of `distance` what it needs. */
template <int kSum>
constexpr __device__ gd_metric metric_of()
{
#define GD_METRIC_OF_SUMS(name, count, metric) kSum == GD_SUM_##name ? (int)(metric):
    constexpr int kMetric = GD_SUMS(GD_METRIC_OF_SUMS)(int) GD_SEVERAL;
#undef GD_METRIC_OF_SUMS
    static_assert(kMetric != GD_SEVERAL, "the call says which metric these sums belong to");
    return (gd_metric)kMetric;
}
template <int kSum>
__device__ __forceinline__ double exponent_of(double p)
{
    return kSum == GD_SUM_CUBES           ? 3
           : kSum == GD_SUM_FOURTH_POWERS ? 4
           : kSum == GD_SUM_SQUARE_ROOTS  ? 0.5
                                          : p;
}

template <int kSum, typename R, typename T>
__device__ __forceinline__ R finish(const Call<T> &call, const Begin &begin, const R *s,
                                    ptrdiff_t row, ptrdiff_t col)
{
    constexpr bool kSingle = sizeof(R) == sizeof(float);
    if constexpr (kSum == GD_SUM_TRUTHS) {
        /* Products of weights may be too large or too small for float32. */
        if (kSingle && call.metric == GD_YULE) {
            return (R)truths_distance(GD_YULE, (double)s[0], (double)s[1], (double)s[2],
                                      (double)s[3]);
        }
        return truths_distance(call.metric, s[0], s[1], s[2], s[3]);
    }
    else if constexpr (kSum == GD_SUM_POWERS && kSingle) {
        return call.p < 1 ? (R)wide_power(s[0], 1 / call.p) : power(s[0], call.root);
    }
    else if constexpr (kSum == GD_SUM_SQUARES) {
        const R terms = call.template terms<R>(begin, row, col);
        return call.metric == GD_HELLINGER   ? distance(GD_HELLINGER, s, R(0), R(0), R(0), terms)
               : call.metric == GD_EUCLIDEAN ? distance(GD_EUCLIDEAN, s, R(0), R(0), R(0), R(0))
                                             : s[0];
    }
    else {
        const R terms = kSum == GD_SUM_ENTROPY ? call.template terms<R>(begin, row, col) : R(0);
        return distance(metric_of<kSum>(), s, (R)exponent_of<kSum>(call.p), (R)call.weight_sum,
                        (R)call.scale, terms);
    }
}

/* Whether float32 sums are good. Relative entropy may well be infinite. */
template <int kSum, bool kWeighted, typename R, typename T>
__device__ __forceinline__ bool good(const Call<T> &call, const R *s)
{
    bool yes = true;
    if constexpr (kDoubtful<kSum, kWeighted, R>) {
#pragma unroll
        for (int i = 0; i < kCount<kSum>; ++i) {
            yes &= kSum == GD_SUM_RELATIVE_ENTROPY ? s[i] == s[i] : s[i] <= FLT_MAX;
        }
        if constexpr (kBounded<kSum, R>) {
            yes &= s[kCount<kSum> - 1] >= call.least;
        }
    }
    return yes;
}

/* What differences are divided by before they are raised to a power, so that even float64 holds it:
 * the largest that has weight. With kWeighted there are weights: a kernel of weighted powers of
 * float32 is for calls that have some (launch_weighted in sums.cu). */
template <bool kWeighted>
static __device__ double unit_of(const Call<float> &call, const Points<float> &a,
                                 const Points<float> &b, ptrdiff_t row, ptrdiff_t col)
{
    double largest = 0;
    for (ptrdiff_t k = 0; k < call.d; ++k) {
        if (!kWeighted || call.weights[k] > 0) {
            largest = fmax(largest, fabs((double)a.at(row, k) - (double)b.at(col, k)));
        }
    }
    return largest > 0 && largest <= DBL_MAX ? largest : 1;
}

/* Computes a run's results that are NaN again, in float64 from global memory, as gd::recompute_f64
 * does. */
template <int kSum, bool kWeighted>
__device__ __forceinline__ void recompute_run(const Call<float> &call, const Points<float> &a_rows,
                                              const Points<float> &b_rows, const Target<float> &to,
                                              const Begin &begin, ptrdiff_t row, ptrdiff_t end,
                                              const Run<float> &run)
{
    using E = Element<kSum, double, true>;
    for (; row < end; ++row) {
        for (int j = 0; j < run.count; ++j) {
            const ptrdiff_t col = run.first + j * run.step;
            if (run.start(to, row) > j * run.step) {
                continue;
            }
            float *const at = to.row(row) + col;
            if (*at == *at) {
                continue;
            }
            const double unit =
                kSum == GD_SUM_POWERS ? unit_of<kWeighted>(call, a_rows, b_rows, row, col) : 1;
            double total[kCount<kSum>] = {};
            for (ptrdiff_t k = 0; k < call.d; ++k) {
                double a, b, weight = 1;
                E::split(a_rows.at(row, k), 1.0f, &a);
                E::split(b_rows.at(col, k), 1.0f, &b);
                if (kWeighted && call.weights != NULL) {
                    weight = weight_of<kSum, double>(call.weights[k]);
                }
                if constexpr (kSum == GD_SUM_POWERS) { /* without weight, a power may be infinite */
                    a = (a - b) / (weight > 0 ? unit : HUGE_VAL), b = 0;
                }
                add<kSum, kWeighted, double>(total, a, b, weight, call.p);
            }
            *at = (float)(unit * finish<kSum, double>(call, begin, total, row, col));
        }
    }
}

template <int kSum, bool kWeighted>
__device__ __noinline__ void recompute_f64(const Call<float> &call, Begin begin, ptrdiff_t row,
                                           ptrdiff_t end, Run<float> run)
{
    recompute_run<kSum, kWeighted>(call, call.a.from(begin.a), call.b.from(begin.b),
                                   call.from(begin.out), begin, row, end, run);
}

/* Of a matrix that is alone. */
template <int kSum, bool kWeighted>
__device__ __noinline__ void recompute_f64(const Call<float> &call, ptrdiff_t row, ptrdiff_t end,
                                           Run<float> run)
{
    recompute_run<kSum, kWeighted>(call, call.a, call.b, call, Begin{}, row, end, run);
}

}  // namespace sums
}  // namespace gd
#endif
