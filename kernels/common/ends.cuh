/* ends.cuh: metrics whose sums are the same. What adds them up is compiled once for all of them,
 * and told by the call how to end: a branch that all threads take alike. */
#ifndef GPUDIST_COMMON_ENDS_CUH
#define GPUDIST_COMMON_ENDS_CUH

#include <type_traits>

#include "common/metrics.cuh"

namespace gd {

/* Calls f(M{}) for one of the metrics that have the terms of the given one. kLpOnly: it is of the
 * Lp family. */
template <bool kLpOnly, typename F>
gd_status with_terms(gd_metric metric, F &&f)
{
    if (metric == GD_CITYBLOCK) {
        return f(Metric<GD_CITYBLOCK>{});
    }
    if (metric == GD_CHEBYSHEV) {
        return f(Metric<GD_CHEBYSHEV>{});
    }
    if constexpr (!kLpOnly) {
        if (metric == GD_INNER_PRODUCT) {
            return f(Metric<GD_INNER_PRODUCT>{});
        }
    }
    return f(Metric<GD_SQEUCLIDEAN>{});
}

/* Calls f(Metric<...>{}) for the call's metric, whose terms are those of M. */
template <typename M, bool kLpOnly, typename F>
__device__ __forceinline__ void with_end(gd_metric metric, F &&f)
{
    if constexpr (!M::squares) {
        f(M{});
    }
    else if (metric == GD_EUCLIDEAN) {
        f(Metric<GD_EUCLIDEAN>{});
    }
    else if (kLpOnly || metric != GD_COSINE) {
        f(Metric<GD_SQEUCLIDEAN>{});
    }
    else if constexpr (!kLpOnly) {
        f(Metric<GD_COSINE>{});
    }
}

/* Euclidean, sqeuclidean and cosine, for what is told by the call which of them it is. */
struct Ended : Metric<GD_SQEUCLIDEAN> {};
template <typename M>
constexpr bool kIsEnded = std::is_same<M, Ended>::value;

/* Calls f(Metric<...>{}) for what results of M end by: M, unless it is Ended. */
template <typename M, typename F>
__device__ __forceinline__ void with_end_of([[maybe_unused]] gd_metric metric, F &&f)
{
    if constexpr (kIsEnded<M>) {
        with_end<M, false>(metric, f);
    }
    else {
        f(M{});
    }
}

}  // namespace gd
#endif
