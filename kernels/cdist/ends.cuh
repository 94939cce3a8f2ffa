/* ends.cuh: metrics whose sums are the same. What adds them up is compiled once for all of them,
 * and told by the call how to end: a branch that all threads take alike. */
#ifndef GPUDIST_CDIST_ENDS_CUH
#define GPUDIST_CDIST_ENDS_CUH

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

}  // namespace gd
#endif
