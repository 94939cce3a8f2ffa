/* terms.cuh: what a pair of rows adds to a gradient, as gd_gradient defines it. */
#ifndef GPUDIST_GRADIENT_TERMS_CUH
#define GPUDIST_GRADIENT_TERMS_CUH

#include <float.h>

#include "common/metrics.cuh"

namespace gd {

/* The least quotient whose digits are safe; the largest is its reciprocal. */
template <typename T>
constexpr T kLeastFactor = FLT_MIN * 0x1p24f;
template <>
constexpr double kLeastFactor<double> = DBL_MIN * 0x1p53;

__device__ __forceinline__ float power(float x, float p) { return powf(x, p); }
__device__ __forceinline__ double power(double x, double p) { return pow(x, p); }

/* The power p - 1 of a difference's share of the distance. */
template <typename T>
__device__ __forceinline__ T slope(T share, T p)
{
    if (p == 3) {
        return share * share;
    }
    const T of_size = power(share, fabs(p - 1)); /* once: it is a hundred instructions */
    return p < 1 ? 1 / of_size : of_size;
}

/* factor: what the terms of a pair have in common; `apart` says that the pair is to be added by
 * itself (alone), as its factor's digits are not safe: it is 0 then.
 * add: a sum with a dimension's term, which reads the distance if needs_away. */
template <gd_metric kMetric>
struct Term {
    static constexpr gd_metric metric = kMetric;
    static constexpr bool has_away = kMetric != GD_SQEUCLIDEAN && kMetric != GD_INNER_PRODUCT;
    static constexpr bool needs_away = kMetric == GD_CHEBYSHEV || kMetric == GD_MINKOWSKI;
    /* A term is so many instructions that loops over several gain nothing by being unrolled. */
    static constexpr bool is_long = kMetric == GD_MINKOWSKI;

    template <typename T>
    static __device__ __forceinline__ T factor(T asked, T away, bool *apart)
    {
        if constexpr (kMetric == GD_SQEUCLIDEAN) {
            return asked + asked;
        }
        else if constexpr (kMetric == GD_INNER_PRODUCT) {
            return asked;
        }
        else if constexpr (kMetric == GD_EUCLIDEAN) {
            const T x = quotient(asked, away), size = fabs(x);
            const bool none = asked == 0 || away == 0;
            const bool safe = size >= kLeastFactor<T> && size <= 1 / kLeastFactor<T>;
            *apart |= !none && !safe;
            return !none && safe ? x : T(0);
        }
        else if constexpr (kMetric == GD_CITYBLOCK) {
            const bool endless = asked - asked != 0 && asked == asked;
            *apart |= endless;
            return endless ? T(0) : away == away || asked == 0 ? asked : away;
        }
        else if constexpr (kMetric == GD_CHEBYSHEV) {
            return away == 0 ? T(0) : asked; /* where two points are equal, no element counts */
        }
        else { /* NaN as a distance is NaN as a factor; of a distance of 0 there is no share */
            return away == 0 ? T(0) : away == away || asked == 0 ? asked : away;
        }
    }

    /* A term of a pair whose factor is not safe. */
    template <typename T>
    static __device__ __forceinline__ T alone(T asked, T away, T e)
    {
        return kMetric == GD_EUCLIDEAN ? asked * (e / away) : e > 0 ? asked : e < 0 ? -asked : T(0);
    }

    template <typename T>
    static __device__ __forceinline__ T add(T sum, T factor, T away, T a, T b, T p)
    {
        const T e = a - b;
        if constexpr (kMetric == GD_INNER_PRODUCT) {
            return gd_add_product(sum, factor, b);
        }
        else if constexpr (kMetric == GD_EUCLIDEAN || kMetric == GD_SQEUCLIDEAN) {
            return gd_add_product(sum, factor, e);
        }
        else if constexpr (kMetric == GD_CITYBLOCK) {
            return e == 0 ? sum : sum + (signbit(e) ? -factor : factor);
        }
        else if constexpr (kMetric == GD_CHEBYSHEV) {
            return fabs(e) == away ? sum + (signbit(e) ? -factor : factor) : sum;
        }
        else {
            return e != 0 && factor != 0 ? gd_add_product(sum, signbit(e) ? -factor : factor,
                                                          slope((T)fabs(e) / away, p))
                                         : sum;
        }
    }

    /* Adds a pair's terms to sums of both sides, with the bits of two calls of add. Sums are never
     * -0, so that 0 can be added to them. */
    template <typename T>
    static __device__ __forceinline__ void add_both(T &sum_a, T &sum_b, T factor, T away, T a, T b,
                                                    T p)
    {
        const T e = a - b, along = signbit(e) ? -factor : factor;
        if constexpr (kMetric == GD_INNER_PRODUCT) {
            sum_a = gd_add_product(sum_a, factor, b);
            sum_b = gd_add_product(sum_b, factor, a);
        }
        else if constexpr (kMetric == GD_EUCLIDEAN || kMetric == GD_SQEUCLIDEAN) {
            sum_a = gd_add_product(sum_a, factor, e);
            sum_b = gd_add_product(sum_b, -factor, e);
        }
        else if constexpr (kMetric == GD_MINKOWSKI) {
            if (e != 0 && factor != 0) {
                const T by = slope((T)fabs(e) / away, p);
                sum_a = gd_add_product(sum_a, along, by);
                sum_b = gd_add_product(sum_b, -along, by);
            }
        }
        else {
            const T term = (kMetric == GD_CITYBLOCK ? e != 0 : fabs(e) == away) ? along : T(0);
            sum_a += term;
            sum_b -= term;
        }
    }
};

/* Calls f(Term<...>{}) for the call's metric. */
template <typename F>
gd_status with_term(gd_metric metric, F &&f)
{
    switch (metric) {
        case GD_CITYBLOCK:
            return f(Term<GD_CITYBLOCK>{});
        case GD_CHEBYSHEV:
            return f(Term<GD_CHEBYSHEV>{});
        case GD_MINKOWSKI:
            return f(Term<GD_MINKOWSKI>{});
        case GD_SQEUCLIDEAN:
            return f(Term<GD_SQEUCLIDEAN>{});
        case GD_INNER_PRODUCT:
            return f(Term<GD_INNER_PRODUCT>{});
        default:
            return f(Term<GD_EUCLIDEAN>{});
    }
}

}  // namespace gd
#endif
